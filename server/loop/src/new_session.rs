//! A session's rings and window: made and checked by the control plane, then given to a loop.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use heliostat_abi::file::delegated::joint::{
    completion_at, rings_bytes, MEMBERS_AT, MEMBERS_BYTES,
};
use heliostat_abi::file::delegated::{CALL_AT, CALL_BYTES, COMPLETION_BYTES, SUBMISSION_BYTES};
use heliostat_base::mapping::{Access, SharedMapping, PAGE_BYTES};
use heliostat_ring::members::MembersPage;
use heliostat_ring::{Refresh, RingError, RingMemory, SpscConsumer};
use heliostat_service_grant::Meter;
use rustix::fs::{fstat, fstatfs};

use super::completions::Completions;

/// Where the file system of memory files says that it is one (statfs(2)). Huge pages have another:
/// touching those may end in SIGBUS when none is left.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// A session's rings and window, ready to be served.
pub struct NewSession {
    /// Where its operations come from.
    pub submissions: SpscConsumer,
    /// Where they end.
    pub completions: Completions,
    /// The submission ring's control page, for the bell that wakes the server.
    pub bell: Arc<SharedMapping>,
    /// The page with its call, all zero.
    pub call: SharedMapping,
    /// Its memory for data.
    pub window: Arc<SharedMapping>,
    /// How much it may do.
    pub meter: Meter,
    /// Which delegation of its connection this is: none before or after has the number.
    pub serial: u64,
}

impl NewSession {
    /// Makes the rings of a session with this window: their memory file and the server's ends. One
    /// process has it for itself, or as many `members` submit on it.
    ///
    /// # Errors
    /// The kernel has no memory or descriptor for them.
    pub fn create(
        window: Arc<SharedMapping>,
        meter: Meter,
        serial: u64,
        members: u32,
    ) -> Result<(OwnedFd, NewSession), RingError> {
        let fd = SharedMapping::create_fd(c"heliostat-rings", rings_bytes(members))?;
        let raw = fd.as_raw_fd();
        let submissions = RingMemory::create_in(raw, 0, SUBMISSION_BYTES)?;
        let new = NewSession {
            submissions: submissions.spsc_consumer(Refresh::Lazy)?,
            completions: create_completions(raw, members, window.len() as u64)?,
            bell: Arc::new(SharedMapping::map(raw, 0, PAGE_BYTES, Access::ReadWrite)?),
            call: SharedMapping::map(raw, CALL_AT, CALL_BYTES, Access::ReadWrite)?,
            window,
            meter,
            serial,
        };
        Ok((fd.into(), new))
    }
}

fn create_completions(
    rings: RawFd,
    members: u32,
    window_bytes: u64,
) -> Result<Completions, RingError> {
    let ring = |member| {
        let memory = RingMemory::create_in(rings, completion_at(member), COMPLETION_BYTES)?;
        memory.spsc_producer(Refresh::Lazy)
    };
    if members == 0 {
        return Ok(Completions::of_one(ring(0)?));
    }
    let page = SharedMapping::map(rings, MEMBERS_AT, MEMBERS_BYTES, Access::ReadWrite)?;
    let others = (1..members).map(ring).collect::<Result<_, _>>()?;
    let page = MembersPage::create(page, members, window_bytes);
    Ok(Completions::of_members(page, ring(0)?, others))
}

/// Why a file that a session shows is no window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowError {
    /// It is no memory, or its memory can shrink or vanish.
    NotMemory,
    /// It is larger than a window may be.
    TooLarge {
        /// Bytes that it has.
        bytes: u64,
        /// Bytes that it may have.
        limit: u64,
    },
}

impl std::fmt::Display for WindowError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotMemory => f.write_str("the session shows no sealed memory file"),
            Self::TooLarge { bytes, limit } => {
                write!(f, "the session's window has {bytes} bytes, {limit} are allowed")
            }
        }
    }
}

impl std::error::Error for WindowError {}

/// Maps a window that was shown, when it is memory that cannot shrink or vanish.
pub fn map_window(shown: &impl AsFd, limit: u64) -> Result<Arc<SharedMapping>, WindowError> {
    let raw = shown.as_fd().as_raw_fd();
    let not_memory = |_| WindowError::NotMemory;
    // Seals first: only memory files have any, so nobody but the kernel answers the rest.
    SharedMapping::from_fd(raw, PAGE_BYTES, Access::ReadWrite).map_err(not_memory)?;
    if !fstatfs(shown).is_ok_and(|status| status.f_type as u64 == TMPFS_MAGIC) {
        return Err(WindowError::NotMemory);
    }
    let bytes = fstat(shown).map_or(0, |status| status.st_size.max(0) as u64);
    if bytes > limit {
        return Err(WindowError::TooLarge { bytes, limit });
    }
    let window = SharedMapping::from_fd(raw, bytes as usize, Access::ReadWrite);
    window.map(Arc::new).map_err(not_memory)
}
