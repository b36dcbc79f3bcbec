//! Call offload: which of the caught calls the kernel would make may be made by an executor.
//!
//! It stands behind everything else that answers calls: what the stub does not answer, and would let
//! libc's own instruction do, is asked for first; what comes back is as if the kernel had answered.

mod make;
pub mod stages;

use std::sync::OnceLock;

use heliostat_abi::offload::{Group, Request, STAGES_VARIABLE};
use heliostat_abi::place::{OFFLOAD_CORES_VARIABLE, OFFLOAD_VARIABLE};
use heliostat_base::affinity;
use heliostat_base::clock::cycles;
use heliostat_base::executor;
use heliostat_base::guarded;
use heliostat_base::sync::Ordering::Relaxed;
use heliostat_base::sys::{check, raw, Errno, Sysno};
use heliostat_base::unforked::Unforked;
use heliostat_interpose::{SyscallFrame, Verdict};
use heliostat_ring::request::{Asked, Requests, EXECUTORS_MAX, WORDS};
use heliostat_stub_posix::offload::calls::{Judged, Judgement, Why};
use heliostat_stub_posix::offload::executors::{self, IS_STAMPED};
use heliostat_stub_posix::offload::{self, gates, Answered, Program};

use crate::call::{self, Call};
use crate::memory;

/// The name that executors have among the threads of a process.
const NAME: &[u8; 16] = b"heliostat-exec\0\0";
/// Marks `scratch` while the rest of a write is written; the bytes that were are below.
const REST: u64 = 0x6f66_666c << 32;
const REST_MASK: u64 = !0 << 32;

static MEMORY: OnceLock<&'static Unforked> = OnceLock::new();

/// Reads what is asked for and prepares it; true when calls are to be caught for it.
pub fn begin() -> bool {
    // Who measures the stages wants them all, whatever they cost.
    let is_measured = std::env::var_os(STAGES_VARIABLE).is_some();
    let text = if is_measured { Ok("always".to_owned()) } else { std::env::var(OFFLOAD_VARIABLE) };
    let Ok(request) = text.map_or(Ok(Request::default()), |text| Request::parse(&text)) else {
        return false;
    };
    if !request.is_any() {
        return false;
    }
    let Ok(memory) = Unforked::with_words(WORDS) else { return false };
    let memory: &'static Unforked = Box::leak(Box::new(memory));
    let _ = MEMORY.set(memory);
    let requests = Requests::new(memory);
    let (make, make_timed) = (make::make, make::make_timed);
    offload::enable(Program { request, cores: cores(), requests, start, make, make_timed });
    offload::is_on()
}

/// The kernel cores: those that were named and may be used, or else the last that may be.
fn cores() -> Vec<usize> {
    let Ok(allowed) = affinity::allowed(0) else { return Vec::new() };
    let named = std::env::var(OFFLOAD_CORES_VARIABLE).unwrap_or_default();
    let named = named.split(',').filter_map(|number| number.trim().parse().ok());
    // A core that is not allowed now is the kernel's when cores are parted: an executor tries.
    let mut cores: Vec<usize> = named.take(EXECUTORS_MAX).collect();
    if cores.is_empty() {
        cores.extend(allowed.iter().last());
    }
    cores
}

/// Starts an executor.
fn start(executor: usize) -> bool {
    let Some(memory) = MEMORY.get() else { return false };
    let place = Requests::<&'static Unforked>::thread_half(executor);
    // SAFETY: `work` makes raw calls and runs the executors' loop, which keeps those rules.
    unsafe { executor::start(work, executor, memory, place) }.is_ok()
}

extern "C" fn work(executor: usize) {
    let args = [libc::PR_SET_NAME as usize, NAME.as_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: a name of 16 bytes with its end.
    let _ = unsafe { raw(Sysno::prctl as usize, args) };
    if let Some(program) = offload::program() {
        executors::run(program, executor);
    }
}

/// Whether sites of this number are caught because of offload.
pub fn is_caught(number: u32) -> bool {
    let is_ending = |judged: &Judged| judged.judgement == Judgement::Plain(Why::Ends);
    let of_all = heliostat_stub_posix::offload::calls::judged(number).is_some_and(is_ending);
    of_all || offload::judged(number).is_some()
}

/// Answers a caught call of a program with offload; `answered` is how it would be without.
pub fn hook(frame: &mut SyscallFrame, answered: impl Fn(&mut SyscallFrame) -> Verdict) -> Verdict {
    if frame.rounds == 0 && !gates::is_seen(frame.rax) {
        offload::pass();
        return answered(frame);
    }
    let entered = if IS_STAMPED.load(Relaxed) { cycles() } else { 0 };
    match frame.rounds {
        0 => before(frame),
        _ => add_rest(frame),
    }
    loop {
        let verdict = answered(frame);
        let asked = match verdict {
            Verdict::Done => return verdict,
            Verdict::Pass => Asked { number: frame.rax as u32, args: frame.args },
            Verdict::Wait if is_its_own(frame) => waited_for(frame),
            Verdict::Wait => return verdict,
        };
        match (answer(&asked, entered), verdict) {
            (Answered::Done(result), Verdict::Pass) => {
                frame.rax = result as u64;
                return Verdict::Done;
            }
            // As the trampoline does after a wait.
            (Answered::Done(result), _) => {
                frame.waited = result;
                frame.rounds += 1;
            }
            (Answered::Plainly, _) => return verdict,
            (Answered::Rest(bytes), _) => return write_rest(frame, &asked, bytes),
        }
    }
}

/// The call as it is, made by an executor or here; only for calls that do not block for long.
pub fn by_kernel(call: &Call<'_>) -> Result<usize, Errno> {
    if !offload::is_on() || !gates::is_seen(call.frame.rax) {
        return call::by_kernel(call);
    }
    match answer(&Asked { number: call.frame.rax as u32, args: call.frame.args }, 0) {
        Answered::Done(result) => check(result as isize),
        Answered::Rest(bytes) => Ok(bytes as usize),
        Answered::Plainly => call::by_kernel(call),
    }
}

fn answer(asked: &Asked, entered: u64) -> Answered {
    if !offload::is_on() {
        return Answered::Plainly;
    }
    match offload::judged(asked.number) {
        Some(judged) if offload::is_dearer(judged) || names_thread(judged, asked) => {
            Answered::Plainly
        }
        Some(judged) => offload::answer(judged, asked, entered),
        None => Answered::Plainly,
    }
}

/// The call to be waited in is the program's own, or the same by another name: not a look of the stub's.
fn is_its_own(frame: &SyscallFrame) -> bool {
    let [number, args @ ..] = frame.wait;
    number == Sysno::fstat as u64 || (number == frame.rax && args == frame.args)
}

fn waited_for(frame: &SyscallFrame) -> Asked {
    let [number, args @ ..] = frame.wait;
    Asked { number: number as u32, args }
}

/// Has the thread write what is left of a write.
fn write_rest(frame: &mut SyscallFrame, asked: &Asked, bytes: u32) -> Verdict {
    let [fd, at, length, flags, address, address_length] = asked.args;
    let moved = u64::from(bytes);
    let rest = length.min(0x7fff_f000).saturating_sub(moved);
    // A socket that has ended meanwhile: the kernel's own call would have said how much was sent.
    let flags = match asked.number == Sysno::sendto as u32 {
        true => flags | libc::MSG_NOSIGNAL as u64,
        false => flags,
    };
    frame.wait = [u64::from(asked.number), fd, at + moved, rest, flags, address, address_length];
    frame.scratch = REST | moved;
    Verdict::Wait
}

/// After that: the result is what both have written.
fn add_rest(frame: &mut SyscallFrame) {
    let is_write = frame.rax == Sysno::write as u64 || frame.rax == Sysno::sendto as u64;
    if is_write && frame.scratch & REST_MASK == REST {
        frame.waited = frame.waited.max(0) + (frame.scratch & !REST_MASK) as i64;
        frame.scratch = 0;
    }
}

/// Sees to calls after which offloaded ones would not be the same.
fn before(frame: &SyscallFrame) {
    let judged = heliostat_stub_posix::offload::calls::judged(frame.rax as u32);
    match judged.map(|judged| judged.judgement) {
        Some(Judgement::Plain(Why::Ends)) if changes_rights(frame) => offload::end(),
        Some(Judgement::Plain(Why::Life)) if ends_process(frame) => offload::before_exit(),
        Some(Judgement::Made(offload::calls::How::Option)) if waits_for_more(frame) => {
            offload::leave_out(Group::Sockets);
            offload::leave_out(Group::Files);
        }
        _ => {}
    }
}

/// Most of what prctl(2) sets is the process's, or means nothing to calls made elsewhere.
fn changes_rights(frame: &SyscallFrame) -> bool {
    let is_prctl = frame.rax == Sysno::prctl as u64;
    !is_prctl
        || matches!(
            frame.args[0] as i32,
            libc::PR_SET_SECCOMP
                | libc::PR_SET_NO_NEW_PRIVS
                | libc::PR_CAPBSET_DROP
                | libc::PR_SET_SECUREBITS
                | libc::PR_SET_KEEPCAPS
                | libc::PR_CAP_AMBIENT
        )
}

fn ends_process(frame: &SyscallFrame) -> bool {
    const ENDS: [Sysno; 3] = [Sysno::exit_group, Sysno::execve, Sysno::execveat];
    ENDS.iter().any(|call| *call as u64 == frame.rax)
}

/// SO_RCVLOWAT: a read that does not wait gives less.
fn waits_for_more(frame: &SyscallFrame) -> bool {
    let [_, level, name, ..] = frame.args.map(|word| word as i32);
    level == libc::SOL_SOCKET && name == libc::SO_RCVLOWAT
}

/// Bytes of a path that are looked at.
const PATH_BYTES: usize = 16;
const PAGE_BYTES: u64 = 4096;

/// Whether a path may lead to `/proc/thread-self`, which is the executor's own there: all of /proc, and
/// what cannot be read here.
fn names_thread(judged: &Judged, asked: &Asked) -> bool {
    if judged.paths == 0 {
        return false;
    }
    memory::guard();
    let is_path = |place: &usize| judged.paths & 1 << place != 0;
    (0..asked.args.len()).filter(is_path).any(|place| may_name_thread(asked.args[place]))
}

fn may_name_thread(address: u64) -> bool {
    let mut room = [0; PATH_BYTES];
    let within = (PAGE_BYTES - address % PAGE_BYTES).min(PATH_BYTES as u64) as usize;
    let Some(room) = room.get_mut(..within) else { return true };
    // SAFETY: a guarded copy: what is not there is a fault, which the kernel then tells.
    if address == 0 || unsafe { guarded::fetch(address as usize, room) }.is_err() {
        return true;
    }
    let path = room.split(|byte| *byte == 0).next().unwrap_or(room);
    let is_whole = path.len() < room.len();
    let is_below = |name: &[u8]| path.starts_with(name) || (!is_whole && name.starts_with(path));
    is_below(b"/proc") || is_below(b"thread-self") || path.starts_with(b"//")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_that_may_lead_to_the_threads_own_folder_are_left_to_it() {
        let names = |path: &std::ffi::CStr| may_name_thread(path.as_ptr() as u64);
        for path in [c"/proc/thread-self/comm", c"thread-self", c"//proc/x", c"/proc"] {
            assert!(names(path), "{path:?}");
        }
        for path in [c"/pro", c"/etc/passwd", c"", c".", c"thread", c"a/long/way/down/to/x"] {
            assert!(!names(path), "{path:?}");
        }
        assert!(may_name_thread(0));
    }
}
