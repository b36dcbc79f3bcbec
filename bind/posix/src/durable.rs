//! Durable files: which calls wait for a flush that the program did not wait for, and how.
//!
//! Started with patterns of durable files, a program has nearly all of its calls caught (`harmless`
//! lists the others). While nothing is flushed or held back each of them pays one load; else `gate`
//! decides: it goes on, its bytes are held back, or it waits.

use heliostat_abi::code::Unheld;
use heliostat_abi::place::{DURABLE_LOG_VARIABLE, DURABLE_VARIABLE};
use heliostat_base::call as kernel;
use heliostat_base::process::is_single_threaded;
use heliostat_base::sys::{Errno, Sysno};
use heliostat_interpose::Verdict;
use heliostat_stub_posix::event::poll;
use heliostat_stub_posix::flush::{self, names, Asked};
use heliostat_stub_posix::net::{commit, socket, unflushed};
use heliostat_stub_posix::table::{self, DescriptorKind};
use heliostat_stub_posix::thread;

use crate::call::Call;
use crate::{harmless, kept};

/// Where the kernel lists what is mapped.
const MAPS: &str = "/proc/self/maps";

/// Reads which files are durable; true when there are any. Before libc is patched.
pub fn begin() -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Some(patterns) = std::env::var_os(DURABLE_VARIABLE) else { return false };
    names::set(patterns.as_bytes());
    if names::is_none() {
        return false;
    }
    if let Some(path) = std::env::var_os(DURABLE_LOG_VARIABLE).filter(|path| !path.is_empty()) {
        flush::set_log(path.into());
    }
    // What is mapped by now is nobody else's but for what a library before this one has done.
    let is_shared = |line: &str| {
        line.split(' ').nth(1).is_some_and(|mode| mode.ends_with('s') && mode.contains('w'))
    };
    match std::fs::read_to_string(MAPS) {
        Ok(maps) if !maps.lines().any(is_shared) => {}
        _ => flush::refuse(Unheld::Shared),
    }
    true
}

/// What could not be caught: a call that may let something out ends it all.
pub fn judge_uncaught(mut numbers: impl Iterator<Item = Option<u32>>) {
    if numbers.any(|number| number.is_none_or(harmless::is_to_be_caught)) {
        flush::refuse(Unheld::Uncaught);
    }
}

/// Before a call, while something is not flushed, held back, or has failed. `Some` is its answer.
#[cold]
#[inline(never)]
pub fn gate(call: &mut Call<'_>) -> Option<Verdict> {
    if call.frame.rounds > 0 || thread::is_in_section() {
        return None;
    }
    let number = call.frame.rax as u32;
    let kind = Sysno::new(number as usize)?;
    if let Some(errno) = refused(kind, call) {
        return Some(call.answer(Some(Err(errno))));
    }
    if flush::is_kept() && kept::is_changed_by(kind, call) {
        commit::settle();
        flush::forget_logged();
    }
    if flush::is_busy() && !harmless::may_go_on(number) && !goes_on(kind, call) {
        await_flush(kind, call);
        // What has been waited for may have failed.
        return refused(kind, call).map(|errno| call.answer(Some(Err(errno))));
    }
    None
}

/// The error of a call that writes, after a flush has failed: to that file for good, and to anything else
/// until the program has been told.
fn refused(kind: Sysno, call: &Call<'_>) -> Option<Errno> {
    let fd = match kind {
        Sysno::write | Sysno::writev | Sysno::pwrite64 | Sysno::pwritev | Sysno::pwritev2 => {
            call.int(0)
        }
        Sysno::sendto | Sysno::sendmsg | Sysno::sendmmsg | Sysno::sendfile => call.int(0),
        Sysno::copy_file_range | Sysno::splice => call.int(2),
        Sysno::tee | Sysno::vmsplice | Sysno::ftruncate | Sysno::fallocate => call.int(0),
        _ => return None,
    };
    match flush::failure(fd) {
        Some(errno) => Some(errno),
        // A connection that could be held back for is cut off instead.
        None if flush::is_untold() && !direct(fd).is_some_and(|it| unflushed::can_hold(it, 0)) => {
            Some(Errno(libc::EIO))
        }
        None => None,
    }
}

/// Whether this call lets nothing out, or what it does is held back.
fn goes_on(kind: Sysno, call: &Call<'_>) -> bool {
    let fd = call.int(0);
    match kind {
        // A direct connection: bytes are read from memory, and a call that finds none settles itself.
        Sysno::read | Sysno::readv | Sysno::recvfrom | Sysno::recvmsg => direct(fd).is_some(),
        Sysno::write | Sysno::writev => match direct(fd) {
            Some(index) => unflushed::can_hold(index, 0),
            // It lets out no more than an ordinary write of a program that will flush later.
            None => flush::is_pending(fd),
        },
        Sysno::pwrite64 | Sysno::pwritev => flush::is_pending(fd),
        Sysno::sendto => direct(fd).is_some_and(|index| unflushed::can_hold(index, call.int(3))),
        Sysno::mmap => true, // judged by its own function
        Sysno::fcntl => matches!(call.int(1), libc::F_GETFL | libc::F_GETFD),
        Sysno::futex => is_wake(call.int(1)),
        _ => false,
    }
}

/// Waits until nothing is held back; one that reads only until there is something to read, since it lets
/// nothing out.
fn await_flush(kind: Sysno, call: &Call<'_>) {
    let reads = matches!(
        kind,
        Sysno::read
            | Sysno::readv
            | Sysno::recvfrom
            | Sysno::recvmsg
            | Sysno::accept
            | Sysno::accept4
    );
    match reads && is_single_threaded() {
        true => poll::outlast_read(call.int(0)),
        false => commit::settle(),
    }
}

fn direct(fd: i32) -> Option<u32> {
    match table::kind(fd) {
        DescriptorKind::Socket(index) if !socket::at(index).is_native() => Some(index),
        _ => None,
    }
}

/// Wakes threads of this process only, and waits for none.
fn is_wake(operation: i32) -> bool {
    let (command, is_private) =
        (operation & !FUTEX_FLAGS, operation & libc::FUTEX_PRIVATE_FLAG != 0);
    let wakes = [libc::FUTEX_WAKE, libc::FUTEX_WAKE_OP, libc::FUTEX_WAKE_BITSET];
    let moves = [libc::FUTEX_REQUEUE, libc::FUTEX_CMP_REQUEUE];
    is_private && (wakes.contains(&command) || moves.contains(&command))
}

const FUTEX_FLAGS: i32 = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;

/// Before a child is made by vfork(2) or clone(2): what shares memory shares what is held back.
pub fn before_child() {
    if flush::is_busy() {
        commit::settle();
    }
}

/// fdatasync(2) and fsync(2)
pub fn sync(call: &mut Call<'_>, is_data: bool) -> Verdict {
    if call.frame.rounds > 0 {
        call.frame.rax = call.frame.waited as u64;
        return Verdict::Done;
    }
    match flush::ask(call.int(0), is_data) {
        Asked::Begun => call.answer(Some(Ok(0))),
        Asked::Failed(errno) => call.answer(Some(Err(errno))),
        Asked::Kernel => {
            before_child();
            Verdict::Pass
        }
    }
}

/// mmap(2): stores into memory that others see cannot be held back.
pub fn mmap(call: &mut Call<'_>) -> Verdict {
    if thread::is_in_section() {
        return Verdict::Pass; // the stub's own
    }
    let flags = call.int(3);
    let is_shared = matches!(flags & libc::MAP_TYPE, libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE);
    if is_shared && !names::is_none() && may_be_written(call.int(4), flags) {
        flush::refuse(Unheld::Shared);
        before_child();
        flush::forget_logged();
    }
    Verdict::Pass
}

/// What is open for reading only can never be mapped for writing (source: mprotect(2), EACCES).
fn may_be_written(fd: i32, flags: i32) -> bool {
    let is_read_only = |mode: usize| mode as i32 & libc::O_ACCMODE == libc::O_RDONLY;
    flags & libc::MAP_ANONYMOUS != 0 || !kernel::fcntl(fd, libc::F_GETFL, 0).is_ok_and(is_read_only)
}

/// shmat(2), likewise
pub fn shmat(_call: &mut Call<'_>) -> Verdict {
    if !names::is_none() {
        flush::refuse(Unheld::Shared);
        before_child();
    }
    Verdict::Pass
}

/// A ring that the kernel may poll lets out what nobody sees.
pub fn ring_made() {
    if !names::is_none() {
        flush::refuse(Unheld::Ring);
        before_child();
    }
}
