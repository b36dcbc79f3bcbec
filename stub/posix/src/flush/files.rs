//! The few files that one flush takes along.

use heliostat_base::sys::Errno;

/// More in one flush are the kernel's.
pub const FILES_MAX: usize = 8;

/// A file that is to be flushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct File {
    /// By this descriptor: it is not closed before the flush has begun, since closing waits for it.
    pub fd: i32,
    /// Its times and the like may stay behind.
    pub is_data: bool,
    /// Device and number.
    pub identity: (u64, u64),
}

/// Several, each once.
#[derive(Clone, Copy, Debug)]
pub struct Files {
    list: [Option<File>; FILES_MAX],
}

impl Files {
    /// None.
    pub const fn new() -> Self {
        Self { list: [None; FILES_MAX] }
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.list[0].is_none()
    }

    /// Adds one; false when there is no room.
    pub fn add(&mut self, file: File) -> bool {
        for place in &mut self.list {
            match place {
                Some(known) if known.fd == file.fd && known.identity == file.identity => {
                    known.is_data &= file.is_data;
                    return true;
                }
                Some(_) => {}
                None => {
                    *place = Some(file);
                    return true;
                }
            }
        }
        false
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &File> + Clone {
        self.list.iter().flatten()
    }

    /// Whether one was asked for by this descriptor.
    pub fn has(&self, fd: i32) -> bool {
        self.iter().any(|file| file.fd == fd)
    }
}

/// Files whose flush has failed, and how. Of more than there is room for nobody knows which they are:
/// each file that is not known has failed as the last of them, and not all are ever told.
pub struct Failures {
    list: [Option<Failure>; 2 * FILES_MAX],
    more: Option<Errno>,
}

#[derive(Clone, Copy)]
struct Failure {
    identity: (u64, u64),
    errno: Errno,
    is_told: bool,
}

impl Failures {
    /// None yet.
    pub const fn new() -> Self {
        Self { list: [None; 2 * FILES_MAX], more: None }
    }

    /// Notes one, which the program does not know of.
    pub fn add(&mut self, identity: (u64, u64), errno: Errno) {
        let is_its =
            |place: &&mut Option<Failure>| place.is_none_or(|known| known.identity == identity);
        match self.list.iter_mut().find(is_its) {
            Some(place) => *place = Some(Failure { identity, errno, is_told: false }),
            None => self.more = Some(errno),
        }
    }

    /// How the flush of a file has failed, which the program is told.
    pub fn tell(&mut self, identity: (u64, u64)) -> Option<Errno> {
        let found = self.list.iter_mut().flatten().find(|known| known.identity == identity);
        found.map_or(self.more, |known| {
            known.is_told = true;
            Some(known.errno)
        })
    }

    /// Whether the program knows of each.
    pub fn are_told(&self) -> bool {
        self.more.is_none() && self.list.iter().flatten().all(|known| known.is_told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(fd: i32, is_data: bool) -> File {
        File { fd, is_data, identity: (1, fd as u64) }
    }

    #[test]
    fn a_file_is_taken_along_once_and_the_stricter_wish_counts() {
        let mut files = Files::new();
        assert!(files.is_empty());
        assert!(files.add(file(3, true)) && files.add(file(4, true)) && files.add(file(3, false)));
        assert_eq!(files.iter().copied().collect::<Vec<_>>(), [file(3, false), file(4, true)]);
        assert!(files.has(4) && !files.has(5));
        assert!((5..11).all(|fd| files.add(file(fd, true))) && !files.add(file(11, true)));
    }

    #[test]
    fn a_failure_is_known_by_the_file_and_not_by_its_number() {
        let mut failures = Failures::new();
        failures.add((1, 7), Errno(libc::EIO));
        failures.add((1, 7), Errno(libc::ENOSPC));
        assert_eq!(
            (failures.tell((1, 7)), failures.tell((2, 7))),
            (Some(Errno(libc::ENOSPC)), None)
        );
    }

    #[test]
    fn all_are_told_when_each_is() {
        let (mut failures, eio) = (Failures::new(), Errno(libc::EIO));
        failures.add((1, 7), eio);
        failures.add((1, 8), eio);
        assert_eq!((failures.tell((1, 7)), failures.are_told()), (Some(eio), false));
        assert_eq!((failures.tell((1, 8)), failures.are_told()), (Some(eio), true));
        failures.add((1, 7), eio);
        assert!(!failures.are_told(), "it has failed once more");
    }

    #[test]
    fn of_more_than_there_is_room_for_every_file_counts_as_one() {
        let (mut failures, eio) = (Failures::new(), Errno(libc::EIO));
        (0..=2 * FILES_MAX as u64).for_each(|number| failures.add((1, number), eio));
        (0..=2 * FILES_MAX as u64).for_each(|number| _ = failures.tell((1, number)));
        assert_eq!((failures.tell((9, 9)), failures.are_told()), (Some(eio), false));
    }
}
