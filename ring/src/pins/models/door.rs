//! Loom: a consumer that joins by name, whose page the producer does not know yet.
//!
//! The control plane changes the region's word before it tells the newcomer of the table. The
//! producer clears a number, looks at the pages that it knows, and then at the word: if that has
//! changed, the number is put back and the newcomer admitted first. This is what the door of a
//! named region does (`stub`, `snapshot/door.rs`), over the production code of pins.

use super::*;

/// How often a version is tried to be retired while consumers join.
const ATTEMPTS: usize = 2;

/// A door with its word, and how many of the region's pages are admitted.
struct Door {
    seen: u64,
    admitted: usize,
}

impl Door {
    /// As the door retires: true when the version in `place` is gone.
    fn retire<const P: usize, const C: usize>(
        &mut self,
        region: &Region<P, C>,
        word: &AtomicU64,
        place: usize,
    ) -> bool {
        let number = region.numbers[place].load(Relaxed);
        for _ in 0..ATTEMPTS {
            if !try_retire(region, place, &region.pages[..self.admitted]) {
                return false;
            }
            let now = word.load(Acquire);
            if now == self.seen {
                return true;
            }
            region.numbers[place].store(number, Release);
            (self.seen, self.admitted) = (now, now as usize);
        }
        false
    }
}

/// The control plane's word, then the newcomer's pin and read.
fn join<const P: usize, const C: usize>(
    region: &Region<P, C>,
    word: &AtomicU64,
    page: usize,
) -> bool {
    word.fetch_add(1, Release);
    let pinned = pin_number(region, &region.pages[page], 1);
    pinned.map(|pinned| region.read(pinned)).is_ok()
}

#[test]
fn loom_whoever_joins_while_a_version_is_retired_keeps_it_or_finds_it_gone() {
    loom::model(|| {
        let (region, word) = (Region::<2, 1>::new(), Arc::new(AtomicU64::new(0)));
        produce_unseen(&region, 1, 0);
        produce_unseen(&region, 2, 1);
        let (newcomer, bell) = (region.clone(), word.clone());
        let reader = thread::spawn(move || join(&newcomer, &bell, 0));
        let mut door = Door { seen: 0, admitted: 0 };
        let is_retired = door.retire(&region, &word, 0);
        if is_retired {
            region.write(0, 3);
        }
        assert!(!(is_retired && reader.join().unwrap()), "it was read and rewritten");
    });
}

#[test]
fn loom_two_who_join_one_after_the_other_are_both_seen_or_see_that_it_is_gone() {
    model(3, || {
        let (region, word) = (Region::<2, 2>::new(), Arc::new(AtomicU64::new(0)));
        produce_unseen(&region, 1, 0);
        produce_unseen(&region, 2, 1);
        let (newcomers, bell) = (region.clone(), word.clone());
        // Two processes, of which the control plane hears one after the other.
        let readers = thread::spawn(move || {
            let first = join(&newcomers, &bell, 0);
            join(&newcomers, &bell, 1) || first
        });
        let mut door = Door { seen: 0, admitted: 0 };
        let is_retired = door.retire(&region, &word, 0);
        if is_retired {
            region.write(0, 3);
        }
        assert!(!(is_retired && readers.join().unwrap()), "it was read and rewritten");
    });
}

/// A version in a free place, while the producer knows nobody.
fn produce_unseen<const P: usize, const C: usize>(
    region: &Region<P, C>,
    number: u64,
    place: usize,
) {
    region.write(place, number);
    publish(region, place, number);
}
