//! What a lean processor's memory holds: its page of facts, and where its own things lie.
//!
//! ```text
//! window     0x000000  facts      written once by whoever starts the worker
//!            0x001000  queue 0    of the file session: the worker's own state of its rings
//!            0x005000  queue 1    of the socket session
//!            0x010000  scratch 0  4 KiB for each of 256 operations: names, addresses, facts of files
//!            0x110000  scratch 1
//!            0x400000  payload    the program's, to the window's end
//!
//! facts      0 magic u64, version u32, flags u32 (0)
//!           16 window u64 bytes, payload u64 (where it begins)
//!           32 worker u32 (from 0), workers u32
//!           40 queues u32 (bits: 1 files, 2 sockets), depth u32
//!           64 over u32 (0 while it goes on, else an errno), zeros to 0x1000
//! ```
//! The window is that of a session of delegated operations, and its rings are that session's: nothing
//! on the host knows of a lean worker but who starts it. The same memory serves both sessions.

use crate::wire::{Reader, Writer};

/// First eight bytes of a lean processor's memory.
pub const MAGIC: u64 = u64::from_le_bytes(*b"HELILEAN");
/// Version of this layout.
pub const VERSION: u32 = 1;

/// Bytes of the page of facts.
pub const FACTS_BYTES: usize = 0x1000;
/// Where stands whether the host is still there: 0, or the errno with which all that waits ends.
pub const OVER_AT: usize = 64;
/// Where the worker's own state of its first queue lies.
pub const QUEUE_AT: usize = 0x1000;
/// Bytes of one queue's state.
pub const QUEUE_BYTES: usize = 0x4000;
/// Queues: one for files, one for sockets.
pub const QUEUES: usize = 2;
/// Where scratch memory of the first queue's operations lies.
pub const SCRATCH_AT: usize = 0x10000;
/// Bytes of scratch memory of one operation: the longest name.
pub const SCRATCH_BYTES: usize = 0x1000;
/// Operations of one queue.
pub const SLOTS: usize = 256;
/// Where the program's own memory begins.
pub const PAYLOAD_AT: usize = 0x40_0000;
/// Smallest window of a lean worker.
pub const WINDOW_BYTES_MIN: u64 = 0x80_0000;

/// The environment variable by which a worker finds its descriptors: window, rings of the file
/// session, rings of the socket session, parted by commas; `-` for a session that it has not.
pub const VARIABLE: &str = "HELIOSTAT_LEAN";

/// Queue bit: files.
pub const HAS_FILES: u32 = 1;
/// Queue bit: sockets.
pub const HAS_SOCKETS: u32 = 2;

const _: () = assert!(QUEUE_AT + QUEUES * QUEUE_BYTES <= SCRATCH_AT);
const _: () = assert!(SCRATCH_AT + QUEUES * SLOTS * SCRATCH_BYTES <= PAYLOAD_AT);
const _: () = assert!((PAYLOAD_AT as u64) < WINDOW_BYTES_MIN);
const _: () = assert!(SLOTS == crate::file::delegated::DEPTH_MAX);
const _: () = assert!(SCRATCH_BYTES >= crate::file::delegated::NAME_BYTES_MAX as usize);

/// What a worker is told of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Bytes of the window.
    pub window_bytes: u64,
    /// Its number.
    pub worker: u32,
    /// How many there are.
    pub workers: u32,
    /// Which sessions it has.
    pub queues: u32,
}

/// Bytes of the facts that are not zero by rule.
pub const FACTS_USED_BYTES: usize = 48;

impl Facts {
    /// Their bytes.
    pub fn encode(&self) -> [u8; FACTS_USED_BYTES] {
        let mut bytes = [0; FACTS_USED_BYTES];
        let mut w = Writer::new(&mut bytes);
        w.u64(MAGIC).u32(VERSION).u32(0).u64(self.window_bytes).u64(PAYLOAD_AT as u64);
        w.u32(self.worker).u32(self.workers).u32(self.queues).u32(SLOTS as u32);
        bytes
    }

    /// The facts in bytes that were copied from a window.
    pub fn decode(bytes: &[u8; FACTS_USED_BYTES]) -> Option<Facts> {
        let mut r = Reader::new(bytes);
        let is_known = (r.u64(), r.u32(), r.u32()) == (MAGIC, VERSION, 0);
        let (window_bytes, payload_at) = (r.u64(), r.u64());
        let (worker, workers, queues, depth) = (r.u32(), r.u32(), r.u32(), r.u32());
        let is_usual = payload_at == PAYLOAD_AT as u64 && depth == SLOTS as u32;
        let facts = Facts { window_bytes, worker, workers, queues };
        let fits = window_bytes >= WINDOW_BYTES_MIN
            && worker < workers
            && queues & !(HAS_FILES | HAS_SOCKETS) == 0;
        (is_known && is_usual && fits).then_some(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_come_back_as_they_were_and_impossible_ones_do_not() {
        let facts = Facts { window_bytes: 1 << 26, worker: 3, workers: 4, queues: 3 };
        assert_eq!(Facts::decode(&facts.encode()), Some(facts));
        for wrong in [
            Facts { window_bytes: 1 << 20, ..facts },
            Facts { worker: 4, ..facts },
            Facts { queues: 4, ..facts },
        ] {
            assert_eq!(Facts::decode(&wrong.encode()), None);
        }
        let mut other = facts.encode();
        other[8] = 2;
        assert_eq!(Facts::decode(&other), None);
    }
}
