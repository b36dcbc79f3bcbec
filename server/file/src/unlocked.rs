//! Files of which a lock was given back, until those that wait for one have been told.
//!
//! A loop tells its own at the end of a sweep, and puts the files down for every other loop. That is
//! sent one order for all that it has not taken yet, so that its orders do not grow with the locks of
//! somebody who gives back faster than it obeys.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Files told apart; of more at once everybody who waits asks again.
const FILES_MAX: usize = 64;

/// A file, whoever has opened it and how often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inode {
    /// Device number.
    pub device: u64,
    /// Number on the device.
    pub number: u64,
}

/// Files of which a lock was given back.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct Unlocked {
    files: Vec<Inode>,
    /// More of them than are told apart.
    are_many: bool,
}

impl Unlocked {
    /// A lock of this file was given back.
    pub fn insert(&mut self, file: Inode) {
        if self.has(file) {
            return;
        }
        match self.files.len() < FILES_MAX {
            true => self.files.push(file),
            false => self.are_many = true,
        }
    }

    /// Whether somebody who waits for a lock of this file should ask again.
    pub fn has(&self, file: Inode) -> bool {
        self.are_many || self.files.contains(&file)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    fn add(&mut self, others: &Unlocked) {
        others.files.iter().for_each(|file| self.insert(*file));
        self.are_many |= others.are_many;
    }
}

/// What loops have put down for each other, by number.
#[derive(Debug)]
pub struct UnlockedOfLoops(Vec<Mutex<Unlocked>>);

impl UnlockedOfLoops {
    /// For so many loops.
    pub fn new(loops: usize) -> UnlockedOfLoops {
        UnlockedOfLoops((0..loops).map(|_| Mutex::default()).collect())
    }

    /// Puts files down for a loop; true when it has to be told that there are some.
    pub fn put(&self, number: usize, files: &Unlocked) -> bool {
        let Some(mut its) = self.of(number) else { return false };
        let is_first = its.is_empty();
        its.add(files);
        is_first
    }

    /// Takes what was put down for a loop.
    pub fn take(&self, number: usize) -> Unlocked {
        self.of(number).map(|mut its| std::mem::take(&mut *its)).unwrap_or_default()
    }

    fn of(&self, number: usize) -> Option<MutexGuard<'_, Unlocked>> {
        Some(self.0.get(number)?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inode(number: u64) -> Inode {
        Inode { device: 1, number }
    }

    #[test]
    fn a_loop_is_told_once_of_all_that_it_has_not_taken() {
        let (all, mut files) = (UnlockedOfLoops::new(2), Unlocked::default());
        files.insert(inode(7));
        assert_eq!([(); 3].map(|()| all.put(1, &files)), [true, false, false]);
        let taken = all.take(1);
        assert!(taken.has(inode(7)) && !taken.has(inode(8)));
        assert!(all.take(1).is_empty() && all.put(1, &files));
        assert!(!all.put(2, &files), "there is no such loop");
    }

    #[test]
    fn more_files_than_are_told_apart_are_all_files() {
        let mut files = Unlocked::default();
        (0..FILES_MAX as u64).for_each(|number| files.insert(inode(number)));
        assert!(!files.has(inode(999)));
        files.insert(inode(999));
        assert!(files.has(inode(12_345)) && files.files.len() == FILES_MAX);
    }
}
