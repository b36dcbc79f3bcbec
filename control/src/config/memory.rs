//! Memory regions: how much a user may have, and who serves those that map nothing.

use heliostat_abi::file::delegated::SESSIONS_MAX;
use heliostat_abi::memory::limits::{
    ARENAS_MAX, ARENA_BYTES_MIN, HANDLES_MAX, REGIONS_MAX, WINDOW_BYTES_MAX,
};

use super::error::ConfigError;
use super::field::Field;
use super::LOOPS_MAX;

/// Largest arena that regions share: a program maps each of them whole.
const SHARED_ARENA_BYTES_MAX: u64 = 1 << 36;
/// Largest sum of one user's regions: more than the address space of one program could map.
const BYTES_MAX: u64 = 1 << 46;
/// Replicas on a node: each has a log and a place in each tick.
const REPLICAS_MAX: u64 = 1 << 20;
/// Smallest window: room for a few operations.
const WINDOW_BYTES_MIN: u64 = 1 << 16;

/// Memory regions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Bytes of an arena that regions of a user share; pages exist once they are used. A region of
    /// more than a quarter of it has an arena of its own.
    pub arena_bytes: u64,
    /// Arenas of one user: a descriptor of the control plane each.
    pub arenas_per_user: usize,
    /// Regions of one user.
    pub regions_per_user: usize,
    /// Bytes of regions of one user.
    pub bytes_per_user: u64,
    /// Handles of one session.
    pub handles_per_session: usize,
    /// Handles of one user's sessions.
    pub handles_per_user: usize,
    /// Server loops for sessions whose operations are delegated.
    pub loops: usize,
    /// Such sessions at once; 0 switches them off.
    pub sessions: usize,
    /// Of these, one user's.
    pub sessions_per_user: usize,
    /// Largest window of one.
    pub window_bytes: u64,
    /// Replicas on this node.
    pub replicas: usize,
    /// Their bytes, which are of the control plane's own memory.
    pub replica_bytes: u64,
    /// Those of one user's regions; `bytes_per_user` bounds them too.
    pub replica_bytes_per_user: u64,
    /// Regions with replicas that this node's programs have found.
    pub replicas_found: usize,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            // 16,384 pages: a million of the smallest regions lie in one.
            arena_bytes: 64 << 20,
            // An eighth of the node's: large regions have one each.
            arenas_per_user: ARENAS_MAX / 8,
            // Of one user half of what the node has, as of sessions.
            regions_per_user: REGIONS_MAX / 2,
            // Promised, not used: pages of an arena exist once they are written.
            bytes_per_user: 256 << 30,
            handles_per_session: HANDLES_MAX / 16,
            handles_per_user: HANDLES_MAX / 4,
            // More of them help only where there are cores to spare.
            loops: 1,
            sessions: SESSIONS_MAX,
            sessions_per_user: SESSIONS_MAX / 2,
            window_bytes: WINDOW_BYTES_MAX,
            replicas: 1024,
            replica_bytes: 8 << 30,
            // Half of it, as of what a node has besides.
            replica_bytes_per_user: 4 << 30,
            replicas_found: 4096,
        }
    }
}

impl Memory {
    /// From the table `[memory]`.
    pub(super) fn read(field: &Field<'_>) -> Result<Memory, ConfigError> {
        let section = field.section(&[
            "arena_bytes",
            "arenas_per_user",
            "regions_per_user",
            "bytes_per_user",
            "handles_per_session",
            "handles_per_user",
            "loops",
            "sessions",
            "sessions_per_user",
            "window_bytes",
            "replicas",
            "replica_bytes",
            "replica_bytes_per_user",
            "replicas_found",
        ])?;
        let mut memory = Memory::default();
        let arena = (ARENA_BYTES_MIN, SHARED_ARENA_BYTES_MAX);
        section.number("arena_bytes", arena, &mut memory.arena_bytes)?;
        // Whole pages, whatever a person writes.
        memory.arena_bytes = memory.arena_bytes.next_multiple_of(ARENA_BYTES_MIN);
        let arenas = (1, ARENAS_MAX as u64);
        section.number("arenas_per_user", arenas, &mut memory.arenas_per_user)?;
        let regions = (1, REGIONS_MAX as u64);
        section.number("regions_per_user", regions, &mut memory.regions_per_user)?;
        section.number("bytes_per_user", (1, BYTES_MAX), &mut memory.bytes_per_user)?;
        let handles = (1, HANDLES_MAX as u64);
        section.number("handles_per_session", handles, &mut memory.handles_per_session)?;
        section.number("handles_per_user", handles, &mut memory.handles_per_user)?;
        section.number("loops", (1, LOOPS_MAX as u64), &mut memory.loops)?;
        let sessions = SESSIONS_MAX as u64;
        section.number("sessions", (0, sessions), &mut memory.sessions)?;
        section.number("sessions_per_user", (1, sessions), &mut memory.sessions_per_user)?;
        let window = (WINDOW_BYTES_MIN, WINDOW_BYTES_MAX);
        section.number("window_bytes", window, &mut memory.window_bytes)?;
        section.number("replicas", (0, REPLICAS_MAX), &mut memory.replicas)?;
        section.number("replica_bytes", (0, BYTES_MAX), &mut memory.replica_bytes)?;
        let per_user = &mut memory.replica_bytes_per_user;
        section.number("replica_bytes_per_user", (0, BYTES_MAX), per_user)?;
        section.number("replicas_found", (1, REPLICAS_MAX), &mut memory.replicas_found)?;
        Ok(memory)
    }
}
