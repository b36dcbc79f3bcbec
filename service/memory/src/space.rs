//! Free bytes of one arena: best fit, and neighbours become one again.
//!
//! Two orders of the same free runs, by place and by length, so that taking and giving back take
//! O(log n) however many regions lie in the arena.

use std::collections::{BTreeMap, BTreeSet};

/// Which bytes of an arena nobody has.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    bytes: u64,
    free: u64,
    by_place: BTreeMap<u64, u64>,
    by_length: BTreeSet<(u64, u64)>,
}

impl Space {
    /// All of `bytes` are free.
    pub(crate) fn new(bytes: u64) -> Self {
        let mut space =
            Self { bytes, free: 0, by_place: BTreeMap::new(), by_length: BTreeSet::new() };
        space.give(0, bytes);
        space
    }

    /// The longest free run.
    pub(crate) fn longest(&self) -> u64 {
        self.by_length.last().map_or(0, |(length, _)| *length)
    }

    /// Whether nobody has anything.
    pub(crate) fn is_unused(&self) -> bool {
        self.free == self.bytes
    }

    /// How much is taken.
    pub(crate) fn taken(&self) -> u64 {
        self.bytes - self.free
    }

    /// Takes so many bytes from the shortest run that has them, and answers where they begin.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<u64> {
        let (length, place) = self.by_length.range((bytes, 0)..).next().copied()?;
        self.cut(place, length, place, bytes);
        Some(place)
    }

    /// Takes these very bytes, if all of them are free.
    pub(crate) fn take_at(&mut self, place: u64, bytes: u64) -> bool {
        let before = self.by_place.range(..=place).next_back();
        let Some((start, length)) = before.map(|(start, length)| (*start, *length)) else {
            return false;
        };
        let fits = place.checked_add(bytes).is_some_and(|end| end <= start + length);
        if fits {
            self.cut(start, length, place, bytes);
        }
        fits
    }

    /// Gives bytes back that were taken.
    pub(crate) fn give(&mut self, place: u64, bytes: u64) {
        self.free += bytes;
        let mut run = (place, bytes);
        if let Some((start, length)) = self.by_place.range(..place).next_back() {
            let (start, length) = (*start, *length);
            if start + length == place {
                self.forget(start, length);
                run = (start, length + bytes);
            }
        }
        if let Some(length) = self.by_place.get(&(place + bytes)).copied() {
            self.forget(place + bytes, length);
            run.1 += length;
        }
        self.note(run.0, run.1);
    }

    /// Cuts bytes out of a free run.
    fn cut(&mut self, start: u64, length: u64, place: u64, bytes: u64) {
        self.forget(start, length);
        self.free -= bytes;
        if place > start {
            self.note(start, place - start);
        }
        let (end, cut_end) = (start + length, place + bytes);
        if end > cut_end {
            self.note(cut_end, end - cut_end);
        }
    }

    fn note(&mut self, start: u64, length: u64) {
        if length > 0 {
            self.by_place.insert(start, length);
            self.by_length.insert((length, start));
        }
    }

    fn forget(&mut self, start: u64, length: u64) {
        self.by_place.remove(&start);
        self.by_length.remove(&(length, start));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_shortest_run_that_fits_is_taken_and_neighbours_join() {
        let mut space = Space::new(1000);
        let places: Vec<_> = (0..5).map(|_| space.take(200).unwrap()).collect();
        assert_eq!((places, space.take(1)), (vec![0, 200, 400, 600, 800], None));
        space.give(0, 200);
        space.give(400, 100);
        assert_eq!(space.take(90), Some(400));
        space.give(200, 200);
        assert_eq!((space.longest(), space.take(400)), (400, Some(0)));
    }

    #[test]
    fn given_bytes_are_taken_where_they_are_free_only() {
        let mut space = Space::new(1000);
        assert!(space.take_at(100, 100) && space.take_at(200, 800));
        assert!(!space.take_at(199, 1) && !space.take_at(50, 51) && !space.take_at(0, u64::MAX));
        assert!(space.take_at(0, 100));
        assert_eq!(space.longest(), 0);
    }

    proptest! {
        /// Beside a plain array of bytes.
        #[test]
        fn no_byte_is_given_twice_and_none_is_lost(
            steps in prop::collection::vec((any::<bool>(), 1..40u64, any::<usize>()), 1..200),
        ) {
            let (mut space, mut taken, mut all) = (Space::new(256), [false; 256], Vec::new());
            for (takes, bytes, which) in steps {
                if takes {
                    let found = space.take(bytes);
                    let runs = taken.split(|taken| *taken).map(<[bool]>::len);
                    let longest = runs.max().unwrap_or(0) as u64;
                    prop_assert_eq!(found.is_some(), longest >= bytes);
                    let Some(place) = found else { continue };
                    let run = &mut taken[place as usize..(place + bytes) as usize];
                    prop_assert!(run.iter().all(|taken| !taken));
                    run.fill(true);
                    all.push((place, bytes));
                } else if !all.is_empty() {
                    let (place, bytes) = all.swap_remove(which % all.len());
                    taken[place as usize..(place + bytes) as usize].fill(false);
                    space.give(place, bytes);
                }
                let used = taken.iter().filter(|taken| **taken).count() as u64;
                prop_assert_eq!(space.taken(), used);
                prop_assert_eq!(space.is_unused(), used == 0);
            }
        }
    }
}
