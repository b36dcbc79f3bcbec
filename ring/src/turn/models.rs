//! Loom: whoever has the turn sees what was done in the turns before, and a dead one's goes on.
//!
//! Without a death nobody's slice ends by itself, so that a lost wake-up is a deadlock. With one it may
//! end at any time.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::sync::Watched;

/// What the life of a member says that lives.
const LIFE: u64 = 7;

/// The first who has a number.
pub(crate) fn first(number: u32) -> MemberId {
    MemberId { number, generation: 1 }
}

/// The words of some members that live.
pub(crate) struct Words {
    turn: AtomicU32,
    members: Vec<AtomicU64>,
    time_passes: bool,
}

impl Words {
    pub(crate) fn of(members: usize, one_dies: bool) -> Arc<Words> {
        let members = (0..members).map(|_| AtomicU64::new(1 << 32 | LIFE)).collect();
        Arc::new(Words { turn: AtomicU32::new(0), members, time_passes: one_dies })
    }

    /// A member dies, and the kernel marks its life.
    pub(crate) fn die(&self, member: usize) {
        let died = u64::from(libc::FUTEX_OWNER_DIED);
        self.members[member].store(1 << 32 | died, Release); // [death]
    }

    /// Waits for a member's death, and takes its number.
    pub(crate) fn succeed(&self, number: u32) -> MemberId {
        let word = &self.members[number as usize];
        loop {
            let seen = word.load(Acquire); // [death]
            if let Some(next) = MemberId::after(number, seen) {
                if next.succeed(word, seen, LIFE as u32) {
                    return next;
                }
            }
            thread::yield_now();
        }
    }
}

impl Members for Arc<Words> {
    fn turn(&self) -> &AtomicU32 {
        &self.turn
    }
    fn member(&self, number: u32) -> Option<&AtomicU64> {
        self.members.get(number as usize)
    }
    fn time_passes(&self) -> bool {
        self.time_passes
    }
}

/// Each of some members counts so many times in a turn of its own; the first dies in its last one.
fn play(preemptions: usize, comings: &'static [u32], one_dies: bool) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 20_000;
    model.check(move || {
        let words = Words::of(comings.len(), one_dies);
        let count = Arc::new(Watched::new(0));
        let start = |(member, times): (usize, &u32)| {
            let (words, count, times) = (words.clone(), count.clone(), *times);
            move || {
                let turn = Turn::new(words.clone(), first(member as u32));
                for time in 1..=times {
                    turn.take().expect("nobody stops");
                    count.set(count.get() + 1);
                    if one_dies && member == 0 && time == times {
                        return words.die(member);
                    }
                    turn.give_back();
                }
            }
        };
        let mut works: Vec<_> = comings.iter().enumerate().map(start).collect();
        let own = works.pop().expect("a member");
        let others: Vec<_> = works.into_iter().map(thread::spawn).collect();
        own();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(count.get(), comings.iter().sum::<u32>());
    });
}

#[test]
fn two_members_that_come_twice_have_it_one_at_a_time_and_none_sleeps_for_ever() {
    play(3, &[2, 2], false);
}

#[test]
fn of_three_members_all_that_sleep_are_woken() {
    play(2, &[1, 1, 1], false);
}

#[test]
fn another_member_goes_on_after_one_that_died_in_its_turn() {
    play(3, &[2, 2], true);
}

#[test]
fn two_members_go_on_after_one_that_died_in_its_turn() {
    play(1, &[1, 1, 1], true);
}

/// The first member dies, in its turn or behind it. Another, and who gets its number, count after that.
fn play_succession(dies_in_turn: bool) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(1);
    model.max_branches = 20_000;
    model.check(move || {
        let (words, count) = (Words::of(2, true), Arc::new(Watched::new(0)));
        let (its, its_count) = (words.clone(), count.clone());
        let dying = thread::spawn(move || {
            let turn = Turn::new(its.clone(), first(0));
            turn.take().expect("nobody stops");
            its_count.set(its_count.get() + 1);
            if !dies_in_turn {
                turn.give_back();
            }
            its.die(0);
        });
        let (its, its_count) = (words.clone(), count.clone());
        let other = thread::spawn(move || count_once(&Turn::new(its, first(1)), &its_count));
        let successor = words.succeed(0);
        assert_eq!(successor, MemberId { number: 0, generation: 2 });
        count_once(&Turn::new(words, successor), &count);
        dying.join().unwrap();
        other.join().unwrap();
        assert_eq!(count.get(), 3);
    });
}

fn count_once(turn: &Turn<Arc<Words>>, count: &Watched<u32>) {
    turn.take().expect("nobody stops");
    count.set(count.get() + 1);
    turn.give_back();
}

#[test]
fn who_gets_the_number_of_one_that_died_in_its_turn_does_not_keep_the_turn_from_anybody() {
    play_succession(true);
}

#[test]
fn who_gets_the_number_of_one_that_died_takes_turns_with_others() {
    play_succession(false);
}

/// Of two that want one number one gets it.
#[test]
fn two_that_want_a_dead_ones_number_do_not_both_get_it() {
    loom::model(|| {
        let words = Words::of(1, true);
        words.die(0);
        let want = |life: u32| {
            let words = words.clone();
            move || {
                let seen = words.members[0].load(Acquire);
                let next = MemberId::after(0, seen);
                next.is_some_and(|next| next.succeed(&words.members[0], seen, life))
            }
        };
        let other = thread::spawn(want(8));
        let (own, others) = (want(9)(), other.join().unwrap());
        assert!(own != others);
        let life = if own { 9 } else { 8 };
        assert_eq!(words.members[0].load(Acquire), 2 << 32 | life);
    });
}
