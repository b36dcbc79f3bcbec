//! The files that the log is kept for, and how much of each is in it.

use std::ffi::CString;
use std::os::fd::AsRawFd;

use heliostat_abi::code::Unlogged;
use heliostat_base::call::{self, Birth};
use heliostat_base::fd::OwnedFd;

use super::files::FILES_MAX;
use super::{changing, own};

/// One file. It is written at its end only, as far as this process is concerned.
pub struct Kept {
    /// By which the program flushes it.
    pub fd: i32,
    /// By which its bytes are read, and checkpoints flush it.
    pub reader: OwnedFd,
    /// Which file it is.
    pub birth: Birth,
    /// Up to here its bytes are in the log, or flushed, or waited for as a flush of the file.
    pub logged: u64,
    /// The log has something of it.
    pub has_entries: bool,
    /// Its path.
    pub path: Box<[u8]>,
}

impl Kept {
    /// Device and number.
    pub fn identity(&self) -> (u64, u64) {
        (self.birth.device, self.birth.inode)
    }
}

/// All of them.
pub struct KeptFiles {
    list: [Option<Kept>; FILES_MAX],
}

impl KeptFiles {
    /// None.
    pub const fn new() -> Self {
        Self { list: [const { None }; FILES_MAX] }
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Kept> + Clone {
        self.list.iter().flatten()
    }

    /// Each of them, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Kept> {
        self.list.iter_mut().flatten()
    }

    /// The one that is this file.
    pub fn of(&mut self, birth: Birth) -> Option<&mut Kept> {
        self.iter_mut().find(|kept| kept.birth == birth)
    }

    /// Begins to keep one, whose bytes up to `bytes` are flushed by the caller; makes its name durable.
    pub fn add(&mut self, fd: i32, birth: Birth, bytes: u64, path: &[u8]) -> Result<(), Unlogged> {
        let place = self.list.iter_mut().find(|place| place.is_none()).ok_or(Unlogged::TooMany)?;
        if call::is_record_locked(fd) {
            return Err(Unlogged::Locked);
        }
        if changing::is_any() || is_written_by_another(fd, birth) {
            return Err(Unlogged::NotAppended);
        }
        flush_name(path)?;
        let reader = call::reopen_for_reading(fd).map_err(|_| Unlogged::Unreadable)?;
        if !own::claim(reader.as_raw_fd()) {
            return Err(Unlogged::TooMany);
        }
        let path = path.into();
        *place = Some(Kept { fd, reader, birth, logged: bytes, has_entries: false, path });
        Ok(())
    }

    /// Keeps none any more.
    pub fn clear(&mut self) {
        for kept in self.list.iter_mut().filter_map(Option::take) {
            own::release(kept.reader.as_raw_fd());
            // Closing any descriptor of a file ends the process's record locks on it (fcntl(2)).
            if call::is_record_locked(kept.fd) {
                let _ = kept.reader.into_raw();
            }
        }
    }

    /// They are the parent's: numbers are given back, memory is not.
    pub fn forget_in_forked_child(&mut self) {
        for kept in self.list.iter_mut().filter_map(Option::take) {
            let _ = call::close(kept.reader.as_raw_fd());
            std::mem::forget(kept);
        }
    }
}

/// The name of the file has to be there after a crash, as its bytes have.
fn flush_name(path: &[u8]) -> Result<(), Unlogged> {
    let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0).max(1);
    let folder = CString::new(path.get(..end).unwrap_or(b"/")).map_err(|_| Unlogged::Unreadable)?;
    call::flush_folder(&folder).map(|_| ()).map_err(|_| Unlogged::Unreadable)
}

/// Whether this process has another descriptor by which it may write elsewhere than at the end.
fn is_written_by_another(fd: i32, birth: Birth) -> bool {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return true };
    let numbers = entries.flatten().filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter(|other| *other != fd).any(|other| {
        !is_read_or_append(other) && call::birth(other).is_some_and(|(other, _)| other == birth)
    })
}

/// Whether nothing is written by this descriptor but behind the end; true where there is none.
pub fn is_read_or_append(fd: i32) -> bool {
    let flags = call::fcntl(fd, libc::F_GETFL, 0).unwrap_or(0) as i32;
    flags & libc::O_ACCMODE == libc::O_RDONLY || flags & libc::O_APPEND != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    #[test]
    fn a_file_is_kept_unless_somebody_may_write_in_its_middle() {
        use std::os::unix::ffi::OsStrExt;
        let _alone = changing::ALONE.lock();
        let path = std::env::temp_dir().join(format!("heliostat-kept-{}", std::process::id()));
        let file = OpenOptions::new().create(true).append(true).open(&path).expect("made");
        let (birth, bytes) = call::birth(file.as_raw_fd()).expect("told");
        let mut kept = KeptFiles::new();
        let name = path.as_os_str().as_bytes();
        let add = |kept: &mut KeptFiles| kept.add(file.as_raw_fd(), birth, bytes, name);
        let other = OpenOptions::new().write(true).open(&path).expect("opened");
        assert_eq!(add(&mut kept), Err(Unlogged::NotAppended));
        drop(other);
        changing::begin();
        assert_eq!(add(&mut kept), Err(Unlogged::NotAppended), "a call could open it just now");
        changing::end();
        assert_eq!(add(&mut kept), Ok(()));
        let reader = kept.of(birth).map(|it| it.reader.as_raw_fd()).expect("kept");
        assert!(own::owns(reader));
        kept.clear();
        assert!(!own::owns(reader) && call::birth(reader).is_none() && kept.iter().count() == 0);
        std::fs::remove_file(&path).expect("removed");
    }
}
