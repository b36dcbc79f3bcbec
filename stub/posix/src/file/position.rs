//! Where an open file is read next, as `heliostat_ring::offset` keeps it, of a descriptor.

use heliostat_base::call;
use heliostat_ring::offset::{Entered, Kernels, Offset, Seen};

pub use heliostat_ring::offset::OFFSET_MAX;

/// The offset of an open file. Where a descriptor is asked for, it refers to the file, and the call
/// is in a critical section.
pub struct Position(Offset);

/// The kernel's offset of a descriptor's file.
struct Descriptor(i32);

impl Kernels for Descriptor {
    fn offset(&self) -> Option<u64> {
        call::lseek(self.0, 0, libc::SEEK_CUR).ok().map(|offset| offset as u64)
    }

    fn seek(&self, offset: u64) {
        let _ = call::lseek(self.0, offset as i64, libc::SEEK_SET);
    }
}

impl Position {
    /// The kernel's.
    pub const fn new() -> Self {
        Self(Offset::new())
    }

    /// The kernel's, for another file than before.
    pub fn begin(&self, is_shared: bool) {
        self.0.begin(is_shared);
    }

    /// The offset, if it is ours now.
    #[inline(always)]
    pub fn ours(&self) -> Option<Seen> {
        self.0.ours()
    }

    /// Moves it to `offset`, if nobody has moved it since it was seen.
    #[inline(always)]
    pub fn advance(&self, seen: Seen, offset: u64) -> bool {
        self.0.advance(seen, offset)
    }

    /// True when another process may move it.
    pub fn is_shared(&self) -> bool {
        self.0.is_shared()
    }

    /// Takes the offset over from the kernel; false when it may not be taken now.
    pub fn adopt(&self, fd: i32) -> bool {
        self.0.adopt(&Descriptor(fd))
    }

    /// Gives the offset back to the kernel, for a call that needs it there, until `leave`; `None`
    /// when it can never be taken.
    pub fn enter(&self, fd: i32) -> Option<Entered> {
        self.0.enter(&Descriptor(fd))
    }

    /// The call is over.
    pub fn leave(&self, entered: Entered) {
        self.0.leave(entered);
    }

    /// Gives the offset back to the kernel; for ever, if `is_shared`.
    pub fn give_back(&self, fd: i32, is_shared: bool) {
        self.0.give_back(&Descriptor(fd), is_shared);
    }

    /// In the child of a fork: what another thread was in the middle of is ended here.
    pub fn end_move(&self, fd: i32) {
        self.0.end_move(&Descriptor(fd));
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
        let entered = [position.enter(fd).unwrap(), position.enter(fd).unwrap()];
        assert_eq!((kernels(fd), position.ours()), (300, None));
        assert!(!position.adopt(fd), "two calls move it");
        position.leave(entered[0]);
        assert!(!position.adopt(fd), "one call moves it");
        position.leave(entered[1]);
        assert!(position.adopt(fd));
        position.give_back(fd, true);
        assert!(position.is_shared() && !position.adopt(fd) && position.enter(fd).is_none());
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
                let entered = (moved % 100 == 0).then(|| position.enter(fd)).flatten();
                entered.into_iter().for_each(|entered| position.leave(entered));
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
