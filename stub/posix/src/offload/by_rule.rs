//! A call by the way that its group's rule says, and what the rule is told of it.

use heliostat_abi::code::Unoffloaded;
use heliostat_abi::offload::Group;
use heliostat_base::call;
use heliostat_base::clock::cycles;
use heliostat_ring::request::Asked;

use super::asking::{self, LATE_CYCLES, LATE_CYCLES_ROUSE};
use super::rule::{Outcome, Sample, Way, RULES};
use super::{spare, told, Answered, Made, Program};
use crate::thread;

/// What became of a call, and why it was not made elsewhere.
type Known = (Answered, Unoffloaded);

/// The call by the way that its group's rule says.
pub fn answer(program: &Program, group: Group, asked: &Asked, entered: u64) -> Known {
    let rule = &RULES[group as usize];
    let began = cycles();
    let looks = |is_at_work| spare::look(program, is_at_work);
    match rule.way(asked.number, thread::tid() as u32, began, looks) {
        Way::Plain => (Answered::Plainly, Unoffloaded::Dearer),
        Way::Sampled(sample) => sampled(program, group, asked, sample),
        Way::Offloaded => {
            let known = asking::offloaded(program, asked, entered, LATE_CYCLES);
            let now = cycles();
            if rule.offloaded(outcome(known.1, now.saturating_sub(began)), now) {
                told::judged(group);
            }
            known
        }
    }
}

/// What became of an offloaded call whose thread waited so long.
fn outcome(why: Unoffloaded, waited: u64) -> Outcome {
    match why {
        Unoffloaded::None => spare::cost(waited),
        Unoffloaded::Late | Unoffloaded::Ended => Outcome::Late,
        _ => Outcome::Vain,
    }
}

/// Makes a call as a sample of one way.
#[cold]
fn sampled(program: &Program, group: Group, asked: &Asked, sample: Sample) -> Known {
    let began = cycles();
    let (known, outcome) = match sample.is_offloaded() {
        true => offloaded_sample(program, asked, sample),
        false => plain_sample(program, asked),
    };
    let now = cycles();
    spare::spend(now.saturating_sub(began));
    if RULES[group as usize].sampled(sample, outcome, now) {
        spare::end();
        told::judged(group);
    }
    known
}

/// Has an executor make a call, to know what that takes.
fn offloaded_sample(program: &Program, asked: &Asked, sample: Sample) -> (Known, Outcome) {
    let late = if sample.is_rouse() { LATE_CYCLES_ROUSE } else { LATE_CYCLES };
    let began = cycles();
    let known = asking::offloaded(program, asked, 0, late);
    (known, outcome(known.1, cycles().saturating_sub(began)))
}

/// Makes a call in its own thread without waiting, to know what that takes.
fn plain_sample(program: &Program, asked: &Asked) -> (Known, Outcome) {
    // As in an executor no signal of the call's own comes between: one that fails so is not made again.
    let before = call::signal_mask(libc::SIG_BLOCK, Some(OF_WRITES));
    let (made, took) = (program.make_timed)(asked);
    call::signal_mask(libc::SIG_SETMASK, Some(before));
    let (answered, outcome) = match made {
        Made::Result(result) => (Answered::Done(result), Outcome::Made(took)),
        Made::Signals(errno) => (Answered::Done(-i64::from(errno)), Outcome::Made(took)),
        Made::Part(bytes) => (Answered::Rest(bytes), Outcome::Vain),
        Made::Waits | Made::Plain => (Answered::Plainly, Outcome::Vain),
    };
    ((answered, Unoffloaded::Dearer), outcome)
}

/// The signals that failed writes send to their own thread.
const OF_WRITES: u64 = 1 << (libc::SIGPIPE - 1) | 1 << (libc::SIGXFSZ - 1);
