//! Writes that are under way, by where they begin.
//!
//! A flush reads from the page cache what has come and counts it as logged, or, of a file that is flushed for
//! the first time, as flushed with the file. A write of another thread that began before may land after that:
//! it would be in neither. So each that may land elsewhere than behind the end is noted here until its thread
//! makes another call. A flush counts no more of a file than up to there, and the next one takes the rest again.

use std::cell::Cell;

use crate::thread;

/// Writes that are known at once; more are treated as if they overwrote what the log has.
const WRITES_MAX: usize = u64::BITS as usize;

thread_local! {
    /// The places of this thread's own, as bits: more than one where a handler writes too.
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
        let used = |place: &usize| self.used & 1 << place != 0;
        let all = (0..WRITES_MAX).filter(used).map(|place| &self.list[place]);
        all.filter(|it| it.identity == identity).fold(bytes, |least, it| least.min(it.at))
    }
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
        assert!((0..WRITES_MAX).all(|_| writes.begin((1, 7), 1) == Begun::Noted));
        assert_eq!(writes.begin((1, 7), 1), Begun::TooMany);
        writes.end(take_noted());
        assert_eq!(writes.begin((1, 7), 1), Begun::Noted);
    }
}
