//! How a reader hears that the file it reads was written: the kernel tells.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use heliostat_base::process::poll_readable;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;

const EVENTS_BYTES: usize = 4096;

/// A watch over one file, which rings at each write.
#[derive(Debug)]
pub(crate) struct Changes {
    fd: OwnedFd,
}

impl Changes {
    pub(crate) fn of(path: &Path) -> Result<Changes, Errno> {
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        inotify::add_watch(&fd, path, WatchFlags::MODIFY)?;
        Ok(Changes { fd })
    }

    /// Waits for a write since the last look, at most so long; whether there was one.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Result<bool, Errno> {
        let limit = timeout.map_or(-1, |it| i32::try_from(it.as_millis()).unwrap_or(i32::MAX));
        let is_rung = poll_readable(self.fd.as_raw_fd(), limit);
        let is_rung = is_rung.map_err(|errno| Errno::from_raw_os_error(errno.0))?;
        // Which writes they were does not matter: the reader looks for itself.
        let mut events = [0; EVENTS_BYTES];
        while rustix::io::read(&self.fd, &mut events).is_ok_and(|bytes| bytes > 0) {}
        Ok(is_rung)
    }
}
