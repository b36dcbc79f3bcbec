//! A descriptor that is closed by our own system call.
//!
//! `std::os::fd::OwnedFd` closes through libc's `close`, which is one of the very symbols that the
//! POSIX stub replaces: dropping one beneath the stub would re-enter it, perhaps under its own
//! lock. This type closes with the raw call. Conversions to and from std's type exist for code
//! that runs above libc.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, RawFd};

use crate::sys::{check, raw, Errno, Sysno};

/// An open descriptor that this value owns; dropping it closes the descriptor.
#[derive(Debug)]
pub struct OwnedFd(RawFd);

impl OwnedFd {
    /// Takes ownership of a descriptor number that a system call has just returned.
    ///
    /// # Safety
    /// `fd` is open and nothing else closes it.
    pub unsafe fn adopt(fd: RawFd) -> OwnedFd {
        OwnedFd(fd)
    }

    /// Makes a second descriptor of the same open file, closed on exec.
    pub fn duplicate(&self) -> Result<OwnedFd, Errno> {
        duplicate(self.0)
    }

    /// Gives the number away; the caller closes it from now on.
    pub fn into_raw(self) -> RawFd {
        let fd = self.0;
        std::mem::forget(self);
        fd
    }
}

/// Makes an owned duplicate of any descriptor, closed on exec.
pub fn duplicate(fd: RawFd) -> Result<OwnedFd, Errno> {
    let args = [fd as usize, libc::F_DUPFD_CLOEXEC as usize, 0, 0, 0, 0];
    // SAFETY: F_DUPFD_CLOEXEC takes no pointer.
    let copy = check(unsafe { raw(Sysno::fcntl as usize, args) })?;
    Ok(OwnedFd(copy as RawFd))
}

impl Drop for OwnedFd {
    fn drop(&mut self) {
        // SAFETY: close(2) takes no pointer, and ownership says that nobody else uses the number.
        // An error is ignored: Linux has released the descriptor in every case.
        let _ = unsafe { raw(Sysno::close as usize, [self.0 as usize, 0, 0, 0, 0, 0]) };
    }
}

impl AsRawFd for OwnedFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

impl AsFd for OwnedFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor stays open as long as `self`, whose lifetime the result carries.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

impl From<OwnedFd> for std::os::fd::OwnedFd {
    fn from(fd: OwnedFd) -> Self {
        // SAFETY: ownership of an open descriptor moves from one owner to the other.
        unsafe { std::os::fd::OwnedFd::from_raw_fd(fd.into_raw()) }
    }
}

impl From<std::os::fd::OwnedFd> for OwnedFd {
    fn from(fd: std::os::fd::OwnedFd) -> Self {
        OwnedFd(fd.into_raw_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_an_owned_descriptor_closes_it() {
        let first = OwnedFd::from(std::os::fd::OwnedFd::from(
            std::fs::File::open("/dev/null").expect("/dev/null opens"),
        ));
        let copy = first.duplicate().expect("a descriptor is free");
        let path = format!("/proc/self/fd/{}", copy.as_raw_fd());
        let name = std::fs::read_link(&path).expect("the copy is open");
        assert_eq!(name.to_str(), Some("/dev/null"));
        drop(first);
        assert_eq!(std::fs::read_link(&path).ok(), Some(name.clone()));
        drop(copy);
        assert_ne!(std::fs::read_link(&path).ok(), Some(name));
    }
}
