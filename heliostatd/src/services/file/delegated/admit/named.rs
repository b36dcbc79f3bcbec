//! What openers have opened by name, taken in; and what they were denied.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

use heliostat_abi::file::delegated::DIRECTORY;
use heliostat_abi::name::ObjectId;
use heliostat_abi::right::Right;
use heliostat_control::name::Name;
use heliostat_control::rules::{Action, Decision};
use heliostat_server_file::{with_slash, Denial, FileStats, Inode, OpenFile, Task};

use super::errno_of;
use crate::daemon::Daemon;
use crate::shown_file;
use crate::state::file::delegated::{KnownFile, Why};

impl Daemon {
    /// What a session may do with what was opened for it; an errno when nothing.
    pub(in super::super) fn admit_opened(
        &mut self,
        id: ObjectId,
        fd: OwnedFd,
        task: &Task,
    ) -> Result<Box<OpenFile>, i32> {
        let argument = if let Task::Open { argument, .. } = task { *argument } else { 0 };
        if argument & DIRECTORY != 0 {
            return self.take_directory(id, fd);
        }
        let holder = self.holder(id).map_err(|_| libc::ECONNRESET)?;
        let closer = self.closer.of(holder);
        let file = self.admit_file(id, &fd, argument);
        closer.close(fd);
        file
    }

    /// What a session may do with a file or directory that it has open itself; an errno when nothing.
    pub(in super::super) fn admit_shown(
        &mut self,
        id: ObjectId,
        shown: &impl AsFd,
        wanted: u64,
    ) -> Result<Box<OpenFile>, i32> {
        let opened = shown_file::reopen_directory(shown.as_fd(), &mut self.services.file.mounts);
        match opened.map_err(errno_of)? {
            None => self.admit_file(id, shown, wanted),
            Some(_) if wanted != 0 => Err(libc::EINVAL),
            Some(fd) => self.take_directory(id, fd),
        }
    }

    fn take_directory(&mut self, id: ObjectId, fd: OwnedFd) -> Result<Box<OpenFile>, i32> {
        let holder = self.holder(id).map_err(|_| libc::ECONNRESET)?;
        let fd = Arc::new(fd);
        // Taken in, it is closed with the file.
        let closer = self.closer.of(holder);
        self.admit_directory(id, &fd).inspect_err(|_| closer.close_last(fd))
    }

    /// A directory is read by openers, by the very descriptor that was opened.
    fn admit_directory(&mut self, id: ObjectId, fd: &Arc<OwnedFd>) -> Result<Box<OpenFile>, i32> {
        let mounts = &mut self.services.file.mounts;
        let found = shown_file::locate(fd.as_fd(), |mount| mounts.kind(mount));
        let (path, status) = found.map_err(rustix::io::Errno::raw_os_error)?;
        let name = with_slash(path.clone());
        self.check_path(id, Right::Read, &name, status.st_uid)?;
        let holder = self.holder_with_room(id)?;
        let meter = self.meter_of_name(id, &name);
        let device = self.device_of(status.st_dev)?;
        let stats = Arc::new(FileStats::default());
        let seen = KnownFile {
            path,
            buffered: fd.clone(),
            lease: None,
            why: Why::Directory,
            is_buffered: false,
            device: None,
            stats: stats.clone(),
        };
        let serial = self.keep(id, seen)?;
        Ok(Box::new(OpenFile {
            inode: Inode { device: status.st_dev, number: status.st_ino },
            buffered: fd.clone(),
            direct: None,
            can_read: false,
            can_write: false,
            may_lock_alone: !self.is_restricted(id),
            wants_direct: false,
            wants_buffered: false,
            directory: Some(Arc::new(Mutex::new(()))),
            may_cache: false,
            lease: None,
            device,
            serial,
            holder,
            meter,
            stats,
        }))
    }

    /// Without a rule a session has its own user's files, and root's has all.
    pub(super) fn check_path(
        &mut self,
        id: ObjectId,
        right: Right,
        path: &str,
        owner: u32,
    ) -> Result<(), i32> {
        let subject = &self.session(id).map_err(|_| libc::EACCES)?.peer.subject;
        let owner = if subject.uid == 0 { 0 } else { owner };
        self.check_right(id, right, Name::File(path), owner).map_err(|_| libc::EACCES)
    }

    /// Notes what a session was denied; the errno that it is told.
    pub(in super::super) fn deny(&mut self, id: ObjectId, denial: &Denial) -> i32 {
        let Denial { right, path, rule } = denial;
        let decision = match *rule {
            Some(place) => Decision::ByRule { place, action: Action::Deny },
            None => Decision::Foreign,
        };
        if let Ok(connection) = self.session(id) {
            let uid = connection.peer.subject.uid;
            self.denials.note(uid, &right.to_string(), &format!("/file{path}"), decision);
        }
        libc::EACCES
    }
}
