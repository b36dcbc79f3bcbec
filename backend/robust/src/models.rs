//! Loom: the orders R1 to R3 of a robust lock, with the kernel that frees what a dead thread held.
//!
//! The kernel's walk is [`Thread::die`], after `handle_futex_death` of its futex code: an entry in the
//! list, and one that is announced, are looked at; a word that names the dead thread is marked, and
//! one that names nobody while its entry is announced has a sleeper woken. Time does not pass: a
//! model without a death, or with one outside of a sleep, needs no second look. Who was woken and is
//! killed before it has announced itself is what the second look is for, and not modelled.

use std::cell::Cell;

use loom::sync::Arc;
use loom::thread;

use super::*;
use heliostat_base::sync::Watched;

struct LockedCount {
    word: AtomicU32,
    count: Watched<u32>,
}

/// A thread as the kernel knows it.
struct Thread {
    number: u32,
    is_announced: Cell<bool>,
    is_listed: Cell<bool>,
}

/// Where a thread dies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dies {
    Never,
    /// The word is taken, and its entry not in the list.
    BeforeItIsListed,
    /// It holds the lock.
    Holding,
    /// The entry has left the list, and the word names the thread still.
    BeforeItIsFree,
    /// The word is free, and nobody has been woken.
    BeforeItWakes,
}

impl Taker for Thread {
    fn thread(&self) -> u32 {
        self.number
    }
    fn announce(&self) {
        self.is_announced.set(true);
    }
    fn withdraw(&self) {
        self.is_announced.set(false);
    }
}

impl Thread {
    fn new(number: u32) -> Self {
        Self { number, is_announced: Cell::new(false), is_listed: Cell::new(false) }
    }

    /// Adds one under the lock, unless it dies before.
    fn count(&self, shared: &LockedCount, dies: Dies) {
        wait_and_take(&shared.word, self);
        if dies == Dies::BeforeItIsListed {
            return self.die(&shared.word);
        }
        self.is_listed.set(true);
        self.withdraw();
        shared.count.set(shared.count.get() + 1);
        if dies == Dies::Holding {
            return self.die(&shared.word);
        }
        self.announce();
        self.is_listed.set(false);
        match dies {
            Dies::BeforeItIsFree => return self.die(&shared.word),
            Dies::BeforeItWakes => {
                shared.word.swap(0, Release);
                return self.die(&shared.word);
            }
            _ => give_back(&shared.word),
        }
        self.withdraw();
    }

    fn die(&self, word: &AtomicU32) {
        if self.is_listed.get() {
            self.free(word, false);
        }
        if self.is_announced.get() {
            self.free(word, true);
        }
    }

    fn free(&self, word: &AtomicU32, is_announced: bool) {
        loop {
            let seen = word.load(Relaxed);
            if is_announced && is_free(seen) {
                return futex_wake_one(word);
            }
            if seen & OWNER != self.number {
                return;
            }
            let marked = seen & WAITERS | libc::FUTEX_OWNER_DIED;
            if word.compare_exchange(seen, marked, Release, Relaxed).is_ok() {
                if seen & WAITERS != 0 {
                    futex_wake_one(word);
                }
                return;
            }
        }
    }
}

/// One thread for each entry, which comes as often as it says and dies in the last time.
fn play(preemptions: usize, threads: &'static [(u32, Dies)]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let shared = Arc::new(LockedCount { word: AtomicU32::new(0), count: Watched::new(0) });
        let start = |(number, (times, dies)): (usize, &(u32, Dies))| {
            let (shared, times, dies) = (shared.clone(), *times, *dies);
            move || {
                let own = Thread::new(number as u32 + 1);
                (1..times).for_each(|_| own.count(&shared, Dies::Never));
                own.count(&shared, dies);
            }
        };
        let mut works: Vec<_> = threads.iter().enumerate().map(start).collect();
        let own = works.pop().expect("a thread");
        let others: Vec<_> = works.into_iter().map(thread::spawn).collect();
        own();
        others.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(is_free(shared.word.load(Relaxed)));
        let missed = threads.iter().filter(|(_, dies)| *dies == Dies::BeforeItIsListed).count();
        let comings: u32 = threads.iter().map(|(times, _)| times).sum();
        assert_eq!(shared.count.get(), comings - missed as u32);
    });
}

use Dies::{BeforeItIsFree, BeforeItIsListed, BeforeItWakes, Holding, Never};

#[test]
fn loom_two_that_come_twice_hold_it_one_at_a_time_and_none_sleeps_for_ever() {
    play(3, &[(2, Never), (2, Never)]);
}

#[test]
fn loom_of_three_all_that_sleep_are_woken() {
    play(2, &[(1, Never), (1, Never), (1, Never)]);
}

#[test]
fn loom_two_go_on_after_one_that_died_holding_it() {
    play(2, &[(1, Holding), (1, Never), (1, Never)]);
}

#[test]
fn loom_two_go_on_after_one_that_died_before_it_stood_in_its_list() {
    play(2, &[(1, BeforeItIsListed), (1, Never), (1, Never)]);
}

#[test]
fn loom_two_go_on_after_one_that_died_before_the_word_was_free() {
    play(2, &[(1, BeforeItIsFree), (1, Never), (1, Never)]);
}

#[test]
fn loom_two_go_on_after_one_that_died_between_freeing_and_waking() {
    play(2, &[(1, BeforeItWakes), (1, Never), (1, Never)]);
}

#[test]
fn loom_two_that_die_one_after_the_other_leave_it_free() {
    play(2, &[(1, Holding), (1, BeforeItIsFree), (1, Never)]);
}
