//! Keeps a caller and who answers it on one core while a descriptor is handed over.
//!
//! An answer wakes its caller on the answerer's own core (`Listener::wake_on_one_processor`), but
//! handing over a descriptor wakes each side as any wake-up does (source: linux/kernel/seccomp.c,
//! `seccomp_notify_addfd`): on another core that is idle, and each time that is an interrupt to
//! that core. So the two go to and fro, at up to ten times the cost of the call. Once hand-overs
//! have become slow, the next ones are made with both restricted to this core.

use std::time::{Duration, Instant};

use heliostat_base::affinity::{allowed, current_cpu, restrict, CpuSet};

/// What hand-overs take on the average when they are better made on one core, where they take a
/// third of it, and the restriction as much again.
const SLOW: Duration = Duration::from_micros(25);
/// What one counts at most: the machine may have had other work.
const LONGEST: Duration = Duration::from_micros(100);
/// The average is of about so many.
const OF: u32 = 8;
/// Hand-overs that are then made on one core, before it is seen how they go without.
const ROUNDS: u32 = 128;

/// Where an answering thread has its callers woken; each such thread has one.
#[derive(Debug, Default)]
pub struct Placement {
    /// Hand-overs that are still to be made on one core.
    rounds: u32,
    /// What the last ones took.
    average: Duration,
}

impl Placement {
    /// Runs `hand_over`, which wakes `caller` and waits for it.
    ///
    /// Meanwhile either may be restricted to this core. Afterwards each has the cores that it had
    /// before: whoever else sets the caller's in between does so in vain.
    pub fn run<T>(&mut self, caller: i32, hand_over: impl FnOnce() -> T) -> T {
        if self.rounds > 0 {
            let together = Together::new(caller);
            // Who cannot be placed is not asked for its cores 127 times more.
            self.rounds = if together.is_some() { self.rounds - 1 } else { 0 };
            return hand_over();
        }
        let start = Instant::now();
        let answer = hand_over();
        self.average = (self.average * (OF - 1) + start.elapsed().min(LONGEST)) / OF;
        if self.average > SLOW {
            *self = Placement { rounds: ROUNDS, average: Duration::ZERO };
        }
        answer
    }
}

/// Two threads on one core, until the value goes.
struct Together {
    caller: i32,
    theirs: CpuSet,
    own: CpuSet,
}

impl Together {
    /// `None` where they cannot be together, or can be nowhere else.
    fn new(caller: i32) -> Option<Together> {
        let here = current_cpu();
        let (theirs, own) = (allowed(caller).ok()?, allowed(0).ok()?);
        if theirs.count() < 2 || !theirs.contains(here) || own.count() < 2 {
            return None;
        }
        let together = Together { caller, theirs, own };
        let one = CpuSet::single(here);
        restrict(0, &one).and_then(|()| restrict(caller, &one)).ok().map(|()| together)
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        // A caller that is gone has no cores.
        let _ = restrict(self.caller, &self.theirs);
        let _ = restrict(0, &self.own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own_thread;

    /// A thread that waits; its number.
    fn sleeper() -> i32 {
        let (told, hears) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            told.send(own_thread()).unwrap();
            std::thread::park_timeout(Duration::from_secs(120));
        });
        hears.recv().unwrap()
    }

    #[test]
    fn after_slow_hand_overs_both_are_on_one_core_and_have_all_theirs_afterwards() {
        let (caller, before) = (sleeper(), allowed(0).unwrap());
        if before.count() < 2 {
            return eprintln!("skipped: one core");
        }
        let mut placement = Placement::default();
        // From nothing, 12, 23 and 33 us.
        const ENOUGH: usize = 3;
        let cores = || (allowed(0).unwrap().count(), allowed(caller).unwrap().count());
        let all = (before.count(), before.count());
        let slow = || {
            std::thread::sleep(LONGEST);
            cores()
        };
        (0..ENOUGH).for_each(|_| assert_eq!(placement.run(caller, slow), all));
        assert_eq!((placement.run(caller, cores), cores()), ((1, 1), all));
        (1..ROUNDS).for_each(|_| assert_eq!(placement.run(caller, cores), (1, 1)));
        assert_eq!(placement.run(caller, slow), all);
    }

    #[test]
    fn a_caller_with_one_core_or_gone_is_left_as_it_is() {
        let (caller, before) = (sleeper(), allowed(0).unwrap());
        let last = before.iter().last().unwrap();
        restrict(caller, &CpuSet::single(last)).unwrap();
        for caller in [caller, i32::MAX] {
            let mut placement = Placement { rounds: 1, ..Placement::default() };
            placement.run(caller, || assert!(allowed(0).unwrap() == before));
            assert!(allowed(0).unwrap() == before);
        }
        assert_eq!(allowed(caller), Ok(CpuSet::single(last)));
    }
}
