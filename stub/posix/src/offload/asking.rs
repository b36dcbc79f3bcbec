//! A thread asks an executor for a call, and waits for its answer.

use heliostat_abi::code::Unoffloaded;
use heliostat_base::clock::cycles;
use heliostat_base::spin::{pause, Spin};
use heliostat_base::sync::Ordering::Relaxed;
use heliostat_ring::request::{Answer, Asked, Requests, Stamp};

use super::{executors, lines, Answered, Program};
use crate::thread::Critical;

/// A call that nobody has taken is withdrawn after so long, some 40 us: the executor is waking up, or
/// its core is another's.
pub const LATE_CYCLES: u64 = 100_000;
/// The same where nothing is measured, some 0.4 ms: calls are to go there though the core is shared.
pub const LATE_CYCLES_ALWAYS: u64 = 1_000_000;
/// The same for the call that rouses an executor, and for one that another thread is making, some 0.2 ms.
pub const LATE_CYCLES_ROUSE: u64 = 500_000;
/// For so long a thread looks without giving its core away, some 2 us.
const EAGER_CYCLES: u64 = 5_000;
/// Who waits for a call that is being made looks for so long before it sleeps, some 20 us.
const LOOK_CYCLES: u64 = 50_000;

/// Asks an executor for a call and waits for its answer; the reason where there is none. `late` is when it
/// is withdrawn if nobody has taken it.
pub fn offloaded(
    program: &Program,
    asked: &Asked,
    entered: u64,
    late: u64,
) -> (Answered, Unoffloaded) {
    let requests = &program.requests;
    let Some(line) = lines::mine(requests) else { return (Answered::Plainly, Unoffloaded::NoLine) };
    let executor = line % program.cores.len();
    if let Err(why) = executors::ensure(program, executor, LATE_CYCLES_ROUSE) {
        return (Answered::Plainly, why);
    }
    let is_stamped = executors::IS_STAMPED.load(Relaxed);
    if is_stamped {
        requests.stamp(line, Stamp::Entered, entered);
    }
    let _critical = Critical::enter();
    if !requests.is_idle(line) {
        // A handler came between, and jumped out of its own call.
        return (Answered::Plainly, Unoffloaded::NoLine);
    }
    requests.ask(line, asked);
    if is_stamped {
        requests.stamp(line, Stamp::Asked, cycles());
    }
    requests.submit(executor, line);
    let answer = await_answer(requests, line, late);
    if is_stamped {
        requests.stamp(line, Stamp::Seen, cycles());
    }
    match answer {
        Some(Answer::Result(result)) => (Answered::Done(result), Unoffloaded::None),
        Some(Answer::Refused(part)) if part & super::PART != 0 => {
            (Answered::Rest(part & !super::PART), Unoffloaded::None)
        }
        Some(Answer::Refused(_)) => (Answered::Plainly, Unoffloaded::Waits),
        None => (Answered::Plainly, Unoffloaded::Late),
    }
}

/// Looks for the answer, then sleeps for it; `None` when nobody took the call, which is withdrawn.
fn await_answer(requests: &Requests, line: usize, late_cycles: u64) -> Option<Answer> {
    let began = cycles();
    let mut spin = Spin::new();
    loop {
        if let Some(answer) = requests.look(line) {
            return Some(answer);
        }
        let passed = cycles().wrapping_sub(began);
        if passed > late_cycles && requests.withdraw(line) {
            return None;
        }
        if passed > late_cycles + LOOK_CYCLES {
            // It is being made, by a disk perhaps; only its answer ends this.
            requests.sleep_for_answer(line, None);
            continue;
        }
        match passed < EAGER_CYCLES {
            true => pause(),
            false => _ = spin.turn(),
        }
    }
}
