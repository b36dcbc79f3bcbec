//! Forks whose two sides tell each other numbers.

use std::os::fd::{AsRawFd, RawFd};

use heliostat_base::fd::OwnedFd;
use heliostat_base::sys::{check, raw, Errno, Sysno};

/// Which side of the fork this is.
#[derive(Debug)]
pub enum Fork {
    /// The new process.
    Child(Teller),
    /// The parent, with the child's number.
    Parent(i32, Hearer),
}

/// The child's end of a pipe of numbers.
#[derive(Debug)]
pub struct Teller(OwnedFd);

/// The parent's end.
#[derive(Debug)]
pub struct Hearer(OwnedFd);

/// Forks. The caller has one thread only, so that the child may do anything.
pub fn fork_telling() -> Result<Fork, Errno> {
    let mut ends = [0 as RawFd; 2];
    let at = ends.as_mut_ptr() as usize;
    // SAFETY: the kernel writes two descriptors into the array.
    check(unsafe { raw(Sysno::pipe2 as usize, [at, libc::O_CLOEXEC as usize, 0, 0, 0, 0]) })?;
    // SAFETY: the kernel has just opened both for us.
    let (reader, writer) = unsafe { (OwnedFd::adopt(ends[0]), OwnedFd::adopt(ends[1])) };
    // SAFETY: the caller has one thread, so that no lock of another is left behind in the child.
    match unsafe { libc::fork() } {
        -1 => Err(Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EAGAIN))),
        0 => Ok(Fork::Child(Teller(writer))),
        child => Ok(Fork::Parent(child, Hearer(reader))),
    }
}

impl Teller {
    /// Tells the parent a number. One write(2) and nothing else, so that it can be done behind a
    /// filter; nobody hears it if the parent has gone.
    pub fn tell(&self, number: i32) {
        let bytes = number.to_ne_bytes();
        let args = [self.0.as_raw_fd() as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0];
        // SAFETY: the buffer lives until the call returns.
        let _ = unsafe { raw(Sysno::write as usize, args) };
    }
}

impl Hearer {
    /// The next number; blocks. `None` when the child, and what it started, can tell no more.
    pub fn hear(&self) -> Option<i32> {
        let mut bytes = [0u8; 4];
        let args = [self.0.as_raw_fd() as usize, bytes.as_mut_ptr() as usize, 4, 0, 0, 0];
        loop {
            // SAFETY: the kernel writes four bytes at most into the buffer.
            match check(unsafe { raw(Sysno::read as usize, args) }) {
                Ok(4) => return Some(i32::from_ne_bytes(bytes)),
                Err(Errno(libc::EINTR)) => {}
                _ => return None,
            }
        }
    }
}

/// Gives this thread a working folder and a file mode mask of its own (unshare(2), CLONE_FS),
/// which the other threads do not share any more.
pub fn leave_shared_folder() -> Result<(), Errno> {
    // SAFETY: the call takes no pointer; what it takes apart are kernel records.
    check(unsafe { raw(Sysno::unshare as usize, [libc::CLONE_FS as usize, 0, 0, 0, 0, 0]) })?;
    Ok(())
}
