//! Where an open file is read next: in the kernel's hands, or in ours.
//!
//! One word, so that a read needs no lock: it copies, then advances the word from what it has
//! seen; who comes second copies again. As with the kernel's own lock, each byte is read once.
//!
//! ```text
//!            63..62  61      60..48   47..0
//! kernel's   0       shared  version  calls that may be moving it now
//! ours       1               version  the offset
//! moving     2               version  the offset, on its way from one to the other
//! ```
//! Ours only while nobody else can look at the kernel's: another process (fork, exec, a passed
//! descriptor) makes it the kernel's for ever, a call that needs it (sendfile, a lock from the
//! offset on) for as long as it takes. The version tells a reader that its description has been
//! given to another file.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, SeqCst};

use heliostat_base::{call, spin};

const STATE: u64 = 3 << 62;
const OURS: u64 = 1 << 62;
const MOVING: u64 = 2 << 62;
const SHARED: u64 = 1 << 61;
const VERSION: u64 = 0x1fff << 48;
const VERSION_ONE: u64 = 1 << 48;
const VALUE: u64 = VERSION_ONE - 1;

/// Offsets above this stay the kernel's; far above what is mapped.
pub const OFFSET_MAX: u64 = 1 << 46;

/// The offset of an open file.
pub struct Position(AtomicU64);

/// An offset of ours, as it was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen(u64);

impl Seen {
    /// Bytes from the start of the file.
    #[inline(always)]
    pub fn offset(self) -> u64 {
        self.0 & VALUE
    }
}

impl Position {
    /// The kernel's.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The kernel's, for another file than before.
    pub fn begin(&self, is_shared: bool) {
        let version = (self.0.load(Acquire) & VERSION).wrapping_add(VERSION_ONE) & VERSION;
        self.0.store(version | if is_shared { SHARED } else { 0 }, SeqCst);
    }

    /// The offset, if it is ours now.
    #[inline(always)]
    pub fn ours(&self) -> Option<Seen> {
        let word = self.0.load(Acquire);
        (word & STATE == OURS).then_some(Seen(word))
    }

    /// Moves it to `offset`, if nobody has moved it since it was seen.
    #[inline(always)]
    pub fn advance(&self, seen: Seen, offset: u64) -> bool {
        debug_assert!(offset <= OFFSET_MAX);
        let next = seen.0 & !VALUE | offset;
        self.0.compare_exchange(seen.0, next, AcqRel, Acquire).is_ok()
    }

    /// True when another process may move it.
    pub fn is_shared(&self) -> bool {
        let word = self.0.load(Acquire);
        word & STATE == 0 && word & SHARED != 0
    }

    /// Takes the offset over from the kernel; false when it may not be taken now. `fd` refers to
    /// the file. In a critical section.
    pub fn adopt(&self, fd: i32) -> bool {
        let word = self.0.load(Acquire);
        let is_free = word & (STATE | SHARED | VALUE) == 0;
        let moving = word | MOVING;
        if !is_free || self.0.compare_exchange(word, moving, SeqCst, Acquire).is_err() {
            return word & STATE == OURS;
        }
        let offset = call::lseek(fd, 0, libc::SEEK_CUR).map_or(u64::MAX, |offset| offset as u64);
        let next = if offset <= OFFSET_MAX { word | OURS | offset } else { word };
        self.0.store(next, SeqCst);
        next != word
    }

    /// Gives the offset back to the kernel, for a call that needs it there: it is not taken again
    /// until `leave` has been called as often. False, and nothing to leave, when it can never be
    /// taken. `fd` refers to the file. In a critical section.
    pub fn enter(&self, fd: i32) -> bool {
        self.settle(fd, |word| match word & SHARED {
            0 => word + 1,
            _ => word,
        }) & SHARED
            == 0
    }

    /// The call is over.
    pub fn leave(&self) {
        let one_less = |word: u64| (word & STATE == 0 && word & VALUE > 0).then(|| word - 1);
        let _ = self.0.fetch_update(AcqRel, Acquire, one_less);
    }

    /// Gives the offset back to the kernel; for ever, if `is_shared`. As `enter` for the rest.
    pub fn give_back(&self, fd: i32, is_shared: bool) {
        self.settle(fd, |word| word | if is_shared { SHARED } else { 0 });
    }

    /// In the child of a fork: what another thread was in the middle of is ended here.
    pub fn end_move(&self, fd: i32) {
        let word = self.0.load(Acquire);
        if word & STATE != 0 {
            let _ = call::lseek(fd, (word & VALUE) as i64, libc::SEEK_SET);
            self.0.store(word & VERSION | SHARED, SeqCst);
        }
    }

    /// Makes it the kernel's and changes the kernel's word by `change`; the word after that.
    fn settle(&self, fd: i32, change: impl Fn(u64) -> u64) -> u64 {
        let mut turn = spin::Spin::new();
        loop {
            let word = self.0.load(Acquire);
            let next = match word & STATE {
                0 => change(word),
                OURS => word & !STATE | MOVING,
                _ => {
                    // Another thread is in its lseek(2); it holds back its handlers meanwhile.
                    turn.turn();
                    continue;
                }
            };
            if next != word && self.0.compare_exchange(word, next, SeqCst, Acquire).is_err() {
                continue;
            }
            if next & STATE == 0 {
                return next;
            }
            let _ = call::lseek(fd, (word & VALUE) as i64, libc::SEEK_SET);
            self.0.store(word & VERSION, SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    fn kernels(fd: i32) -> usize {
        call::lseek(fd, 0, libc::SEEK_CUR).unwrap()
    }

    #[test]
    fn it_is_adopted_moved_and_given_back_with_its_value() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let fd = file.as_raw_fd();
        let position = Position::new();
        call::lseek(fd, 100, libc::SEEK_SET).unwrap();
        assert!(position.ours().is_none() && position.adopt(fd) && position.adopt(fd));
        let seen = position.ours().unwrap();
        assert_eq!(seen.offset(), 100);
        assert!(position.advance(seen, 300) && !position.advance(seen, 400));
        assert_eq!(kernels(fd), 100);
        assert!(position.enter(fd) && position.enter(fd));
        assert_eq!((kernels(fd), position.ours()), (300, None));
        assert!(!position.adopt(fd), "two calls move it");
        position.leave();
        assert!(!position.adopt(fd), "one call moves it");
        position.leave();
        assert!(position.adopt(fd));
        position.give_back(fd, true);
        assert!(position.is_shared() && !position.adopt(fd) && !position.enter(fd));
        position.begin(false);
        assert!(!position.is_shared() && position.adopt(fd));
    }

    #[test]
    fn what_was_seen_of_one_file_does_not_move_another() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let position = Position::new();
        assert!(position.adopt(file.as_raw_fd()));
        let seen = position.ours().unwrap();
        position.begin(false);
        assert!(position.adopt(file.as_raw_fd()));
        assert!(!position.advance(seen, 1));
    }

    #[test]
    fn every_byte_is_read_once_however_many_read() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let fd = file.as_raw_fd();
        let position = Position::new();
        assert!(position.adopt(fd));
        let read = || {
            let mut moved = 0;
            while moved < 20_000 {
                if moved % 100 == 0 && position.enter(fd) {
                    position.leave();
                }
                let is_ours = position.adopt(fd);
                let Some(seen) = position.ours().filter(|_| is_ours) else { continue };
                moved += u64::from(position.advance(seen, seen.offset() + 3));
            }
        };
        std::thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(read))));
        position.give_back(fd, false);
        assert_eq!(kernels(fd), 180_000);
    }
}
