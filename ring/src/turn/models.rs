//! Loom: whoever has the turn sees what was done in the turns before, and a dead one's goes on.
//!
//! Without a death nobody's slice ends by itself, so that a lost wake-up is a deadlock. With one it may
//! end at any time.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::sync::Watched;

/// The words of some members that live.
pub(crate) struct Words {
    turn: AtomicU32,
    lives: Vec<AtomicU32>,
    time_passes: bool,
}

impl Words {
    pub(crate) fn of(members: usize, one_dies: bool) -> Arc<Words> {
        let lives = (0..members).map(|_| AtomicU32::new(7)).collect();
        Arc::new(Words { turn: AtomicU32::new(0), lives, time_passes: one_dies })
    }

    /// A member dies, and the kernel marks its life.
    pub(crate) fn die(&self, member: usize) {
        self.lives[member].store(libc::FUTEX_OWNER_DIED, Release); // [death]
    }
}

impl Members for Arc<Words> {
    fn turn(&self) -> &AtomicU32 {
        &self.turn
    }
    fn life(&self, member: u32) -> Option<&AtomicU32> {
        self.lives.get(member as usize)
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
                let turn = Turn::new(words.clone(), member as u32);
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
