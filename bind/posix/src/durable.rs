//! Durable files: which calls wait for a flush that the program did not wait for, and how.
//!
//! Started with patterns of durable files, a program has nearly all of its calls caught (`harmless`
//! lists the others). While nothing is flushed or held back each of them pays one load; else `gate`
//! decides: it goes on, its bytes are held back, or it waits.

use heliostat_abi::code::Unheld;
use heliostat_abi::place::{DURABLE_LOG_VARIABLE, DURABLE_VARIABLE};
use heliostat_base::process::is_single_threaded;
use heliostat_base::sys::Sysno;
use heliostat_interpose::Verdict;
use heliostat_stub_posix::event::poll;
use heliostat_stub_posix::flush::{self, names, Asked};
use heliostat_stub_posix::net::commit;
use heliostat_stub_posix::thread;

use crate::call::Call;
use crate::{alone, failed, harmless, held, kept};

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
        // Asked under its lock: another thread may be about to keep one, having seen no change under way.
        if flush::keeps_any(0, u32::MAX) {
            commit::settle();
            flush::forget_logged();
        }
    }
    if kind == Sysno::sched_yield && flush::is_busy() {
        commit::look_in();
    }
    if flush::is_busy() && !harmless::may_go_on(number) && !held::goes_on(kind, call) {
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
