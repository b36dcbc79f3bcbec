//! Call offload: system calls of the program's threads made by executors on kernel cores.
//!
//! ```text
//!  a thread of the program              its line            an executor, same process, kernel core
//!  caught call, judged (calls)
//!  cheaper here? (rule)      -- ask -->  ASKED  -- sweep --> TAKEN
//!  looks, then sleeps                                        makes it, or finds that it would wait
//!  its registers, or plainly <--------  ANSWERED
//! ```
//! Only calls that wait for nobody are made there: what would wait goes back, and its thread makes it
//! plainly, so that signals end it as they do without us. A thread that has asked runs no handler until
//! it has its answer, as in a system call that does not sleep. What was not taken in time is withdrawn.
//!
//! It is off unless the program was started with it, and ends for good when threads of the process may
//! no longer have the same rights, filter or descriptors.

mod asking;
mod by_rule;
pub mod calls;
pub mod executors;
pub mod gates;
mod lines;
mod rule;
mod spare;
mod told;

use std::sync::OnceLock;

use heliostat_abi::code::Unoffloaded;
use heliostat_abi::offload::{Group, Request};
use heliostat_base::sync::Ordering::Relaxed;
use heliostat_base::sync::{AtomicBool, AtomicU32};
use heliostat_ring::request::{Asked, Requests};

use crate::owner;
use calls::{Judged, Judgement};
use rule::{Rule, RULES};

pub use told::{before_exit, pass};

/// Numbers of refusals between executors and threads. [`PART`] has the bytes that were moved below it.
const WAITS: u32 = 0;
const PLAIN: u32 = 1;
const PART: u32 = 1 << 31;

/// What became of a call that was made without waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Made {
    /// The kernel's answer.
    Result(i64),
    /// It would have waited; nothing of it is done.
    Waits,
    /// It is to be made by its own thread; nothing of it is done.
    Plain,
    /// So many bytes were moved; a thread that may wait goes on with the rest.
    Part(u32),
    /// It has failed with this error, and a signal to the thread that made it (SIGPIPE, SIGXFSZ).
    Signals(i32),
}

/// What is set once, at start.
#[derive(Debug)]
pub struct Program {
    /// What the program asks for.
    pub request: Request,
    /// The kernel cores, one executor each.
    pub cores: Vec<usize>,
    /// The lines.
    pub requests: Requests,
    /// Starts an executor; false where the kernel makes no thread.
    pub start: fn(usize) -> bool,
    /// Makes a call without waiting. Without allocation and thread-local memory.
    pub make: fn(&Asked) -> Made,
    /// The same, and how many cycles the call itself took.
    pub make_timed: fn(&Asked) -> (Made, u64),
}

static PROGRAM: OnceLock<Program> = OnceLock::new();
/// False also when it has ended.
static IS_ON: AtomicBool = AtomicBool::new(false);
static HAS_ENDED: AtomicBool = AtomicBool::new(false);
/// Groups that a setting of the program has ended, as bits.
static OUT: AtomicU32 = AtomicU32::new(0);

/// Switches it on. Once, before the program runs.
pub fn enable(program: Program) {
    let is_asked = program.request.is_any() && !program.cores.is_empty();
    let is_measured = !program.request.is_always();
    if PROGRAM.set(program).is_ok() {
        if is_measured {
            spare::begin();
        }
        told::begin();
        gates::set();
        IS_ON.store(is_asked, Relaxed);
    }
}

/// Whether a group may be offloaded at all, and is not made plainly for now.
fn is_open(group: Group) -> bool {
    let Some(request) = program().map(|program| &program.request) else { return false };
    let is_out = OUT.load(Relaxed) & 1 << group as usize != 0;
    let is_plain = spare::is_young() || (!request.is_always() && RULES[group as usize].is_plain());
    request.has(group) && !is_out && !is_plain
}

/// Whether calls may be offloaded.
#[inline(always)]
pub fn is_on() -> bool {
    IS_ON.load(Relaxed)
}

/// What was set at start.
pub fn program() -> Option<&'static Program> {
    PROGRAM.get()
}

/// What is judged of a call, if executors may make it and the program asks for its group.
#[inline]
pub fn judged(number: u32) -> Option<&'static Judged> {
    let judged = calls::judged(number)?;
    let is_made = matches!(judged.judgement, Judgement::Made(_));
    (is_made && program()?.request.has(judged.group)).then_some(judged)
}

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answered {
    /// The kernel's answer.
    Done(i64),
    /// Its thread makes it.
    Plainly,
    /// So many bytes are written; its thread writes the rest, and what that moves is added.
    Rest(u32),
}

/// Whether a group is made plainly for now, as measured, or as one of the first calls; then the call is
/// counted, and nothing else is to be done, until its gate is shut.
#[inline]
pub fn is_dearer(judged: &Judged) -> bool {
    let is_measured = !program().is_some_and(|program| program.request.is_always());
    let rule = &RULES[judged.group as usize];
    let is_dearer = is_measured && (rule.is_plain() || rule.warms());
    if is_dearer {
        told::count(judged.group, Unoffloaded::Dearer);
    }
    is_dearer
}

/// Has a call made elsewhere, where that is possible and pays. `entered` is when it was caught, for who
/// measures the stages.
#[inline]
pub fn answer(judged: &Judged, asked: &Asked, entered: u64) -> Answered {
    let Some(program) = program() else { return Answered::Plainly };
    let is_out = OUT.load(Relaxed) & 1 << judged.group as usize != 0;
    if is_out || owner::is_vfork_child() {
        return Answered::Plainly;
    }
    let (answered, why) = match program.request.is_always() {
        true => asking::offloaded(program, asked, entered, asking::LATE_CYCLES_ALWAYS),
        false => by_rule::answer(program, judged.group, asked, entered),
    };
    told::count(judged.group, why);
    answered
}

/// The moments of the calling thread's last offloaded call.
pub fn stamps() -> Option<[u64; heliostat_ring::request::STAMPS]> {
    let requests = &program()?.requests;
    lines::mine(requests).map(|line| requests.stamps(line))
}

/// A setting was made that offloaded calls of a group would not keep.
pub fn leave_out(group: Group) {
    OUT.fetch_or(1 << group as usize, Relaxed);
    gates::set();
}

/// In a child of fork(2), by its one thread: what its parent was measuring it does not go on with, and
/// what its parent has counted is told by that one.
pub fn in_forked_child() {
    if is_on() {
        if program().is_some_and(|program| !program.request.is_always()) {
            spare::begin();
            gates::set();
        }
        RULES.iter().for_each(Rule::begin_anew);
        told::forget();
    }
}

/// Ends it for this process: its threads may have rights, filters or descriptors of their own from now
/// on, and libc tells its own threads only. Called before that happens.
pub fn end() {
    if HAS_ENDED.load(Relaxed) || owner::is_vfork_child() {
        return;
    }
    IS_ON.store(false, Relaxed);
    HAS_ENDED.store(true, Relaxed);
    gates::shut_all();
    if let Some(program) = program() {
        executors::end(program);
    }
}

/// True when it was on and has ended.
pub fn has_ended() -> bool {
    HAS_ENDED.load(Relaxed)
}
