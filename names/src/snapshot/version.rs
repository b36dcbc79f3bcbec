//! A version as a file: pinned while it is open, and so the same bytes however long it is read.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use heliostat_stub_snapshot::Version;
use rustix::time::{clock_gettime, ClockId};

use super::attached::AttachedRegion;
use crate::brief::Brief;
use crate::file::within;
use crate::{Access, Bytes, Facts, File, Found, NameFault};

/// A version that was alive when it was looked at.
pub(super) struct VersionFile {
    region: AttachedRegion,
    number: u64,
    published: SystemTime,
}

impl VersionFile {
    /// The version of a number.
    pub(super) fn numbered(region: AttachedRegion, number: u64) -> Result<Self, NameFault> {
        let version = match region.numbered(number).map_err(NameFault::from) {
            // A number that is no version is no name.
            Err(NameFault::Stale) => return Err(NameFault::NotFound),
            version => version?,
        };
        Ok(Self::new(region, &version))
    }

    /// The newest version, which stays for a moment so that it can be opened.
    pub(super) fn newest(region: AttachedRegion, brief: &Brief) -> Result<Self, NameFault> {
        let version = match region.newest().map_err(NameFault::from) {
            Err(NameFault::Stale) => return Err(NameFault::NotFound),
            version => version?,
        };
        brief.hold(version.clone());
        Ok(Self::new(region, &version))
    }

    fn new(region: AttachedRegion, version: &Version) -> Self {
        Self { region, number: version.number(), published: wall_time(version.published_ns()) }
    }

    /// The file.
    pub(super) fn found(self) -> Found {
        Found::File(Arc::new(self))
    }
}

impl File for VersionFile {
    fn facts(&self) -> Facts {
        let AttachedRegion { user, name, attachment, .. } = &self.region;
        Facts {
            key: format!("version {user} {name} {} {}", attachment.generation(), self.number),
            bytes: attachment.shape().length,
            user: Some(*user),
            is_readable: true,
            is_writable: false,
            changed: Some(self.published),
            is_constant: true,
        }
    }

    fn open(&self, access: Access) -> Result<Box<dyn Bytes>, NameFault> {
        if access.writes() {
            return Err(NameFault::ReadOnly);
        }
        Ok(Box::new(OpenVersion(self.region.numbered(self.number)?)))
    }
}

struct OpenVersion(Arc<Version>);

impl Bytes for OpenVersion {
    fn size(&self) -> Result<u64, NameFault> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, NameFault> {
        let count = within(offset, into.len(), self.0.len() as u64);
        if count > 0 {
            let read = self.0.read(offset as usize, &mut into[..count]);
            read.map_err(|error| NameFault::Broken(error.to_string()))?;
        }
        Ok(count)
    }
}

/// When that was by the clock on the wall: the same time each time that it is asked. A producer says it,
/// so that it may be any number.
fn wall_time(monotonic_ns: u64) -> SystemTime {
    /// When the monotonic clock began.
    static BEGAN: OnceLock<SystemTime> = OnceLock::new();
    let began = BEGAN.get_or_init(|| {
        let now = clock_gettime(ClockId::Monotonic);
        let passed = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
        SystemTime::now().checked_sub(passed).unwrap_or(SystemTime::UNIX_EPOCH)
    });
    began.checked_add(Duration::from_nanos(monotonic_ns)).unwrap_or(SystemTime::UNIX_EPOCH)
}
