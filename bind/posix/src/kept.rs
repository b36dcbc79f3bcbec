//! Calls that would make wrong what the log of durable files has: before them the log is emptied.
//!
//! The log says "these bytes, at this place of this file", and counts on files that are written at
//! their ends. What removes, renames, cuts or overwrites one, opens one so that it could, or ends this
//! process's part in it, is listed here; what other processes do is theirs (docs/durable.md).

use heliostat_base::call as kernel;
use heliostat_base::process::is_single_threaded;
use heliostat_base::sys::Sysno;
use heliostat_stub_posix::{flush, owner};

use crate::call::Call;
use crate::{files, held};

/// They may concern a kept file, and are seldom.
#[rustfmt::skip]
const ALWAYS: &[Sysno] = &[
    Sysno::unlink, Sysno::unlinkat, Sysno::rename, Sysno::renameat, Sysno::renameat2,
    Sysno::truncate, Sysno::ftruncate, Sysno::fallocate, Sysno::creat, Sysno::chroot,
    Sysno::execve, Sysno::execveat, Sysno::exit_group,
];

/// pwritev2(2): at its offset, whatever the descriptor says (source: linux/fs.h).
const RWF_NOAPPEND: i32 = 0x20;

/// Whether the log has to be emptied before this call.
pub fn is_changed_by(kind: Sysno, call: &Call<'_>) -> bool {
    if owner::is_vfork_child() {
        return false;
    }
    let keeps = |fd: i32| u32::try_from(fd).is_ok_and(|fd| flush::keeps_any(fd, fd));
    // What is made of a file that is not kept yet could be missed when it is: by another thread, this very moment.
    let could_be = || !flush::is_kept() || !is_single_threaded();
    let may_keep = |fd: i32| keeps(fd) || could_be() && kernel::is_regular_file(fd);
    match kind {
        kind if ALWAYS.contains(&kind) => true,
        Sysno::open => opens_to_change(call.int(1)),
        Sysno::openat => opens_to_change(call.int(2)),
        Sysno::openat2 => opens_to_change(files::flags_of_openat2(call)),
        Sysno::open_by_handle_at => opens_to_change(call.int(2)),
        // Some move extents, or share them (FICLONE).
        Sysno::ioctl => kernel::is_regular_file(call.int(0)),
        Sysno::close => keeps(call.int(0)),
        Sysno::dup => may_keep(call.int(0)),
        Sysno::dup2 | Sysno::dup3 => may_keep(call.int(0)) || keeps(call.int(1)),
        Sysno::close_range => flush::keeps_any(call.int(0) as u32, call.int(1) as u32),
        Sysno::fcntl => changes_descriptor(call, || may_keep(call.int(0))),
        Sysno::write | Sysno::writev => begins_in_the_middle(call.int(0), None),
        // Of several that append, one number is known.
        Sysno::pwritev2 if call.int(5) & RWF_NOAPPEND != 0 => kernel::is_regular_file(call.int(0)),
        Sysno::pwrite64 | Sysno::pwritev | Sysno::pwritev2 => {
            begins_in_the_middle(call.int(0), u64::try_from(call.word(3) as i64).ok())
        }
        Sysno::sendfile => keeps(call.int(0)) || begins_in_the_middle(call.int(0), Some(0)),
        Sysno::splice | Sysno::copy_file_range => {
            keeps(call.int(2)) || begins_in_the_middle(call.int(2), Some(0))
        }
        _ => false,
    }
}

/// A file that is opened so may be cut, or written anywhere.
fn opens_to_change(flags: i32) -> bool {
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY && flags & libc::O_APPEND == 0;
    writes || flags & libc::O_TRUNC != 0
}

/// A second number for it, or any number of a file that is no longer written at its end only.
fn changes_descriptor(call: &Call<'_>, keeps: impl Fn() -> bool) -> bool {
    match call.int(1) {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => keeps(),
        libc::F_SETFL => call.int(2) & libc::O_APPEND == 0 && kernel::is_regular_file(call.int(0)),
        _ => false,
    }
}

/// A write before what the log has of the file. `at` is where; without it, where the descriptor stands. One
/// that is not, but may come to be so while it is under way, is noted: another thread may flush the file.
fn begins_in_the_middle(fd: i32, at: Option<u64>) -> bool {
    let is_nobodys =
        held::direct(fd).is_some() || flush::kept(fd).is_none() && is_single_threaded();
    if is_nobodys || !kernel::is_regular_file(fd) {
        return false;
    }
    let is_append = |flags: usize| flags as i32 & libc::O_APPEND != 0;
    if kernel::fcntl(fd, libc::F_GETFL, 0).is_ok_and(is_append) {
        return false; // wherever it says (pwrite(2), under BUGS)
    }
    let stands = || kernel::lseek(fd, 0, libc::SEEK_CUR).map_or(0, |at| at as u64);
    flush::begin_write(fd, at.unwrap_or_else(stands))
}
