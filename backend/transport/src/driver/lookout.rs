//! Whether a node's thread that has nothing to do looks on for a moment before it sleeps.
//!
//! ```text
//! something happened --> nothing to do: looks on, LOOK_NS at most --> sleeps --> something happened
//!                                \--> waits are long, or others want the core: sleeps at once --^
//! ```
//! A look is a whole turn of the thread, so that a sign of life that is due goes out meanwhile, and
//! between two looks the core is offered to others. Waits for answers and waits for whatever comes next
//! are told apart: answers may come at once while requests are rare.

use heliostat_base::looking::{Cores, Waits, LOOK_NS};

/// What one look burns at most: where it took longer others had the core meanwhile.
const BURNED_NS_MAX: u64 = 3_000;
/// However little was burned, nobody looks on for longer.
const PASSED_NS_MAX: u64 = 500_000;

/// What the thread has learnt, and the wait that it is in.
#[derive(Default, Debug)]
pub struct Lookout {
    /// Of waits with no call under way, and with some.
    waits: [Waits; 2],
    cores: Cores,
    wait: Option<Wait>,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    began_ns: u64,
    /// Which kind of wait it is.
    kind: usize,
    last_look_ns: u64,
    burned_ns: u64,
    /// It may be looked on.
    looks: bool,
    has_slept: bool,
}

impl Lookout {
    /// There is something to do: the wait, if there was one, is over.
    pub fn found(&mut self, now_ns: u64) {
        let Some(wait) = self.wait.take() else { return };
        self.waits[wait.kind].ended(now_ns.saturating_sub(wait.began_ns), wait.has_slept);
        if !wait.has_slept {
            self.cores.found();
        }
    }

    /// There is nothing to do: whether to look on. Then the caller lets others have the core, and looks.
    pub fn looks_on(&mut self, now_ns: u64, awaits_answers: bool) -> bool {
        let Some(wait) = &mut self.wait else {
            let kind = usize::from(awaits_answers);
            let looks = self.waits[kind].are_short() && self.cores.are_free(now_ns);
            let (began_ns, last_look_ns) = (now_ns, now_ns);
            self.wait =
                Some(Wait { began_ns, kind, last_look_ns, burned_ns: 0, looks, has_slept: false });
            return looks;
        };
        if wait.looks {
            let took_ns = now_ns.saturating_sub(wait.last_look_ns);
            wait.last_look_ns = now_ns;
            wait.burned_ns += took_ns.min(BURNED_NS_MAX);
            self.cores.looked(took_ns, now_ns);
            let passed_ns = now_ns.saturating_sub(wait.began_ns);
            wait.looks = wait.burned_ns < LOOK_NS
                && passed_ns < PASSED_NS_MAX
                && self.cores.are_free(now_ns);
        }
        wait.looks
    }

    /// The thread sleeps.
    pub fn sleeps(&mut self) {
        if let Some(wait) = &mut self.wait {
            wait.has_slept = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wait of this length, looked at every microsecond while that goes on: how long it did.
    fn wait(lookout: &mut Lookout, at_ns: u64, length_ns: u64, awaits_answers: bool) -> u64 {
        let mut now_ns = at_ns;
        while now_ns < at_ns + length_ns && lookout.looks_on(now_ns, awaits_answers) {
            now_ns += 1_000;
        }
        let looked_ns = now_ns - at_ns;
        if looked_ns < length_ns {
            lookout.sleeps();
        }
        lookout.found(at_ns + length_ns);
        looked_ns
    }

    fn used_to_short_waits() -> Lookout {
        let mut lookout = Lookout::default();
        for turn in 0..4 {
            wait(&mut lookout, turn * 100_000, 20_000, false);
        }
        lookout
    }

    #[test]
    fn short_waits_are_looked_through_after_two_that_were_slept() {
        let mut lookout = Lookout::default();
        let looked: Vec<_> =
            (0..4).map(|turn| wait(&mut lookout, turn * 100_000, 20_000, false)).collect();
        assert_eq!(looked, [0, 0, 20_000, 20_000]);
    }

    #[test]
    fn long_waits_are_given_up_after_a_while_and_then_slept_at_once() {
        let mut lookout = used_to_short_waits();
        let looked: Vec<_> =
            (1..4).map(|turn| wait(&mut lookout, turn * 10_000_000, 5_000_000, false)).collect();
        assert_eq!(looked, [LOOK_NS, LOOK_NS, 0]);
    }

    #[test]
    fn answers_that_come_at_once_are_looked_for_though_requests_are_rare() {
        let (mut lookout, mut now_ns, mut looked) = (Lookout::default(), 0, Vec::new());
        for _ in 0..50 {
            looked.push(wait(&mut lookout, now_ns, 20_000, true));
            looked.push(wait(&mut lookout, now_ns + 20_000, 1_000_000, false));
            now_ns += 1_020_000;
        }
        assert_eq!(looked[98..], [20_000, 0]);
    }

    #[test]
    fn who_loses_the_core_for_a_slice_sleeps_for_a_multiple_of_it() {
        let mut lookout = used_to_short_waits();
        assert!(lookout.looks_on(1_000_000, false));
        assert!(!lookout.looks_on(5_000_000, false));
        lookout.found(5_000_000);
        assert!(!lookout.looks_on(5_001_000, false));
        lookout.found(5_002_000);
        assert_eq!(wait(&mut lookout, 50_000_000, 20_000, false), 20_000);
    }

    #[test]
    fn others_who_have_the_core_for_short_do_not_use_up_the_time_to_look() {
        let mut lookout = used_to_short_waits();
        let looks = (0..).take_while(|look| lookout.looks_on(1_000_000 + look * 10_000, false));
        assert_eq!(looks.count() as u64, LOOK_NS / BURNED_NS_MAX + 1);
    }
}
