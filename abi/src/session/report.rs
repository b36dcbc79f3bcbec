//! The report page: what a stub says of its connections, for `explain` and the metrics.
//!
//! One per session, created by the control plane, written by the stub, read by the control
//! plane as foreign bytes: it may be wrong, and decides nothing.
//!
//! ```text
//! 0     magic u32, version u32
//! 8     entries in use u32 (see `ENTRIES_USED`)
//! 12    why the program is native as a whole u32, number of the reason, 0 when it is not
//! 64    counters u64 x COUNTERS
//! 1024  connections that were or became native u64 x REASONS_MAX, by number of the reason
//! 1536  open files whose reads are or went native u64 x REASONS_MAX, by number of the reason
//! 2048  fdatasync(2) of durable files that waited u64 x REASONS_MAX, by number of the reason
//! 2560  flushes of durable files that went to the file u64 x REASONS_MAX, by number of the reason
//! 3072  calls not made on kernel cores u64 x OFFLOAD_REASONS, by number of the reason from 100 on
//! 3328  groups of calls for kernel cores, OFFLOAD_GROUP_BYTES each: calls made there, made plainly,
//!       ns of a plain one, ns of one made there (u64 each, 0 while not measured)
//! 4096  entries, ENTRY_BYTES each
//! ```

use crate::code::{Native, Unheld, Unlogged, Unmapped, Unoffloaded};
use crate::limits::REPORT_ENTRIES_MAX;
use crate::name::NetAddress;
use crate::offload::Group;
use crate::wire::{Reader, Writer};

/// First four bytes of a report: "HREP".
pub const MAGIC: u32 = u32::from_le_bytes(*b"HREP");
/// Offset of the count of places that were ever in use, from the first one on, plus one; 0 when a
/// stub does not tell, and all are to be looked at. Who reads pages of many sessions reads no more.
pub const ENTRIES_USED: usize = 8;
/// Offset of the number of the reason why this program takes the kernel's path for everything.
pub const WHOLE: usize = 12;
/// Offset of the counters.
pub const COUNTER_BASE: usize = 64;
/// Offset of the counts of native connections by reason, in order of `Native`'s numbers.
pub const REASON_BASE: usize = 1024;
/// Offset of the counts of unmapped files by reason, in order of `Unmapped`'s numbers.
pub const FILE_REASON_BASE: usize = 1536;
/// Offset of the counts of flushes that were waited for, in order of `Unheld`'s numbers.
pub const UNHELD_REASON_BASE: usize = 2048;
/// Offset of the counts of flushes that went to the file, in order of `Unlogged`'s numbers.
pub const UNLOGGED_REASON_BASE: usize = 2560;
/// Offset of the counts of calls that kernel cores did not make, by `Unoffloaded`'s numbers.
pub const OFFLOAD_REASON_BASE: usize = 3072;
/// The first of those numbers.
pub const OFFLOAD_REASON_FIRST: usize = 100;
/// Places for them.
pub const OFFLOAD_REASONS: usize = 32;
/// Offset of what is told of each group of calls, in order of `Group`.
pub const OFFLOAD_GROUP_BASE: usize = 3328;
/// Bytes of one group: [`OffloadCount`]'s words.
pub const OFFLOAD_GROUP_BYTES: usize = 32;
/// Places for reasons; more than are numbered, so that the layout outlives new ones.
pub const REASONS_MAX: usize = 64;
/// Offset of the first entry.
pub const ENTRIES: usize = 4096;
/// Bytes of one entry, a cache line pair.
pub const ENTRY_BYTES: usize = 128;
/// Offset in an entry of the received-bytes counter (u64), updated in place.
pub const ENTRY_RECEIVED: usize = 64;
/// Offset in an entry of the sent-bytes counter (u64), updated in place.
pub const ENTRY_SENT: usize = 72;
/// Length of the whole page set.
pub const BYTES: usize = ENTRIES + REPORT_ENTRIES_MAX * ENTRY_BYTES;

/// Counters of a session, by place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Counter {
    /// Direct streams opened, either side.
    Direct = 0,
    /// Native connections, any reason.
    Native = 1,
    /// Direct streams that went native later.
    Demoted = 2,
    /// Bells rung for a sleeping peer.
    Bells = 3,
    /// Times a thread slept in the kernel for a direct stream.
    Sleeps = 4,
    /// System-call sites of libc, other libraries and the program that could not be caught.
    Uncaught = 5,
    /// Programs started that cannot be covered (static, set-user-id, other libc).
    Uncovered = 6,
    /// Connections not itemised because the table was full.
    Unlisted = 7,
    /// Streams ended because the peer broke the protocol.
    Corrupt = 8,
    /// Open files that got a mapping under a lease.
    FilesMapped = 9,
    /// Files whose mapping was left, mostly because somebody wrote.
    FilesLeft = 10,
    /// Calls of fdatasync(2) and fsync(2) on durable files that returned at once.
    Flushes = 11,
    /// Sends that were held back for one.
    HeldSends = 12,
    /// Flushes whose bytes went to the log.
    LoggedFlushes = 13,
    /// Connections to remote peers that the network service took over.
    Delegated = 14,
    /// Calls made on kernel cores.
    Offloaded = 15,
}

/// What is told of a group of calls, by place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum OffloadCount {
    /// Calls made on kernel cores.
    Offloaded = 0,
    /// Calls that their thread made.
    Plain = 1,
    /// What a plain one takes, in ns.
    PlainNs = 2,
    /// What one on a kernel core takes, in ns.
    OffloadedNs = 3,
}

/// Names of the counters, in order, as they appear in metrics.
pub const COUNTER_NAMES: [&str; 16] = [
    "direct_streams",
    "native_connections",
    "demoted_streams",
    "bells",
    "sleeps",
    "uncaught_sites",
    "uncovered_programs",
    "unlisted_connections",
    "corrupt_streams",
    "files_mapped",
    "files_left",
    "durable_flushes",
    "held_sends",
    "logged_flushes",
    "delegated_streams",
    "offloaded_calls",
];

/// Offset of a counter.
pub const fn counter(counter: Counter) -> usize {
    COUNTER_BASE + counter as usize * 8
}

/// Offset of the count of connections that are or went native for `reason`.
pub const fn reason(reason: Native) -> usize {
    REASON_BASE + reason as usize * 8
}

/// Offset of the count of open files that are or went native for `reason`.
pub const fn file_reason(reason: Unmapped) -> usize {
    FILE_REASON_BASE + reason as usize * 8
}

/// Offset of the count of flushes that were waited for, for `reason`.
pub const fn unheld_reason(reason: Unheld) -> usize {
    UNHELD_REASON_BASE + reason as usize * 8
}

/// Offset of the count of flushes that went to the file, for `reason`.
pub const fn unlogged_reason(reason: Unlogged) -> usize {
    UNLOGGED_REASON_BASE + reason as usize * 8
}

/// Offset of the count of calls that were not made on kernel cores, for `reason`.
pub const fn unoffloaded_reason(reason: Unoffloaded) -> usize {
    OFFLOAD_REASON_BASE + (reason as usize).saturating_sub(OFFLOAD_REASON_FIRST) * 8
}

/// Offset of one of the words that are told of a group of calls.
pub const fn offload_group(group: Group, count: OffloadCount) -> usize {
    OFFLOAD_GROUP_BASE + group as usize * OFFLOAD_GROUP_BYTES + count as usize * 8
}

/// Offset of entry `index`.
pub const fn entry(index: usize) -> usize {
    ENTRIES + index * ENTRY_BYTES
}

/// Path of a reported connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Path {
    /// Shared memory.
    Direct,
    /// Shared memory to the network service, which has the socket.
    Delegated,
    /// The kernel, and why.
    Native(Native),
}

impl Path {
    /// Why it is native, if it is.
    pub fn reason(self) -> Option<Native> {
        match self {
            Self::Direct | Self::Delegated => None,
            Self::Native(reason) => Some(reason),
        }
    }
}

/// One connection as its stub reports it. `received` and `sent` count payload bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Descriptor number when it was opened.
    pub fd: i32,
    /// How the bytes travel.
    pub path: Path,
    /// True for the accepting side.
    pub accepted: bool,
    /// Own address.
    pub local: NetAddress,
    /// The other end's address.
    pub peer: NetAddress,
    /// Payload bytes received.
    pub received: u64,
    /// Payload bytes sent.
    pub sent: u64,
}

impl Entry {
    /// The entry's bytes; byte 0 is 1 for a used entry.
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        let (local_family, local_ip) = self.local.to_parts();
        let (peer_family, peer_ip) = self.peer.to_parts();
        let (path, reason) = match self.path {
            Path::Direct => (1, 0),
            Path::Native(reason) => (2, reason as u8),
            Path::Delegated => (3, 0),
        };
        let mut w = Writer::new(&mut bytes);
        w.u8(1).u8(path).u8(reason).u8(u8::from(self.accepted)).u32(self.fd as u32);
        w.u8(local_family).u8(peer_family).u16(self.local.port).u16(self.peer.port).u16(0);
        w.put(&local_ip).put(&peer_ip).put(&[0; 16]);
        w.u64(self.received).u64(self.sent);
        bytes
    }

    /// The entry in foreign bytes; `None` when unused or nonsense.
    pub fn decode(bytes: &[u8; ENTRY_BYTES]) -> Option<Self> {
        let mut r = Reader::new(bytes);
        if r.u8() != 1 {
            return None;
        }
        let path = match (r.u8(), Native::from_number(r.u8())?) {
            (1, _) => Path::Direct,
            (2, reason) => Path::Native(reason),
            (3, _) => Path::Delegated,
            _ => return None,
        };
        let accepted = r.u8() == 1;
        let fd = r.u32() as i32;
        let (local_family, peer_family) = (r.u8(), r.u8());
        let (local_port, peer_port) = (r.u16(), r.u16());
        r.u16();
        let local = NetAddress::from_parts(local_family, r.take(), local_port)?;
        let peer = NetAddress::from_parts(peer_family, r.take(), peer_port)?;
        r.take::<16>();
        Some(Self { fd, path, accepted, local, peer, received: r.u64(), sent: r.u64() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_round_trips_and_counts_where_it_says() {
        let address = NetAddress::new("127.0.0.1:80".parse().unwrap());
        let entry = Entry {
            fd: 7,
            path: Path::Native(Native::PeerNotOurs),
            accepted: true,
            local: address,
            peer: address,
            received: 11,
            sent: 12,
        };
        let bytes = entry.encode();
        assert_eq!(Entry::decode(&bytes), Some(entry));
        assert_eq!(bytes[ENTRY_RECEIVED], 11);
        assert_eq!(bytes[ENTRY_SENT], 12);
    }

    #[test]
    fn every_reason_has_a_place_before_the_entries() {
        for known in Unheld::ALL {
            assert!((*known as usize) < REASONS_MAX && unheld_reason(*known) + 8 <= ENTRIES);
        }
        for known in Unlogged::ALL {
            let fits = unlogged_reason(*known) + 8 <= ENTRIES;
            assert!((*known as usize) < REASONS_MAX && fits);
        }
        for known in &Unoffloaded::ALL[1..] {
            let number = *known as usize;
            assert!(
                (OFFLOAD_REASON_FIRST..OFFLOAD_REASON_FIRST + OFFLOAD_REASONS).contains(&number)
            );
            assert!(unoffloaded_reason(*known) + 8 <= OFFLOAD_GROUP_BASE);
        }
        for group in Group::ALL {
            assert!(offload_group(group, OffloadCount::OffloadedNs) + 8 <= ENTRIES);
        }
        for known in Native::ALL {
            assert!((*known as usize) < REASONS_MAX);
            assert!(reason(*known) >= counter(Counter::Corrupt) + 8);
            assert!(reason(*known) + 8 <= ENTRIES);
        }
    }

    #[test]
    fn any_bytes_decode_to_something_or_nothing() {
        for value in 0..=255u8 {
            let _ = Entry::decode(&[value; ENTRY_BYTES]);
        }
    }
}
