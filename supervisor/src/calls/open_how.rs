//! openat2(2): an open whose caller says what its path may lead through.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use heliostat_base::sys::Errno;
use heliostat_control::policy::Access;
use rustix::fs::{Mode, OFlags, ResolveFlags};

use super::open::{given, opened_by};
use crate::call::{Answer, Call};
use crate::errno::errno;
use crate::paths::{self, Roots, Rules, Start};

/// Bytes of the first version of `struct open_how`, and of a page, which no version exceeds
/// (source: openat2(2)).
const HOW_BYTES: usize = 24;
const HOW_BYTES_MAX: usize = 4096;
/// Flags of open(2) that the kernel knows, as bits of `how.flags`.
const KNOWN: u64 = 0o37_777_703;
/// Bits of `how.resolve` that the kernel knows, and of them RESOLVE_CACHED: answered with EAGAIN, which its callers expect.
const RULES: u64 = 0x3f;
const CACHED: u64 = 0x20;

/// `struct open_how`, checked.
pub struct How {
    flags: i32,
    /// Zero unless something may be made.
    mode: u32,
    resolve: ResolveFlags,
}

/// openat2(2).
pub fn openat2(call: &Call<'_>) -> Answer {
    let how = read(call)?;
    let path = call.path(1)?;
    let scope = ResolveFlags::BENEATH | ResolveFlags::IN_ROOT;
    if how.resolve.intersects(scope) {
        return scoped(call, &path, &how);
    }
    let rules = Rules {
        no_links: how.resolve.contains(ResolveFlags::NO_SYMLINKS),
        no_magic: how.resolve.contains(ResolveFlags::NO_MAGICLINKS),
        one_device: how.resolve.contains(ResolveFlags::NO_XDEV),
    };
    opened_by(call, call.int(0), &path, how.flags, mode(call, &how), rules)
}

/// Whether a part that is granted for reading only has come below this directory from outside, and the
/// path leads to it, or to a new name in it.
fn leads_to_part(roots: &Roots, start: &Start, path: &[u8], resolve: ResolveFlags) -> bool {
    let look = |path: &Path| {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        rustix::fs::openat2(&start.fd, path, flags, Mode::empty(), resolve).ok()
    };
    let path = Path::new(OsStr::from_bytes(path));
    let found = look(path).or_else(|| path.parent().and_then(look));
    found.is_some_and(|found| roots.guarded().has_above(&found))
}

/// Below one directory: the kernel keeps it there, and all that is there is granted.
fn scoped(call: &Call<'_>, path: &[u8], how: &How) -> Answer {
    let roots = &call.supervisor.roots;
    let start = Start::of(roots, call.thread(), call.int(0))?;
    let root = start.path.as_deref().and_then(|path| roots.deciding(path));
    // Where no grant holds all that lies below there are only names that lead to grants, and
    // /proc.
    let root = root.filter(|root| root.is_folder && root.path.as_os_str() != "/");
    let root = root.ok_or(Errno(libc::EXDEV))?;
    let flags = OFlags::from_bits_retain(how.flags as u32);
    let is_readable = root.access != Access::Stat && !root.has_hidden;
    if !is_readable && !flags.contains(OFlags::PATH) {
        return Err(Errno(libc::EACCES));
    }
    if paths::writes(flags) && (root.access != Access::ReadWrite || root.is_mixed) {
        if root.access != Access::ReadWrite {
            call.note_path(&root.path, Access::ReadWrite);
        }
        return Err(Errno(libc::EROFS));
    }
    let mode = mode(call, how);
    call.check()?;
    let resolve = how.resolve | ResolveFlags::NO_MAGICLINKS;
    if paths::writes(flags) && root.is_guarded && leads_to_part(roots, &start, path, resolve) {
        return Err(Errno(libc::EROFS));
    }
    let opened = rustix::fs::openat2(&start.fd, path, flags | OFlags::CLOEXEC, mode, resolve);
    given(call, opened.map_err(errno)?, flags)
}

/// The mode of a new file.
fn mode(call: &Call<'_>, how: &How) -> Mode {
    match how.mode {
        0 => Mode::empty(),
        mode => call.new_mode_of(mode),
    }
}

/// Reads and checks the argument, in the kernel's order.
fn read(call: &Call<'_>) -> Result<How, Errno> {
    let length = call.word(3) as usize;
    if length < HOW_BYTES {
        return Err(Errno(libc::EINVAL));
    }
    if length > HOW_BYTES_MAX {
        return Err(Errno(libc::E2BIG));
    }
    let mut bytes = vec![0; length];
    call.read(2, &mut bytes)?;
    parse(&bytes)
}

/// What the bytes say; a program of a later kernel may have more, of zeros.
pub fn parse(bytes: &[u8]) -> Result<How, Errno> {
    let (words, later) = bytes.split_at_checked(HOW_BYTES).ok_or(Errno(libc::EINVAL))?;
    if later.iter().any(|byte| *byte != 0) {
        return Err(Errno(libc::E2BIG));
    }
    let word =
        |at: usize| u64::from_ne_bytes(words[at * 8..at * 8 + 8].try_into().unwrap_or([0; 8]));
    checked(word(0), word(1), word(2))
}

fn checked(flags: u64, mode: u64, resolve: u64) -> Result<How, Errno> {
    let has = |bits: i32| flags & bits as u64 == bits as u64;
    let makes = has(libc::O_CREAT) || has(libc::O_TMPFILE);
    let of_paths = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let is_odd = flags & !KNOWN != 0
        || has(libc::O_PATH) && flags & !(of_paths as u64) != 0
        || mode & !if makes { 0o7777 } else { 0 } != 0
        || has(libc::O_DIRECTORY | libc::O_CREAT)
        || has(libc::O_TMPFILE) && flags & libc::O_ACCMODE as u64 == 0;
    let both = (ResolveFlags::BENEATH | ResolveFlags::IN_ROOT).bits();
    if is_odd || resolve & !RULES != 0 || resolve & both == both {
        return Err(Errno(libc::EINVAL));
    }
    if resolve & CACHED != 0 {
        return Err(Errno(libc::EAGAIN));
    }
    let resolve = ResolveFlags::from_bits_retain(resolve);
    Ok(How { flags: flags as i32, mode: mode as u32, resolve })
}
