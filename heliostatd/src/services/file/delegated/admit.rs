//! Which files sessions get, under which leases, and what is told of them.

mod devices;
mod named;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::SystemTime;

use heliostat_abi::code::Unmapped;
use heliostat_abi::file::delegated::{BUFFERED, DIRECT};
use heliostat_abi::name::ObjectId;
use heliostat_base::clock::monotonic_ns;
use heliostat_control::name::Name;
use heliostat_control::rights::Right;
use heliostat_server_file::{FileOrder, FileStats, Inode, OpenFile, Version, Vouched};
use heliostat_server_loop::Order;
use heliostat_service_grant::{Holder, Meter};
use rustix::fs::{fadvise, fstat, Advice, OFlags};

use super::super::lease::NotGiven;
use crate::daemon::Daemon;
use crate::mounts::FileSystemKind;
use crate::shown_file::{self, ShownFile};
use crate::state::file::delegated::{Delegated, Held, KnownFile, Why};

/// A version whose last change was no longer ago counts under its own lease only.
const YOUNG_S: i64 = 2;

/// What a file was opened for, and how its session wants it served.
#[derive(Clone, Copy)]
struct Access {
    can_read: bool,
    can_write: bool,
    wants_direct: bool,
    wants_buffered: bool,
}

impl Access {
    /// By the flags of open(2), and by `DIRECT` and `BUFFERED` in `wanted`.
    fn of(flags: OFlags, wanted: u64) -> Access {
        let mode = flags & OFlags::RWMODE;
        Access {
            can_read: mode != OFlags::WRONLY,
            can_write: mode != OFlags::RDONLY,
            wants_direct: wanted & DIRECT != 0,
            wants_buffered: wanted & BUFFERED != 0,
        }
    }

    fn may_cache(self) -> bool {
        !self.can_write && !self.wants_direct
    }
}

impl Daemon {
    /// What a session may do with an open file, and by which descriptors; an errno when nothing.
    /// `wanted` may have `DIRECT` or `BUFFERED`.
    pub(super) fn admit_file(
        &mut self,
        id: ObjectId,
        shown: &impl AsFd,
        wanted: u64,
    ) -> Result<Box<OpenFile>, i32> {
        let mounts = &mut self.services.file.mounts;
        let examined = shown_file::examine_any(shown.as_fd(), OFlags::empty(), mounts);
        let (file, flags, bytes) = examined.map_err(errno_of)?;
        let access = Access::of(flags, wanted);
        self.check_access(id, &file, access)?;
        let holder = self.holder_with_room(id)?;
        let (buffered, direct) = reopen_both(shown, flags)?;
        if access.wants_direct && direct.is_none() {
            return Err(libc::EINVAL);
        }
        let lease = self.lease_for(id, (&buffered, &file), access, bytes);
        let meter = self.meter_of_name(id, &file.path);
        let device = self.device_of(file.key.device)?;
        let by = direct.as_ref().filter(|_| lease.is_ok());
        self.consider_measuring(&device, (&buffered, by), (file.kind, bytes));
        let seen = KnownFile {
            path: file.path,
            buffered: buffered.clone(),
            lease: lease.as_ref().ok().map(|lease| lease.id),
            why: lease.as_ref().err().copied().unwrap_or(Why::Leased),
            is_buffered: access.wants_buffered,
            device: Some(device.clone()),
            stats: Arc::new(FileStats::default()),
        };
        let stats = seen.stats.clone();
        let serial = self.keep(id, seen)?;
        Ok(Box::new(OpenFile {
            inode: Inode { device: file.key.device, number: file.key.inode },
            buffered,
            direct,
            can_read: access.can_read,
            can_write: access.can_write,
            may_lock_alone: !self.is_restricted(id),
            wants_direct: access.wants_direct,
            wants_buffered: access.wants_buffered,
            directory: None,
            may_cache: access.may_cache(),
            lease: lease.ok(),
            device,
            serial,
            holder,
            meter,
            stats,
        }))
    }

    fn check_access(&mut self, id: ObjectId, file: &ShownFile, access: Access) -> Result<(), i32> {
        if access.can_read {
            self.check_path(id, Right::Read, &file.path, file.owner)?;
        }
        if access.can_write {
            self.check_path(id, Right::Write, &file.path, file.owner)?;
        }
        Ok(())
    }

    /// The lease under which a file's blocks may be cached, or why it has none.
    fn lease_for(
        &mut self,
        id: ObjectId,
        (buffered, file): (&OwnedFd, &ShownFile),
        access: Access,
        bytes: u64,
    ) -> Result<Vouched, Why> {
        match (access.can_write, access.wants_direct) {
            (_, true) if access.can_read && self.lends_to(id) => Err(Why::Lent),
            (_, true) => Err(Why::Direct),
            (true, false) => Err(Why::Writable),
            (false, false) if bytes == 0 => Err(Why::Empty),
            (false, false) => self.vouch(id, buffered, file),
        }
    }

    /// Whose share one more file counts against.
    fn holder_with_room(&self, id: ObjectId) -> Result<Holder, i32> {
        let holder = self.holder(id).map_err(|_| libc::ECONNRESET)?;
        let has_room = |it: &Delegated| it.files.check(holder, 1).is_ok();
        let is_room = self.services.file.delegated.as_ref().is_some_and(has_room);
        is_room.then_some(holder).ok_or(libc::ENFILE)
    }

    /// Counts a file that a session gets: its number.
    fn keep(&mut self, id: ObjectId, seen: KnownFile) -> Result<u64, i32> {
        let delegated = self.services.file.delegated.as_mut();
        let Some(it) = delegated.filter(|it| it.sessions.contains_key(&id)) else {
            self.leave_lease(id, seen.lease);
            return Err(libc::ECONNRESET);
        };
        let serial = it.next_serial();
        if let Some(held) = it.sessions.get_mut(&id) {
            it.files.take_anyway(held.holder, 1);
            held.files.insert(serial, seen);
        }
        Ok(serial)
    }

    /// The meter of a name that has a rate for this session.
    fn meter_of_name(&mut self, id: ObjectId, path: &str) -> Option<Meter> {
        let subject = &self.connections.get(id)?.peer.subject;
        let rate = self.parts.config.rates.of_name(subject, Name::File(path))?;
        let holder = self.holder(id).ok()?;
        Some(self.services.meters.of(rate, id, holder, monotonic_ns()))
    }

    fn lends_to(&self, id: ObjectId) -> bool {
        let held = self.services.file.delegated.as_ref().and_then(|it| it.sessions.get(&id));
        held.is_some_and(|held| held.lends)
    }

    /// A lease under which the file's blocks may be cached; without one the kernel reads.
    fn vouch(&mut self, id: ObjectId, fd: &OwnedFd, file: &ShownFile) -> Result<Vouched, Why> {
        // The kernel's own reading ahead: what it fetched beyond a block might be fetched again.
        let _ = fadvise(fd, 0, None, Advice::Random);
        let vouched = self.vouch_quietly(id, fd, file);
        if vouched.is_err() {
            let _ = fadvise(fd, 0, None, Advice::Normal);
        }
        vouched
    }

    fn vouch_quietly(
        &mut self,
        id: ObjectId,
        fd: &OwnedFd,
        file: &ShownFile,
    ) -> Result<Vouched, Why> {
        if file.kind == FileSystemKind::Overlay {
            return Err(Why::Overlay);
        }
        let lease = self.ask_lease(id, fd, file).map_err(|reason| match reason {
            NotGiven::Unmapped(reason) => Why::NotLeased(reason),
            NotGiven::Refused(_) => Why::NotLeased(Unmapped::Denied),
        })?;
        let Some(version) = self.version_under(lease, fd, file.kind) else {
            self.leave_lease(id, Some(lease));
            return Err(Why::NotLeased(Unmapped::Fault));
        };
        Ok(Vouched { id: lease, word: self.node.lease_word(lease), version })
    }

    /// Which version of a file a lease that has just begun vouches for: nobody changes it any more.
    fn version_under(
        &self,
        lease: ObjectId,
        fd: &OwnedFd,
        kind: FileSystemKind,
    ) -> Option<Version> {
        let status = fstat(fd).ok()?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let age = now.as_secs() as i64 - status.st_ctime;
        Some(Version {
            device: status.st_dev,
            inode: status.st_ino,
            size: status.st_size.max(0) as u64,
            changed: (status.st_ctime, status.st_ctime_nsec as i64),
            only_under: (age < YOUNG_S || kind == FileSystemKind::Memory).then_some(lease),
        })
    }

    /// A session reads a file by the kernel that could be under a lease: perhaps it can be again.
    pub(super) fn vouch_again(&mut self, id: ObjectId, object: ObjectId, serial: u64) {
        let held = self.services.file.delegated.as_mut().and_then(|it| it.sessions.get_mut(&id));
        let Some(seen) = held.and_then(|held| held.files.get_mut(&serial)) else { return };
        let (fd, before) = (seen.buffered.clone(), seen.lease.take());
        self.leave_lease(id, before);
        let lease = shown_file::examine(fd.as_fd(), &mut self.services.file.mounts)
            .map_err(Why::NotLeased)
            .and_then(|file| self.vouch(id, &fd, &file));
        let held = self.services.file.delegated.as_mut().and_then(|it| it.sessions.get_mut(&id));
        if let Some(seen) = held.and_then(|held| held.files.get_mut(&serial)) {
            seen.lease = lease.as_ref().ok().map(|lease| lease.id);
            seen.why = lease.as_ref().err().copied().unwrap_or(Why::Leased);
        }
        self.order(id, Order::Service(FileOrder::Vouched(id, object, lease.ok())));
    }

    /// A session, or its end, has closed a file, and its lease.
    pub(super) fn close_file(&mut self, id: ObjectId, file: OpenFile) {
        let delegated = self.services.file.delegated.as_mut();
        let seen = delegated.and_then(|it| it.forget_file(id, file.serial));
        self.leave_lease(id, seen.and_then(|seen| seen.lease));
        let closer = self.closer.of(file.holder);
        // What the kernel still uses is closed when it is done, and not by the server loop.
        closer.close_last(file.buffered);
        if let Some(direct) = file.direct {
            closer.close_last(direct);
        }
    }

    /// What a session has open is the server loop's no more; it may go on without delegation.
    pub(super) fn leave_files(&mut self, id: ObjectId, held: Held) {
        if let Some(delegated) = &mut self.services.file.delegated {
            delegated.files.give_back(held.holder, held.files.len() as u64);
        }
        held.files.into_values().for_each(|seen| self.leave_lease(id, seen.lease));
    }

    fn leave_lease(&mut self, id: ObjectId, lease: Option<ObjectId>) {
        if let Some(lease) = lease {
            // Perhaps a writer has ended it already, or the session has ended and with it this.
            let _ = self.end_lease(id, lease);
        }
    }
}

/// Opens a shown file anew, for what its flags say: through the page cache and, where it can be, past
/// it. Who may only append may not do more by showing the file.
fn reopen_both(
    shown: &impl AsFd,
    flags: OFlags,
) -> Result<(Arc<OwnedFd>, Option<Arc<OwnedFd>>), i32> {
    let open = |flags| shown_file::reopen_for(shown, flags).map(Arc::new);
    let access = flags & (OFlags::RWMODE | OFlags::APPEND);
    let buffered = open(access).map_err(errno_of)?;
    Ok((buffered, open(access | OFlags::DIRECT).ok()))
}

fn errno_of(reason: Unmapped) -> i32 {
    match reason {
        Unmapped::NotRegular => libc::EINVAL,
        Unmapped::FileSystem => libc::EOPNOTSUPP,
        Unmapped::Writable | Unmapped::Written => libc::EAGAIN,
        Unmapped::Owner | Unmapped::Denied => libc::EACCES,
        Unmapped::Full => libc::ENFILE,
        _ => libc::EIO,
    }
}
