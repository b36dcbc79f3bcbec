//! The open file of a device, for others who drive it too, or are trusted with a part of it.
//!
//! ```text
//! device() --> another device on the same open file: one lock (flock) for all
//! grant()  --> a descriptor of an open file of its own, with locks on what it is for
//! ```
//! A grant's locks say that somebody still has it: the kernel lets go of them when the last copy of the
//! descriptor is closed, also in a process that outlives the one that granted it. It does not have the
//! device's own lock, so the device can be opened again meanwhile, by one who asks [`is_granted`] before
//! it gives the bytes to somebody else.
//!
//! [`is_granted`]: SharedFile::is_granted

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use heliostat_base::range_lock::{is_locked, lock_for_reading};
use rustix::fs::{Mode, OFlags};

use super::open;
use super::{FileDevice, OpenError, Options};

/// Where claims lie of those who are the only ones to write something, each at its first byte behind this one:
/// beyond every device. A program makes its claim itself, and only where nobody has one.
pub const CLAIMS: u64 = 1 << 62;
/// Where marks of those lie who have something alone: beyond every device, and beyond other marks there.
const ALONE: u64 = (1 << 62) | (1 << 61);

/// The open file of a device.
#[derive(Clone, Debug)]
pub struct SharedFile(Arc<OwnedFd>);

impl FileDevice {
    /// The open file.
    pub fn shared(&self) -> SharedFile {
        SharedFile(self.file.clone())
    }

    /// What is readable when something has completed that nobody has reaped, where there is such a thing:
    /// as [`crate::Device::event`], and not a descriptor more.
    pub fn descriptor(&self) -> Option<i32> {
        self.requests.descriptor()
    }

    /// The descriptors that are this device's own, for who closes descriptors by their numbers.
    pub fn own_descriptors(&self) -> [Option<i32>; 2] {
        [Some(self.file.as_raw_fd()), self.requests.descriptor()]
    }

    /// A device on what somebody else has opened, and locked where it has to be.
    ///
    /// # Errors
    /// It is neither a file nor a disk, or there is no way to drive it.
    pub fn adopt(file: OwnedFd, options: Options) -> Result<FileDevice, OpenError> {
        FileDevice::with(open::adopt(file)?, options)
    }
}

impl SharedFile {
    /// Another device on the same open file. Each has its own queue; what one has written the others
    /// read, and a flush of one covers what has completed on all.
    ///
    /// # Errors
    /// There are no more descriptors, or there is no way to drive it.
    pub fn device(&self, options: Options) -> Result<FileDevice, OpenError> {
        let copy = self.0.try_clone().map_err(|error| OpenError::system("dup", &error))?;
        FileDevice::adopt(copy, options)
    }

    /// Opens the file once more, for who is trusted with these ranges of it, each an offset and so
    /// many bytes. Nobody holds him to them; the locks on them tell others that he is there.
    ///
    /// # Errors
    /// The kernel does not open it, or has no room for a lock.
    pub fn grant(&self, ranges: &[(u64, u64)], may_write: bool) -> Result<OwnedFd, OpenError> {
        let flags = rustix::fs::fcntl_getfl(&*self.0).map_err(OpenError::call("fcntl"))?;
        let access = if may_write { OFlags::RDWR } else { OFlags::RDONLY };
        let path = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        let wanted = access | OFlags::CLOEXEC | (flags & OFlags::DIRECT);
        let file =
            rustix::fs::open(path, wanted, Mode::empty()).map_err(OpenError::call("open"))?;
        for (offset, bytes) in ranges {
            lock_for_reading(file.as_fd(), *offset, *bytes).map_err(|errno| OpenError::System {
                call: "fcntl(F_OFD_SETLK)",
                errno: errno.0,
            })?;
        }
        Ok(file)
    }

    /// Leaves a lock at a byte beyond the device, which says something of who has it to those who know where
    /// to look. It goes with the last copy of the open file.
    ///
    /// # Errors
    /// The kernel has no room for a lock.
    pub fn leave_mark(&self, offset: u64) -> Result<(), OpenError> {
        let call = "fcntl(F_OFD_SETLK)";
        let left = lock_for_reading(self.0.as_fd(), offset, 1);
        left.map_err(|errno| OpenError::System { call, errno: errno.0 })
    }

    /// Marks a granted device: who has it has what begins at an offset alone. The mark goes with the last copy
    /// of its descriptor.
    ///
    /// # Errors
    /// The kernel has no room for a lock.
    pub fn mark_alone(granted: &OwnedFd, first: u64) -> Result<(), OpenError> {
        lock_for_reading(granted.as_fd(), ALONE + first, 1)
            .map_err(|errno| OpenError::System { call: "fcntl(F_OFD_SETLK)", errno: errno.0 })
    }

    /// Whether somebody has such a mark.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn is_granted_alone(&self, first: u64) -> Result<bool, OpenError> {
        self.is_granted(&[(ALONE + first, 1)])
    }

    /// Whether somebody to whom this was granted has claimed to be the only one who writes what begins at an
    /// offset.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn is_claimed(&self, first: u64) -> Result<bool, OpenError> {
        self.is_granted(&[(CLAIMS + first, 1)])
    }

    /// Whether somebody has been granted some of these ranges and has not closed the last copy.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn is_granted(&self, ranges: &[(u64, u64)]) -> Result<bool, OpenError> {
        for (offset, bytes) in ranges {
            let found = is_locked(self.0.as_fd(), *offset, *bytes);
            let wrong = |errno: heliostat_base::sys::Errno| OpenError::System {
                call: "fcntl(F_OFD_GETLK)",
                errno: errno.0,
            };
            if found.map_err(wrong)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
