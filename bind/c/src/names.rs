//! Names of files over C: opening, making, renaming and removing them; directories and locks.

use std::ffi::c_char;

use heliostat_abi::file::delegated as abi;
use heliostat_stub_file::{DelegatedError, DirectoryEntries, LockKind, LockWait};

use crate::border::{fail, give, lend, limit, text};
use crate::code::{guard, heliostat_code, *};
use crate::delegated::heliostat_delegated;
use crate::operations::{give_opened, heliostat_file, heliostat_piece, named, piece};

/// Open for reading.
pub const HELIOSTAT_READ: u32 = 1;
/// Open for writing.
pub const HELIOSTAT_WRITE: u32 = 2;
/// Open for the device itself: what is aligned to 4096 goes past every cache, the rest is EINVAL.
pub const HELIOSTAT_DIRECT: u32 = 4;
/// Open for the caches: reads never go past them, however large. Not with `HELIOSTAT_DIRECT`.
pub const HELIOSTAT_BUFFERED: u32 = 8;
/// Make the file if it is not there.
pub const HELIOSTAT_CREATE: u32 = 16;
/// It must not be there. With `HELIOSTAT_CREATE`.
pub const HELIOSTAT_EXCLUSIVE: u32 = 32;
/// It becomes empty. With `HELIOSTAT_WRITE`.
pub const HELIOSTAT_TRUNCATE: u32 = 64;
/// Open a directory. With `HELIOSTAT_READ` alone.
pub const HELIOSTAT_DIRECTORY: u32 = 128;
/// Times this, permissions are part of an access: `HELIOSTAT_CREATE + 0644 * HELIOSTAT_MODE`. The
/// program's umask takes its bits away.
pub const HELIOSTAT_MODE: u32 = 65536;
/// A rename replaces nothing.
pub const HELIOSTAT_NOREPLACE: u32 = 1;
/// The lock is given back.
pub const HELIOSTAT_UNLOCK: u32 = 0;
/// Others may have the same lock.
pub const HELIOSTAT_LOCK_SHARED: u32 = 1;
/// Nobody else may have any.
pub const HELIOSTAT_LOCK_ALONE: u32 = 2;
/// In a batch: EAGAIN instead of a wait.
pub const HELIOSTAT_LOCK_NOW: u32 = 4;

const _: () = assert!(HELIOSTAT_READ as u64 == abi::READ && HELIOSTAT_WRITE as u64 == abi::WRITE);
const _: () = assert!(HELIOSTAT_DIRECT as u64 == abi::DIRECT);
const _: () = assert!(HELIOSTAT_BUFFERED as u64 == abi::BUFFERED);
const _: () = assert!(HELIOSTAT_CREATE as u64 == abi::CREATE);
const _: () = assert!(HELIOSTAT_EXCLUSIVE as u64 == abi::EXCLUSIVE);
const _: () = assert!(HELIOSTAT_TRUNCATE as u64 == abi::TRUNCATE);
const _: () = assert!(HELIOSTAT_DIRECTORY as u64 == abi::DIRECTORY);
const _: () = assert!(HELIOSTAT_MODE as u64 == abi::mode(1));
const _: () = assert!(HELIOSTAT_NOREPLACE as u64 == abi::NOREPLACE);
const _: () =
    assert!(HELIOSTAT_UNLOCK as u64 == abi::UNLOCK && HELIOSTAT_LOCK_NOW as u64 == abi::NOW);
const _: () = assert!(HELIOSTAT_LOCK_SHARED as u64 == abi::SHARED);
const _: () = assert!(HELIOSTAT_LOCK_ALONE as u64 == abi::ALONE);

/// One entry of a directory.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_entry {
    /// Its number on the device.
    pub inode: u64,
    /// Where the entries after it begin.
    pub cookie: u64,
    /// Its name, without a zero at the end; as long as the bytes that it was found in.
    pub name: *const u8,
    /// Bytes of the name.
    pub name_bytes: usize,
    /// What it is, as d_type of readdir(3); 0 where the file system does not say.
    pub kind: u32,
    /// Zero.
    pub reserved: u32,
}

/// Has the server open the file `name` (an absolute path) with `access`: `HELIOSTAT_READ`,
/// `HELIOSTAT_WRITE` and more; with `HELIOSTAT_CREATE` the file's permissions times
/// `HELIOSTAT_MODE` are added. The name travels through `scratch`, a place of its length or more, and
/// of 64 bytes where the program may read the file by its own io_uring. Waits. What open(2) refuses
/// is `HELIOSTAT_NOT_FOUND`, `HELIOSTAT_DENIED`, `HELIOSTAT_TAKEN` (it is there, or a lease is in the
/// way), `HELIOSTAT_INVALID`, `HELIOSTAT_UNSUPPORTED` (no local file) or `HELIOSTAT_SYSTEM`, with its
/// words. A file that was made stays, also when there is no room for another open one.
///
/// # Safety
/// `session` is null or live; `name` is null or a C string; `file` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_delegated_open(
    session: *mut heliostat_delegated,
    name: *const c_char,
    access: u32,
    scratch: heliostat_piece,
    file: *mut heliostat_file,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let session = unsafe { lend(session)? }.0.get_mut()?;
        let open = |name: &str, scratch| session.open(name, u64::from(access), scratch);
        // SAFETY: the caller's promise.
        unsafe { give_opened(name, &scratch, file, open) }
    })
}

/// Makes a directory with permissions, of which the program's umask takes its bits away. The name, an
/// absolute path, travels through `scratch`, a place of its length or more. Waits. What mkdir(2)
/// refuses is `HELIOSTAT_TAKEN` (it is there), `HELIOSTAT_NOT_FOUND`, `HELIOSTAT_DENIED`,
/// `HELIOSTAT_INVALID`, `HELIOSTAT_UNSUPPORTED` or `HELIOSTAT_SYSTEM`, with its words: nothing was
/// made then. After `HELIOSTAT_PEER_GONE` it may have been made or not.
///
/// # Safety
/// `session` is null or live; `name` is null or a C string.
#[no_mangle]
pub unsafe extern "C" fn heliostat_delegated_mkdir(
    session: *mut heliostat_delegated,
    name: *const c_char,
    mode: u32,
    scratch: heliostat_piece,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promises.
        let (session, name) = unsafe { (lend(session)?.0.get_mut()?, given(name)?) };
        session.mkdir(name, mode, piece(&scratch)?).map_err(named)
    })
}

/// Removes an empty directory; as `heliostat_delegated_mkdir`, with what rmdir(2) refuses.
///
/// # Safety
/// `session` is null or live; `name` is null or a C string.
#[no_mangle]
pub unsafe extern "C" fn heliostat_delegated_rmdir(
    session: *mut heliostat_delegated,
    name: *const c_char,
    scratch: heliostat_piece,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promises.
        let (session, name) = unsafe { (lend(session)?.0.get_mut()?, given(name)?) };
        session.rmdir(name, piece(&scratch)?).map_err(named)
    })
}

/// Removes a name; as `heliostat_delegated_mkdir`, with what unlink(2) refuses.
///
/// # Safety
/// `session` is null or live; `name` is null or a C string.
#[no_mangle]
pub unsafe extern "C" fn heliostat_delegated_unlink(
    session: *mut heliostat_delegated,
    name: *const c_char,
    scratch: heliostat_piece,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promises.
        let (session, name) = unsafe { (lend(session)?.0.get_mut()?, given(name)?) };
        session.unlink(name, piece(&scratch)?).map_err(named)
    })
}

/// Gives what is called `from` the name `to`, in one step. `flags` is 0, or `HELIOSTAT_NOREPLACE` for
/// `HELIOSTAT_TAKEN` where that is there. `scratch` holds both names. As `heliostat_delegated_mkdir`.
///
/// # Safety
/// `session` is null or live; the names are null or C strings.
#[no_mangle]
pub unsafe extern "C" fn heliostat_delegated_rename(
    session: *mut heliostat_delegated,
    from: *const c_char,
    to: *const c_char,
    flags: u32,
    scratch: heliostat_piece,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promises.
        let (session, from) = unsafe { (lend(session)?.0.get_mut()?, given(from)?) };
        // SAFETY: the caller's promise.
        let to = unsafe { given(to)? };
        if flags & !HELIOSTAT_NOREPLACE != 0 {
            return Err(fail(HELIOSTAT_INVALID, "a rename has no such flag"));
        }
        session.rename(from, to, flags == 0, piece(&scratch)?).map_err(named)
    })
}

/// Makes a symbolic link called `name` to `target`, which is not looked at. `scratch` holds both. As
/// `heliostat_delegated_mkdir`.
///
/// # Safety
/// `session` is null or live; the texts are null or C strings.
#[no_mangle]
pub unsafe extern "C" fn heliostat_delegated_symlink(
    session: *mut heliostat_delegated,
    target: *const c_char,
    name: *const c_char,
    scratch: heliostat_piece,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promises.
        let (session, target) = unsafe { (lend(session)?.0.get_mut()?, given(target)?) };
        // SAFETY: the caller's promise.
        let name = unsafe { given(name)? };
        session.symlink(target, name, piece(&scratch)?).map_err(named)
    })
}

/// Where a symbolic link leads: `*bytes` of it, without a zero at the end, lie at the start of
/// `scratch`'s bytes in the window then, and as many as there was room for behind the name, which
/// `scratch` holds first. As `heliostat_delegated_mkdir`.
///
/// # Safety
/// `session` is null or live; `name` is null or a C string; `bytes` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_delegated_readlink(
    session: *mut heliostat_delegated,
    name: *const c_char,
    scratch: heliostat_piece,
    bytes: *mut usize,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promises.
        let (session, name) = unsafe { (lend(session)?.0.get_mut()?, given(name)?) };
        if bytes.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        let found = session.readlink(name, piece(&scratch)?).map_err(named)?;
        let copied = session.window().copy_in(scratch.offset as usize, &found);
        copied.map_err(|error| named(DelegatedError::Window(error)))?;
        // SAFETY: the caller's promise.
        unsafe { give(bytes, found.len()) }
    })
}

/// Makes a file that was opened for writing `bytes` long; new ones are zero. Waits, also for the
/// writes that were submitted before. What ftruncate(2) refuses is `HELIOSTAT_INVALID` or
/// `HELIOSTAT_SYSTEM`, with its words: the file is as it was.
///
/// # Safety
/// `session` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_delegated_truncate(
    session: *mut heliostat_delegated,
    file: heliostat_file,
    bytes: u64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let session = unsafe { lend(session)? }.0.get_mut()?;
        session.truncate(file.file(), bytes).map_err(named)
    })
}

/// Locks a whole file: `how` is `HELIOSTAT_LOCK_SHARED`, `HELIOSTAT_LOCK_ALONE` or
/// `HELIOSTAT_UNLOCK`. Waits: 0 not at all (`HELIOSTAT_TAKEN`), a negative timeout for ever, else so
/// many milliseconds (`HELIOSTAT_TIMED_OUT`), an hour at most. A lock belongs to the opened file, and
/// ends with that or the session. Who has one gives it back first, also when this fails.
///
/// # Safety
/// `session` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_delegated_lock(
    session: *mut heliostat_delegated,
    file: heliostat_file,
    how: u32,
    timeout_ms: i64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let session = unsafe { lend(session)? }.0.get_mut()?;
        let wait = match limit(timeout_ms) {
            None => LockWait::Forever,
            Some(limit) if limit.is_zero() => LockWait::No,
            Some(limit) => LockWait::UpTo(limit),
        };
        let file = file.file();
        match how {
            HELIOSTAT_UNLOCK => session.unlock(file),
            HELIOSTAT_LOCK_SHARED => session.lock(file, LockKind::Shared, wait),
            HELIOSTAT_LOCK_ALONE => session.lock(file, LockKind::Alone, wait),
            _ => return Err(fail(HELIOSTAT_INVALID, "there is no such lock")),
        }
        .map_err(named)
    })
}

/// The entry at `*at` in the bytes of a `HELIOSTAT_KIND_READDIR` that has completed, 0 at first;
/// `*at` becomes where the next one is. `bytes` are the result's, and lie in one run. Does not block.
/// `HELIOSTAT_EMPTY` behind the last: the next Readdir takes that one's cookie as its offset, and one
/// whose result is 0 is at the directory's end.
///
/// # Safety
/// `bytes` is null or valid for `len`; `at` and `entry` are null or valid.
#[no_mangle]
pub unsafe extern "C" fn heliostat_entry_next(
    bytes: *const u8,
    len: usize,
    at: *mut usize,
    entry: *mut heliostat_entry,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let at = unsafe { lend(at)? };
        if bytes.is_null() || entry.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: not null (checked), valid for `len` by the caller's promise, who keeps the server
        // from writing there: the operation has completed.
        let all = unsafe { std::slice::from_raw_parts(bytes, len) };
        let mut rest = DirectoryEntries(all.get(*at..).unwrap_or(&[]));
        let found = rest.next().ok_or(HELIOSTAT_EMPTY)?;
        *at = len - rest.0.len();
        let (name, name_bytes) = (found.name.as_ptr(), found.name.len());
        let abi::DirectoryEntry { inode, cookie, kind, .. } = found;
        let kind = u32::from(kind);
        let value = heliostat_entry { inode, cookie, name, name_bytes, kind, reserved: 0 };
        // SAFETY: the caller's promise.
        unsafe { give(entry, value) }
    })
}

/// # Safety
/// `name` is null or a C string that lives as long as the answer.
unsafe fn given<'a>(name: *const c_char) -> Result<&'a str, heliostat_code> {
    // SAFETY: the caller's promise.
    unsafe { text(name)? }.ok_or(HELIOSTAT_NULL)
}
