//! Delegated operations: what travels over a session's two rings, and nothing of the data itself.
//!
//! ```text
//! rings, one memory file    [submission ring][completion ring][call]     RING_BYTES
//!
//! operation  0 kind u8, flags u8 (0), pieces u8, 0 u8, timeout_us u32
//!            8 object index u32, generation u32
//!           16 offset u64       in the file, bytes
//!           24 tag u64          the asker's own; comes back with the completion
//!           32 argument u64     bits that the kind knows (`argument`); Cancel: tag of the operation
//!                               that ends; Truncate: the new length
//!           40 pieces x (offset u64, bytes u32, 0 u32), places in the session's window
//!
//! completion 0 tag u64, result i64 (bytes, an index, or minus an errno),
//!           16 generation u32 (of Open's index), way u8, 0 x 3
//!
//! call       0 turn u64: odd while it is asked, one more when it is answered
//!            8 object index u32, generation u32
//!           16 offset u64
//!           24 place in the window u64; the answer i64 (bytes, minus an errno, CALL_DECLINED)
//!           32 bytes u32, kind u8, pieces u8, 0 u16; more words for what is no read (`call`)
//! ```
//!
//! An operation of one piece is 56 bytes: with the ring's header it fills one cache line. A record
//! is foreign bytes until [`Operation::decode`] has copied and checked it; pieces are places, and
//! what lies there is never trusted. The protocol is in `docs/delegated.md`.

pub mod area_operation;
mod argument;
mod call;
mod directory;
pub mod function_operation;
pub mod joint;
mod kind;
mod one_read;
mod operation;
pub mod region_operation;
pub mod socket_operation;

use crate::wire::{Reader, Writer};

pub use argument::{
    mode, mode_of, ALONE, BUFFERED, CREATE, DIRECT, DIRECTORY, EXCLUSIVE, MODE_BITS, NOREPLACE,
    NOW, READ, SHARED, TRUNCATE, UNLOCK, WRITE,
};
pub use call::{call_words, called, is_one_read, CallWords, MoreWords};
pub use directory::{
    DirectoryEntries, DirectoryEntry, ENTRIES_BYTES_MAX, ENTRY_BYTES_MAX, ENTRY_HEAD_BYTES,
    ENTRY_NAME_BYTES_MAX,
};
pub use kind::OpKind;
pub use one_read::{OneRead, ONE_READ_BYTES};
pub use operation::{Malformed, Operation, Pieces, Reason};

/// Operations that one session may have under way; also what fits its completion ring.
pub const DEPTH_MAX: usize = 256;
/// Files that one session may have open.
pub const OBJECTS_MAX: usize = 256;
/// Sessions that one control plane serves: each costs two mappings and a sweep's look.
pub const SESSIONS_MAX: usize = 256;
/// Pieces of one operation.
pub const PIECES_MAX: usize = 16;
/// Bytes that one operation moves at most: more only holds up its own session.
pub const TRANSFER_BYTES_MAX: u64 = 16 << 20;
/// Largest window: its pages may all have to be pinned at once.
pub const WINDOW_BYTES_MAX: u64 = 1 << 30;
/// Longest name that can be opened (PATH_MAX of Linux, its zero included).
pub const NAME_BYTES_MAX: u32 = 4096;
/// What places, offsets and lengths must be multiples of to reach the device itself: at least what
/// every disk's driver asks for, and the page that the window consists of.
pub const DIRECT_GRAIN: u64 = 4096;
/// Bytes that one Fetch brings at most, however long its pieces are: they are read beside the server
/// loop, which then copies them in one step.
pub const FETCH_BYTES_MAX: usize = 64 * 1024;
/// Bytes that Stat writes into its piece: see [`Facts`].
pub const FACTS_BYTES: usize = 64;

/// Data bytes of the submission ring: 256 operations of one piece take a quarter.
pub const SUBMISSION_BYTES: u64 = 64 * 1024;
/// Data bytes of the completion ring: 256 completions of 32 bytes with their headers take half, so
/// that they fit however late the releases are published.
pub const COMPLETION_BYTES: u64 = 16 * 1024;
/// Bytes in front of each ring's data; the ring crate's control page.
const RING_CONTROL_BYTES: usize = 4096;
/// Where the completion ring begins in the rings' memory.
pub const COMPLETION_AT: usize = RING_CONTROL_BYTES + SUBMISSION_BYTES as usize;
/// Where the page with the call begins in the rings' memory.
pub const CALL_AT: usize = COMPLETION_AT + RING_CONTROL_BYTES + COMPLETION_BYTES as usize;
/// Length of that page; the call is one cache line at its start.
pub const CALL_BYTES: usize = 4096;
/// Length of the rings' memory.
pub const RING_BYTES: usize = CALL_AT + CALL_BYTES;
/// Offset of a call's turn in its line.
pub const CALL_TURN_AT: usize = 0;
/// Offsets of what is asked, in the order of [`OneRead::to_words`].
pub const CALL_WORDS_AT: [usize; 4] = [8, 16, 24, 32];
/// Offsets of what is asked besides, where it is no read of one piece.
pub const CALL_MORE_AT: [usize; 3] = [40, 48, 56];
/// Offset of the answer.
pub const CALL_ANSWER_AT: usize = 24;
/// The answer to a call that could not be answered at once: it has to be asked for by the ring.
pub const CALL_DECLINED: i64 = i64::MIN;

const COMPLETION_SPAN: u64 = 8 + COMPLETION_RECORD_BYTES as u64;
const _: () = assert!(COMPLETION_BYTES >= 2 * COMPLETION_SPAN * DEPTH_MAX as u64);
const _: () = assert!(RING_BYTES % 4096 == 0);

/// Length of a completion.
pub const COMPLETION_RECORD_BYTES: usize = 24;
/// Length of an operation without its pieces.
pub const OPERATION_HEAD_BYTES: usize = 40;
/// Length of one piece.
pub const PIECE_BYTES: usize = 16;
/// Length of the longest operation.
pub const OPERATION_BYTES_MAX: usize = OPERATION_HEAD_BYTES + PIECES_MAX * PIECE_BYTES;

/// A place in the session's window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Piece {
    /// First byte, counted from the window's start.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u32,
}

/// By which way the bytes went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum Way {
    /// No bytes were moved.
    #[default]
    None = 0,
    /// They lay in the control plane's cache.
    Cached = 1,
    /// They were read into the cache for this operation, or for one that came before it.
    Filled = 2,
    /// Between the device and the window.
    Direct = 3,
    /// Between the kernel's page cache and the window.
    Kernel = 4,
    /// From the device into the window, by the program's own io_uring. No server says so.
    Own = 5,
}

impl Way {
    /// Every way that a server takes, in order of number.
    pub const SERVED: [Way; 5] = [Way::None, Way::Cached, Way::Filled, Way::Direct, Way::Kernel];

    /// Its name, for people and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Way::None => "none",
            Way::Cached => "cached",
            Way::Filled => "filled",
            Way::Direct => "direct",
            Way::Kernel => "kernel",
            Way::Own => "own",
        }
    }
}

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Completion {
    /// The operation's tag.
    pub tag: u64,
    /// Bytes moved, the index of an opened file, or minus an errno.
    pub result: i64,
    /// Generation of an opened file, else zero.
    pub generation: u32,
    /// By which way.
    pub way: Way,
}

impl Completion {
    /// The record's bytes.
    pub fn encode(&self) -> [u8; COMPLETION_RECORD_BYTES] {
        let mut bytes = [0; COMPLETION_RECORD_BYTES];
        let mut w = Writer::new(&mut bytes);
        w.u64(self.tag).u64(self.result as u64).u32(self.generation).u8(self.way as u8);
        bytes
    }

    /// The completion in foreign bytes; `None` when no server writes such a record.
    pub fn decode(bytes: &[u8]) -> Option<Completion> {
        if bytes.len() != COMPLETION_RECORD_BYTES {
            return None;
        }
        let mut r = Reader::new(bytes);
        let (tag, result, generation) = (r.u64(), r.u64() as i64, r.u32());
        let way = *Way::SERVED.get(usize::from(r.u8()))?;
        r.rest_is_zero().then_some(Completion { tag, result, generation, way })
    }
}

/// What Stat tells of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// Length in bytes.
    pub size: u64,
    /// Number on its device.
    pub inode: u64,
    /// Device number.
    pub device: u64,
    /// Last change of its bytes: seconds and nanoseconds since 1970.
    pub modified: (i64, u32),
    /// Type and permissions (st_mode).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Owning group.
    pub gid: u32,
}

impl Facts {
    /// Its bytes, as they are put into the window.
    pub fn encode(&self) -> [u8; FACTS_BYTES] {
        let mut bytes = [0; FACTS_BYTES];
        let mut w = Writer::new(&mut bytes);
        w.u64(self.size).u64(self.inode).u64(self.device).u64(self.modified.0 as u64);
        w.u32(self.modified.1).u32(self.mode).u32(self.uid).u32(self.gid);
        bytes
    }

    /// From the bytes in the window; every value is possible.
    pub fn decode(bytes: &[u8; FACTS_BYTES]) -> Facts {
        let mut r = Reader::new(bytes);
        let (size, inode, device) = (r.u64(), r.u64(), r.u64());
        let modified = (r.u64() as i64, r.u32());
        Facts { size, inode, device, modified, mode: r.u32(), uid: r.u32(), gid: r.u32() }
    }
}

#[cfg(test)]
#[path = "delegated/tests.rs"]
mod tests;
