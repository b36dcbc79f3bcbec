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

/// Files whose flush has failed, and how. A full table refuses the last one's error to others too.
pub struct Failures {
    list: [Option<((u64, u64), Errno)>; 2 * FILES_MAX],
}

impl Failures {
    /// None yet.
    pub const fn new() -> Self {
        Self { list: [None; 2 * FILES_MAX] }
    }

    /// Notes one.
    pub fn add(&mut self, identity: (u64, u64), errno: Errno) {
        let known = |place: &&mut Option<((u64, u64), Errno)>| {
            place.is_none_or(|(other, _)| other == identity)
        };
        if let Some(place) = self.list.iter_mut().find(known) {
            *place = Some((identity, errno));
        }
    }

    /// How the flush of a file has failed.
    pub fn of(&self, identity: (u64, u64)) -> Option<Errno> {
        let found = self.list.iter().flatten().find(|(other, _)| *other == identity);
        found.map(|(_, errno)| *errno)
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
        assert_eq!((failures.of((1, 7)), failures.of((2, 7))), (Some(Errno(libc::ENOSPC)), None));
    }
}
