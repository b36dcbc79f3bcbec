//! What a file is, as the bytes that stat(2), statx(2) and statfs(2) give to a program.

use std::os::fd::{AsFd, AsRawFd};

use heliostat_base::sys::{check, raw, Errno, Sysno};

/// Bytes of `struct stat`.
pub const STAT_BYTES: usize = std::mem::size_of::<libc::stat>();
/// Bytes of `struct statx`.
pub const STATX_BYTES: usize = std::mem::size_of::<libc::statx>();
/// Bytes of `struct statfs`.
pub const STATFS_BYTES: usize = std::mem::size_of::<libc::statfs>();

const EMPTY: *const libc::c_char = c"".as_ptr();

/// fstat(2); descriptors opened by path only will do.
pub fn stat(fd: impl AsFd) -> Result<[u8; STAT_BYTES], Errno> {
    let mut bytes = [0; STAT_BYTES];
    let number = fd.as_fd().as_raw_fd() as usize;
    let args = [number, bytes.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes one `struct stat` into as many bytes.
    check(unsafe { raw(Sysno::fstat as usize, args) })?;
    Ok(bytes)
}

/// stat(2) of a path below a directory, links of /proc's own kind followed as all others: for
/// names in /proc that lead to what another process holds.
///
/// # Errors
/// Those of fstatat(2); ENOENT too for a path with a NUL.
pub fn stat_at(folder: impl AsFd, path: &str) -> Result<[u8; STAT_BYTES], Errno> {
    let path = std::ffi::CString::new(path).map_err(|_| Errno(libc::ENOENT))?;
    let mut bytes = [0; STAT_BYTES];
    let number = folder.as_fd().as_raw_fd() as usize;
    let args = [number, path.as_ptr() as usize, bytes.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: the path is a C string, and the kernel writes one `struct stat` into as many bytes.
    check(unsafe { raw(Sysno::newfstatat as usize, args) })?;
    Ok(bytes)
}

/// statx(2) of what is open; of `flags` only those that say how fresh the answer is.
pub fn statx(fd: impl AsFd, flags: i32, mask: u32) -> Result<[u8; STATX_BYTES], Errno> {
    let mut bytes = [0; STATX_BYTES];
    let number = fd.as_fd().as_raw_fd() as usize;
    let flags = flags & libc::AT_STATX_SYNC_TYPE | libc::AT_EMPTY_PATH;
    let at = bytes.as_mut_ptr() as usize;
    let args = [number, EMPTY as usize, flags as usize, mask as usize, at, 0];
    // SAFETY: the path is a C string, and the kernel writes one `struct statx` into as many bytes.
    check(unsafe { raw(Sysno::statx as usize, args) })?;
    Ok(bytes)
}

/// fstatfs(2).
pub fn statfs(fd: impl AsFd) -> Result<[u8; STATFS_BYTES], Errno> {
    let mut bytes = [0; STATFS_BYTES];
    let number = fd.as_fd().as_raw_fd() as usize;
    let args = [number, bytes.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes one `struct statfs` into as many bytes.
    check(unsafe { raw(Sysno::fstatfs as usize, args) })?;
    Ok(bytes)
}

/// faccessat2(2) of what is open; `effective` asks for the effective user and not the real one.
pub fn access(fd: impl AsFd, mode: i32, effective: bool) -> Result<(), Errno> {
    let flags = libc::AT_EMPTY_PATH | if effective { libc::AT_EACCESS } else { 0 };
    let number = fd.as_fd().as_raw_fd() as usize;
    let args = [number, EMPTY as usize, mode as usize, flags as usize, 0, 0];
    // SAFETY: the path is a C string.
    check(unsafe { raw(Sysno::faccessat2 as usize, args) }).map(drop)
}
