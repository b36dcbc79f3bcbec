//! A file that a session has open: by which descriptors, with which rights, under which lease.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use heliostat_abi::file::delegated::Way;
use heliostat_abi::name::ObjectId;
use heliostat_server_loop::Object;
use heliostat_service_grant::{Holder, Meter};

use super::again::Again;
use super::ahead::Ahead;
use super::device::{AtDevice, Device};
use super::lease_word::LeaseWord;
use super::stats::FileStats;
use super::unlocked::Inode;

/// One opened file, as the control plane hands it to the server loop.
pub struct OpenFile {
    /// Which file it is.
    pub inode: Inode,
    /// Through the kernel's page cache.
    pub buffered: Arc<OwnedFd>,
    /// Past it, where the file can be opened so.
    pub direct: Option<Arc<OwnedFd>>,
    /// What the session may do.
    pub can_read: bool,
    /// See `can_read`.
    pub can_write: bool,
    /// The session may lock it for itself alone.
    pub may_lock_alone: bool,
    /// It was opened for the device.
    pub wants_direct: bool,
    /// It was opened never to be read past the caches.
    pub wants_buffered: bool,
    /// It is a directory; held while its entries are read.
    pub directory: Option<Arc<Mutex<()>>>,
    /// Its blocks may be cached, under a lease.
    pub may_cache: bool,
    /// The lease.
    pub lease: Option<Vouched>,
    /// The device that it lies on.
    pub device: Arc<Device>,
    /// The control plane's number for it.
    pub serial: u64,
    /// Whose share it counts against.
    pub holder: Holder,
    /// How much may be done with it, where its name has a rate.
    pub meter: Option<Meter>,
    /// What was transferred of it.
    pub stats: Arc<FileStats>,
}

/// A lease, and which version of the file it vouches for.
#[derive(Clone, Copy)]
pub struct Vouched {
    /// The lease.
    pub id: ObjectId,
    /// Its word: Active as long as nobody has changed the file.
    pub word: LeaseWord,
    /// Which bytes these are.
    pub version: Version,
}

/// A version of a file: two that are equal have the same bytes.
///
/// After a lease has ended, writers set the time of change before they change a byte. That tells
/// versions apart unless one was made within a tick of the clock after another was looked at; so
/// one whose last change was just before it was looked at counts under its own lease only. So does
/// every one on tmpfs, which is not told of all stores by mappings.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Version {
    /// Device number.
    pub device: u64,
    /// Number on the device.
    pub inode: u64,
    /// Length in bytes.
    pub size: u64,
    /// Last change of anything: seconds and nanoseconds.
    pub changed: (i64, i64),
    /// The lease, for a version that was young or is not told by its times.
    pub only_under: Option<ObjectId>,
}

/// A lock of flock(2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockKind {
    /// Beside others of this kind.
    Shared,
    /// Beside none.
    Alone,
}

/// A file in a session's table.
pub struct Opened {
    /// The file.
    pub file: Box<OpenFile>,
    /// Number of its version in the cache.
    pub number: u64,
    /// Where its reader has got to.
    pub ahead: Ahead,
    /// When its lease is asked for again.
    pub again: Again,
    /// The lock that the session has by it.
    pub lock: Option<LockKind>,
    /// Transfers of it that its device has.
    pub at_device: AtDevice,
}

impl Opened {
    /// The lease, while it holds.
    #[inline]
    pub fn vouched(&self) -> Option<Vouched> {
        self.file.lease.filter(|lease| lease.word.is_active())
    }
}

impl Object for Opened {
    fn meter(&self) -> Option<&Meter> {
        self.file.meter.as_ref()
    }

    fn count(&self, way: Way, bytes: u64) {
        self.file.stats.ended(way, bytes);
    }

    /// A file that can be opened for the device but not be read so goes by the kernel from now on,
    /// unless the session has asked for the device.
    fn falls_back(&mut self, way: Way, result: i32) -> bool {
        if way == Way::Direct {
            self.at_device.land();
        }
        let falls = result == -libc::EINVAL && way == Way::Direct && !self.file.wants_direct;
        if falls {
            self.file.direct = None;
        }
        falls
    }

    fn reads_device(&self) -> bool {
        self.file.wants_direct
    }
}
