//! Durable files: fdatasync(2) and fsync(2) that return before the device has answered.
//!
//! The program goes on at once; what it lets out afterwards is held back until the flush has ended
//! (output commit: Nightingale and others, "Rethink the Sync", OSDI 2006). Here stand the flushes and
//! their order, by number: ticket. `names` tells which files are meant, `files` the few that one flush
//! takes along, `sink` flushes files and `log` appends to a log instead, `kept` says what is in that,
//! `order` what each ticket waits for, `flushes` brings them together, `state` is how the others see it, `own` lists the stub's descriptors.
//! `changing` knows of calls that are about to make wrong what the log counts on, `writing` of writes under way.
//! `detect` finds files by how they are used, `worth` those that gain nothing; `place` is where the log lies.
//! Who holds back what is elsewhere (`net::unflushed`, and the gate in `bind/posix`).
//!
//! Of the files' own flushes one is under way at a time; what the program asks for meanwhile joins the
//! next one. A flush is begun when it is asked for, unless the program has been seen to wait right afterwards: then it is
//! made by the wait itself, which spares waking a kernel thread, or is begun when the wait has found
//! other work to do.

mod changing;
mod detect;
mod files;
mod flushes;
mod kept;
mod log;
pub mod names;
mod order;
mod own;
mod place;
mod recent;
mod sink;
mod state;
mod tickets;
mod worth;
mod writing;

use heliostat_abi::code::Unheld;
use heliostat_abi::session::report::Counter;
use heliostat_base::call;
use heliostat_base::process::is_single_threaded;
use heliostat_base::sync::AtomicU32;
use heliostat_base::sync::Ordering::{AcqRel, Acquire, Relaxed};
use heliostat_base::sys::Errno;
use heliostat_client::session;

use crate::thread::Critical;
use crate::{is_enabled, owner, report};

pub use state::{
    done, failed_from, finish, flush_here, is_all_that_is_pending, is_flying, is_pending, latest,
    note_wait, progress, reset_in_forked_child, rest, ring_fds, sleep_at_most_ns, start, vacate,
    wait,
};

pub use changing::begin as begin_change;
pub use own::{each as own_fds, owns};
pub use tickets::Unflushed;
pub use worth::{note_awaited, note_held};
use writing::Begun;

/// Something is not flushed, or is held back.
const BUSY: u32 = 1;
/// A flush has failed, and the program has not been told.
const UNTOLD: u32 = 1 << 1;
/// A flush has failed: files that it concerned are refused for good.
const FAILED: u32 = 1 << 2;
/// The log is kept for some file: calls that would change what it counts on are looked for.
const KEPT: u32 = 1 << 3;

/// There is a log.
const LOG: u32 = 1 << 4;
/// A call is under way that changes what the log counts on.
const CHANGING: u32 = 1 << 5;

static WORD: AtomicU32 = AtomicU32::new(0);
/// Why no file of this program is held back for; 0 while that is not so.
static REFUSED: AtomicU32 = AtomicU32::new(Unheld::None as u32);

/// The one question that every caught call asks.
#[inline(always)]
pub fn is_watched() -> bool {
    WORD.load(Relaxed) != 0
}

/// True while something is not flushed, or held back.
#[inline(always)]
pub fn is_busy() -> bool {
    WORD.load(Relaxed) & BUSY != 0
}

/// Sets where the log lies, once, at start: a path, or `/store/NAME`.
pub fn set_log(path: std::path::PathBuf) {
    place::set(path);
    raise(LOG);
}

/// True where there is a log.
#[inline(always)]
pub fn has_log() -> bool {
    WORD.load(Relaxed) & LOG != 0
}

/// True while the log is kept for some file.
pub fn is_kept() -> bool {
    WORD.load(Relaxed) & KEPT != 0
}

/// Whether the log is kept for a file that the program has open by one of these numbers.
pub fn keeps_any(first: u32, last: u32) -> bool {
    let _critical = Critical::enter();
    state::keeps_any(first, last)
}

/// Whether the log is kept for what the program has open as `fd`, and up to where it has its bytes.
pub fn kept(fd: i32) -> Option<u64> {
    let _critical = Critical::enter();
    state::kept(fd)
}

/// This thread is about to write at `at` of what it has open as `fd`, which may not be the end. True where
/// the log has to be emptied before.
pub fn begin_write(fd: i32, at: u64) -> bool {
    let _critical = Critical::enter();
    let Some(identity) = call::identity(fd) else { return false };
    let begun = state::begin_write(identity, at, is_single_threaded());
    if begun == Begun::Overwrites {
        worth::note_overwritten(identity);
    }
    begun != Begun::Noted
}

/// This thread makes another call: what it has begun to change or to write is done.
#[inline]
pub fn end_change() {
    changing::end();
    state::end_writes();
}

/// Empties the log, durably, and keeps it for no file: before a call that changes what it counts on.
#[cold]
pub fn forget_logged() {
    if is_kept() && !owner::is_borrowed() {
        let _critical = Critical::enter();
        state::forget_logged();
    }
}

/// True after a failed flush.
#[inline(always)]
pub fn has_failed() -> bool {
    WORD.load(Relaxed) & FAILED != 0
}

/// True after a failed flush that the program does not know of: nothing may leave it.
pub fn is_untold() -> bool {
    WORD.load(Relaxed) & UNTOLD != 0
}

fn raise(bits: u32) {
    WORD.fetch_or(bits, AcqRel);
}

fn clear(bits: u32) {
    WORD.fetch_and(!bits, AcqRel);
}

/// No file of this program is held back for from now on; the first reason stays. What has been asked
/// for still ends in order.
pub fn refuse(reason: Unheld) {
    let (none, reason) = (Unheld::None as u32, reason as u32);
    let _ = REFUSED.compare_exchange(none, reason, AcqRel, Acquire);
}

/// What an fdatasync(2) or fsync(2) comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// The program may go on.
    Begun,
    /// It is the kernel's, once all before it has ended.
    Kernel,
    /// A flush of this file has failed.
    Failed(Errno),
}

/// fdatasync(2) where `is_data`, fsync(2) otherwise.
pub fn ask(fd: i32, is_data: bool) -> Asked {
    // Whatever its name is by now, and whatever the program has done since: the kernel tells it no more.
    if let Some(errno) = failure(fd) {
        return Asked::Failed(errno);
    }
    let _critical = Critical::enter();
    if may_be_left() && worth::is_left(fd) {
        report::count_unheld(Unheld::Unprofitable);
        return Asked::Kernel;
    }
    let mut room = [0u8; names::PATH_BYTES_MAX];
    let Some((path, is_detecting)) = names::durable_path(fd, &mut room) else {
        return Asked::Kernel;
    };
    // Whoever asks for an explanation finds it, with a connection or without.
    session::be_known();
    let asked = match refusal(fd) {
        Some(reason) => {
            // What is written from now on goes by the log.
            forget_logged();
            Err(reason)
        }
        None => begin(fd, is_data, (path, is_detecting)),
    };
    match asked {
        Ok(asked) => asked,
        Err(reason) => {
            report::count_unheld(reason);
            Asked::Kernel
        }
    }
}

/// Whether nothing else is to be done or told at the flush of a file that is left.
fn may_be_left() -> bool {
    let is_refused = REFUSED.load(Relaxed) != Unheld::None as u32;
    !is_refused && !is_kept() && !owner::is_vfork_child()
}

fn refusal(fd: i32) -> Option<Unheld> {
    let known = REFUSED.load(Acquire);
    if known != Unheld::None as u32 {
        return Unheld::from_number(known as u8);
    }
    if owner::is_borrowed() {
        return Some(Unheld::Borrowed);
    }
    if !is_enabled() {
        return Some(Unheld::Native);
    }
    (!call::is_regular_file(fd)).then_some(Unheld::NotRegular)
}

fn begin(fd: i32, is_data: bool, (path, is_detecting): (&[u8], bool)) -> Result<Asked, Unheld> {
    let Some(identity) = call::identity(fd) else { return Ok(Asked::Kernel) };
    if has_failed() {
        return Err(Unheld::Failed);
    }
    judge(fd, identity, is_detecting)?;
    match state::begin(files::File { fd, is_data, identity }, path) {
        true => {
            report::count(Counter::Flushes);
            Ok(Asked::Begun)
        }
        false => Err(Unheld::TooMany),
    }
}

/// Whether holding back for this file gains something, by what was seen of it.
fn judge(fd: i32, identity: (u64, u64), is_detecting: bool) -> Result<(), Unheld> {
    let detected = if is_detecting { detect::judge(fd, identity) } else { Ok(()) };
    let judged = detected.and_then(|()| worth::judge(identity));
    if judged.is_err() && state::keeps(identity) {
        // What is written from now on goes by the log.
        forget_logged();
    }
    judged
}

/// The error that a call on `fd` ends with because a flush of that file has failed.
pub fn failure(fd: i32) -> Option<Errno> {
    if !has_failed() {
        return None;
    }
    let _critical = Critical::enter();
    state::failure_of(call::identity(fd)?)
}
