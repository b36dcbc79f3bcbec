//! Writes that are under way, by where they begin.
//!
//! A flush reads from the page cache what has come and counts it as logged, or, of a file that is flushed for
//! the first time, as flushed with the file. A write of another thread that began before may land after that:
//! it would be in neither. So each that may land elsewhere than behind the end is noted here until its thread
//! makes another call. A flush counts no more of a file than up to there, and the next one takes the rest again.
//! A thread that begins another write of a file meanwhile has one note for both, at the first of them: what a
//! handler writes that jumps out (siglongjmp) is noted for good, and takes no more than that one place.

use std::cell::Cell;

use crate::thread;

/// Writes that are known at once; more are treated as if they overwrote what the log has.
const WRITES_MAX: usize = u64::BITS as usize;

thread_local! {
    /// The places of this thread's own, as bits: more than one where a handler writes to another file.
    static NOTED: Cell<u64> = const { Cell::new(0) };
}

/// One that has begun.
#[derive(Clone, Copy)]
struct Write {
    /// Device and number of the file.
    identity: (u64, u64),
    at: u64,
}

/// What a write that may land elsewhere than behind the end comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begun {
    /// No flush counts it before it has ended.
    Noted,
    /// The log has bytes in its place, or after it.
    Overwrites,
    /// There is no room to note it.
    TooMany,
}

/// All of them.
pub struct Writes {
    list: [Write; WRITES_MAX],
    /// Places that are taken, as bits.
    used: u64,
}

impl Writes {
    /// None.
    pub const fn new() -> Self {
        Self { list: [Write { identity: (0, 0), at: 0 }; WRITES_MAX], used: 0 }
    }

    /// This thread begins one.
    pub fn begin(&mut self, identity: (u64, u64), at: u64) -> Begun {
        let mut own = places(NOTED.get() & self.used);
        if let Some(place) = own.find(|place| self.list[*place].identity == identity) {
            let write = &mut self.list[place];
            write.at = write.at.min(at);
            return Begun::Noted;
        }
        let place = self.used.trailing_ones() as usize;
        let Some(write) = self.list.get_mut(place) else { return Begun::TooMany };
        *write = Write { identity, at };
        self.used |= 1 << place;
        NOTED.set(NOTED.get() | 1 << place);
        Begun::Noted
    }

    /// Those of these places have ended.
    pub fn end(&mut self, places: u64) {
        self.used &= !places;
    }

    /// How many of a file's bytes no write is about to change.
    pub fn settled(&self, identity: (u64, u64), bytes: u64) -> u64 {
        let all = places(self.used).map(|place| &self.list[place]);
        all.filter(|it| it.identity == identity).fold(bytes, |least, it| least.min(it.at))
    }
}

/// The numbers of the bits that are set.
fn places(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = bits.trailing_zeros() as usize;
        bits &= bits.checked_sub(1)?;
        Some(place)
    })
}

/// The places of what this thread has begun, which has ended: it makes another call. A handler's calls tell
/// nothing of the one that it has interrupted.
#[inline]
pub fn take_noted() -> u64 {
    match NOTED.get() {
        0 => 0,
        _ if thread::is_in_handler() => 0,
        _ => NOTED.take(),
    }
}

/// The other threads, and what they have begun, are the parent's.
pub fn reset_in_forked_child() {
    NOTED.set(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_settled_up_to_the_first_write_that_has_not_ended() {
        let (mut writes, (this, other)) = (Writes::new(), ((1, 7), (1, 8)));
        assert_eq!(writes.begin(this, 50), Begun::Noted);
        let first = take_noted();
        assert_eq!((writes.begin(this, 30), writes.begin(other, 10)), (Begun::Noted, Begun::Noted));
        assert_eq!((writes.settled(this, 100), writes.settled(other, 5)), (30, 5));
        writes.end(take_noted());
        assert_eq!((writes.settled(this, 100), writes.settled(other, 100)), (50, 100));
        writes.end(first);
        assert_eq!((writes.settled(this, 100), take_noted()), (100, 0));
    }

    #[test]
    fn more_than_there_is_room_for_are_refused() {
        let mut writes = Writes::new();
        let most = WRITES_MAX as u64;
        assert!((0..most).all(|file| writes.begin((1, file), 1) == Begun::Noted));
        assert_eq!(writes.begin((1, most), 1), Begun::TooMany);
        writes.end(take_noted());
        assert_eq!(writes.begin((1, most), 1), Begun::Noted);
    }

    #[test]
    fn a_thread_has_one_place_for_a_file_at_its_first_byte_and_others_have_their_own() {
        let (mut writes, file) = (Writes::new(), (1, 7));
        assert_eq!(writes.begin(file, 40), Begun::Noted);
        let others = take_noted();
        for turn in 0..2 * WRITES_MAX as u64 {
            assert_eq!(writes.begin(file, 50 + turn % 3), Begun::Noted);
        }
        assert_eq!((writes.begin(file, 45), writes.begin(file, 60)), (Begun::Noted, Begun::Noted));
        assert_eq!((writes.used.count_ones(), writes.settled(file, 100)), (2, 40));
        writes.end(others);
        assert_eq!((writes.used.count_ones(), writes.settled(file, 100)), (1, 45));
        writes.end(take_noted());
        assert_eq!((writes.used, writes.settled(file, 100)), (0, 100));
    }
}
