//! What holds of a registration, whatever the registry answers and whenever: with a registry that has a
//! lease of its own, on a clock of its own, and loses and delays what it is asked and what it answers.

use heliostat_abi::cluster::{MemberAddress, RegisteredMember};
use proptest::prelude::*;

use crate::{Answer, Ask, Registration, Step as Effect, Timing};

const TTL_NS: u64 = 3_000_000_000;
const OWN: u64 = 1;

#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(u64),
    /// The registry does what waits longest; whether its answer is lost.
    Serves(bool),
    /// What waits longest is lost.
    Loses,
    /// The answer that waits longest is heard.
    Hears,
    /// The registry forgets the record before the lease ends.
    Forgets,
    /// The watch tells what it has.
    Watches,
    /// Changes are missed.
    Misses,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..TTL_NS / 2).prop_map(Step::Wait),
        8 => any::<u8>().prop_map(|by| Step::Serves(by < 16)),
        1 => Just(Step::Loses),
        8 => Just(Step::Hears),
        1 => Just(Step::Forgets),
        2 => Just(Step::Watches),
        1 => Just(Step::Misses),
    ];
    prop::collection::vec(step, 0..200)
}

/// A node, its registry, and all that is on the way.
struct World {
    own: Registration,
    now_ns: u64,
    asked: Vec<(u64, Ask)>,
    answers: Vec<(u64, Answer)>,
    /// When the registry's lease ends.
    lease_end_ns: Option<u64>,
    record: Option<(RegisteredMember, u64)>,
    revision: u64,
    /// Until when the node's thread acts.
    held_until_ns: u64,
    lives: Vec<u64>,
}

impl World {
    fn new() -> World {
        let address = MemberAddress::NONE;
        let record = RegisteredMember { node: OWN, incarnation: 1, address };
        World {
            own: Registration::new(record, Timing { ttl_ns: TTL_NS }, 0),
            now_ns: 0,
            asked: Vec::new(),
            answers: Vec::new(),
            lease_end_ns: None,
            record: None,
            revision: 0,
            held_until_ns: 0,
            lives: vec![1],
        }
    }

    fn obey(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Ask { number, ask, deadline_ns } => {
                    assert!(deadline_ns > self.now_ns);
                    self.asked.push((number, ask));
                }
                Effect::Hold { until_ns } => self.held_until_ns = self.held_until_ns.max(until_ns),
                Effect::In { .. } => {}
                Effect::Out { incarnation } => {
                    assert!(self.lives.iter().all(|life| *life < incarnation));
                    self.lives.push(incarnation);
                    self.held_until_ns = 0;
                }
            }
        }
    }

    fn serve(&mut self, is_lost: bool) {
        if self.asked.is_empty() {
            return;
        }
        let (number, ask) = self.asked.remove(0);
        let has_lease = self.lease_end_ns.is_some();
        let answer = match ask {
            Ask::Lease => {
                self.end_lease();
                self.lease_end_ns = Some(self.now_ns + TTL_NS);
                Answer::Done { revision: self.revision }
            }
            Ask::KeepAlive | Ask::Put { .. } if !has_lease => Answer::NoLease,
            Ask::KeepAlive => {
                self.lease_end_ns = Some(self.now_ns + TTL_NS);
                Answer::Done { revision: self.revision }
            }
            Ask::List { .. } => {
                let named = self.record.clone().into_iter().collect();
                Answer::Listed { named, revision: self.revision, more_after: None }
            }
            Ask::Put { expected, record } => {
                if self.record.as_ref().map_or(0, |it| it.1) == expected {
                    self.revision += 1;
                    self.record = Some((record, self.revision));
                    Answer::Done { revision: self.revision }
                } else {
                    Answer::Failed("conflict".to_owned())
                }
            }
        };
        if is_lost {
            self.answers.push((number, Answer::Failed("lost".to_owned())));
        } else {
            self.answers.push((number, answer));
        }
    }

    fn end_lease(&mut self) {
        if self.lease_end_ns.take().is_some() && self.record.take().is_some() {
            self.revision += 1;
        }
    }

    fn wait(&mut self, ns: u64) {
        self.now_ns += ns;
        if self.lease_end_ns.is_some_and(|end| end <= self.now_ns) {
            self.end_lease();
        }
    }

    fn take(&mut self, step: Step) {
        let (mut effects, fresh) = (Vec::new(), self.now_ns);
        match step {
            Step::Wait(ns) => self.wait(ns),
            Step::Serves(is_lost) => self.serve(is_lost),
            Step::Loses => {
                if !self.asked.is_empty() {
                    let (number, _) = self.asked.remove(0);
                    self.answers.push((number, Answer::Failed("lost".to_owned())));
                }
            }
            Step::Hears => {
                if !self.answers.is_empty() {
                    let (number, answer) = self.answers.remove(0);
                    self.own.answered(number, answer, self.now_ns, fresh, &mut effects);
                }
            }
            Step::Forgets => self.end_lease(),
            Step::Watches => {
                let found = self.record.clone();
                let found = found.as_ref().map(|it| &it.0);
                self.own.own_changed(found, self.revision, self.now_ns, fresh, &mut effects);
            }
            Step::Misses => self.own.missed(self.now_ns),
        }
        self.obey(effects);
        let mut effects = Vec::new();
        self.own.pass_time(self.now_ns, fresh, &mut effects);
        self.obey(effects);
    }
}

proptest! {
    #[test]
    fn a_node_acts_only_while_the_registry_has_its_record_unless_that_was_taken_away(
        steps in steps(),
    ) {
        let mut world = World::new();
        let mut was_taken = false;
        for step in steps {
            was_taken |= matches!(step, Step::Forgets);
            world.take(step);
            let acts = world.now_ns < world.held_until_ns;
            prop_assert_eq!(acts, world.own.guard(world.now_ns).is_some());
            if acts && !was_taken {
                // Its lease there ends later than here.
                prop_assert!(world.lease_end_ns.is_some_and(|end| end > world.held_until_ns));
                let life = world.record.as_ref().map(|(it, _)| it.incarnation);
                prop_assert_eq!(life, Some(world.own.incarnation()));
            }
        }
    }

    #[test]
    fn whatever_happened_a_registry_that_answers_brings_the_node_in(steps in steps()) {
        let mut world = World::new();
        steps.into_iter().for_each(|step| world.take(step));
        for _ in 0..200 {
            let due = world.own.next_ns().map_or(0, |due| due.saturating_sub(world.now_ns));
            world.take(Step::Wait(due.min(TTL_NS / 4)));
            while !world.asked.is_empty() || !world.answers.is_empty() {
                world.take(Step::Serves(false));
                world.take(Step::Hears);
            }
            world.take(Step::Watches);
        }
        prop_assert!(world.own.guard(world.now_ns).is_some(), "{:?}", world.own);
        prop_assert_eq!(world.own.why(), None);
        let (record, revision) = world.record.clone().unwrap_or_else(|| unreachable!());
        prop_assert_eq!(record.incarnation, world.own.incarnation());
        prop_assert_eq!(Some(revision), world.own.guard(world.now_ns));
    }
}

#[test]
fn a_later_life_that_is_registered_is_not_pushed_away() {
    let mut world = World::new();
    let address = MemberAddress::parse("tcp:127.0.0.1:9").unwrap_or_default();
    world.record = Some((RegisteredMember { node: OWN, incarnation: 99, address }, 5));
    world.revision = 5;
    for _ in 0..40 {
        for step in [Step::Wait(TTL_NS / 8), Step::Serves(false), Step::Hears] {
            world.take(step);
            world.lease_end_ns = world.lease_end_ns.map(|_| u64::MAX);
        }
        if world.record.is_none() {
            // A new lease of ours ended nothing of theirs; this registry has one for both.
            break;
        }
    }
    assert_eq!(world.own.guard(world.now_ns), None);
}
