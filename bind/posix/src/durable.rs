//! Durable files: which calls wait for a flush that the program did not wait for, and how.
//!
//! Started with patterns of durable files, a program has nearly all of its calls caught (`harmless`
//! lists the others). While nothing is flushed or held back each of them pays one load; else `gate`
//! decides: it goes on, its bytes are held back, or it waits.

use heliostat_abi::code::Unheld;
use heliostat_abi::place::{DURABLE_LOG_VARIABLE, DURABLE_VARIABLE};
use heliostat_base::call as kernel;
use heliostat_base::process::is_single_threaded;
use heliostat_base::sys::Sysno;
use heliostat_interpose::Verdict;
use heliostat_stub_posix::event::poll;
use heliostat_stub_posix::flush::{self, names, Asked};
use heliostat_stub_posix::net::watch::sets;
use heliostat_stub_posix::net::{commit, socket, unflushed};
use heliostat_stub_posix::table::{self, DescriptorKind};
use heliostat_stub_posix::thread;

use crate::call::Call;
use crate::{alone, failed, harmless, kept, mappings};

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
    alone::begin();
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
    flush::end_change();
    let number = call.frame.rax as u32;
    let kind = Sysno::new(number as usize)?;
    if let Some(refused) = refuse_after_failure(kind, call) {
        return Some(refused);
    }
    if flush::has_log() && kept::is_changed_by(kind, call) {
        flush::begin_change();
        if flush::is_kept() {
            commit::settle();
            flush::forget_logged();
        }
    }
    if kind == Sysno::sched_yield && flush::is_busy() {
        commit::look_in();
    }
    if flush::is_busy() && !harmless::may_go_on(number) && !goes_on(kind, call) {
        await_flush(kind, call);
    }
    // What has been waited for may have failed.
    let refused = refuse_after_failure(kind, call);
    if refused.is_none() && flush::is_untold() {
        failed::before_end(kind, call);
    }
    refused
}

fn refuse_after_failure(kind: Sysno, call: &mut Call<'_>) -> Option<Verdict> {
    if !flush::has_failed() {
        return None;
    }
    failed::refused(kind, call).map(|errno| call.answer(Some(Err(errno))))
}

/// Whether this call lets nothing out, or what it does is held back.
pub(crate) fn goes_on(kind: Sysno, call: &Call<'_>) -> bool {
    let fd = call.int(0);
    match kind {
        // A direct connection: bytes are read from memory, and a call that finds none settles itself.
        Sysno::read | Sysno::readv | Sysno::recvfrom | Sysno::recvmsg => direct(fd).is_some(),
        Sysno::write | Sysno::writev => match direct(fd) {
            Some(index) => unflushed::can_hold(index, 0),
            None => appends(fd, None),
        },
        Sysno::pwrite64 | Sysno::pwritev => appends(fd, Some(call.word(3))),
        Sysno::pwritev2 if call.int(5) == 0 => appends(fd, stated(call.word(3))),
        Sysno::pread64 | Sysno::preadv => flush::is_pending(fd),
        Sysno::sendto => direct(fd).is_some_and(|index| unflushed::can_hold(index, call.int(3))),
        // Others may have the same offset.
        Sysno::lseek => call.word(1) == 0 && call.int(2) == libc::SEEK_CUR,
        Sysno::epoll_ctl => sets::is_own_alone(fd),
        Sysno::rt_sigprocmask => delivers_nothing(call),
        Sysno::munmap | Sysno::mremap => !mappings::holds_files(),
        Sysno::fcntl => matches!(call.int(1), libc::F_GETFL | libc::F_GETFD),
        Sysno::futex => is_wake(call.int(1)),
        _ => false,
    }
}

/// Whether a write goes behind all that its file holds, and nothing but that file is to be flushed. Such
/// a write lets out no more than one before the flush: a log's reader expects a torn end. One that
/// overwrites, or is of another file, may rest on the order (a header after what it points to, data after
/// its log), and the kernel may write it back first.
fn appends(fd: i32, offset: Option<u64>) -> bool {
    if !flush::is_all_that_is_pending(fd) {
        return false;
    }
    let flags = kernel::fcntl(fd, libc::F_GETFL, 0).unwrap_or(0) as i32;
    if flags & libc::O_APPEND != 0 {
        return true; // wherever it says (pwrite(2), under BUGS)
    }
    let at = offset.or_else(|| kernel::offset(fd));
    at.zip(kernel::mode_and_bytes(fd)).is_some_and(|(at, (_, bytes))| at >= bytes)
}

/// The offset that pwritev2(2) names; -1 is where the descriptor stands.
fn stated(offset: u64) -> Option<u64> {
    (offset as i64 >= 0).then_some(offset)
}

/// Whether no signal waits for what this call unblocks: one that ends the process shows that it went on.
fn delivers_nothing(call: &Call<'_>) -> bool {
    call.word(1) == 0 || call.int(0) == libc::SIG_BLOCK || kernel::pending_signals() == 0
}

/// Waits until nothing is held back; one that reads what nobody else can only until there is something to
/// read, since it lets nothing out.
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
    match reads && is_single_threaded() && alone::has_socket(call.int(0)) {
        true => poll::outlast_read(call.int(0)),
        false => {
            flush::note_awaited();
            commit::settle();
        }
    }
}

pub(crate) fn direct(fd: i32) -> Option<u32> {
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
    if thread::is_in_section() {
        // The stub's own, by a library: recovery flushes the files that it has written.
        return Verdict::Pass;
    }
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
