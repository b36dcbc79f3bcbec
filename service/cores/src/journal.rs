//! The journal: what was as it is no more, written before it is changed.
//!
//! ```text
//! 0   "HELICORE", version u32, entries u32
//! 16  boot id 16 bytes, generation u32, 0 u32
//! 40  masks of 128 bytes: every core, application, kernel, interrupt
//! 552 entries: kind u32, length u32, body
//!       1 thread     tid u32, 0 u32, start u64, before 128, now 128
//!       2 left       tid u32, 0 u32, start u64
//!       3 interrupt  number u32, 0 u32, before 128, now 128
//!       4 group      handed u32, length u32, path
//! end checksum u64 (FNV-1a) of all before
//! ```
//! A journal is replaced as one step, so a crash leaves the one before or the one after. The checksum
//! tells what a device or a person made of it.

use std::fmt;

use heliostat_abi::cores::cpu_mask::MASK_BYTES;
use heliostat_abi::cores::CpuMask;
use heliostat_abi::wire::{Reader, Writer};

use crate::plan::Partition;

const MAGIC: [u8; 8] = *b"HELICORE";
const VERSION: u32 = 2;
const HEAD_BYTES: usize = 40 + 4 * MASK_BYTES;
const THREAD_BYTES: usize = 16 + 2 * MASK_BYTES;
const INTERRUPT_BYTES: usize = 8 + 2 * MASK_BYTES;
/// Entries of one journal: threads of programs under Heliostat, for the most part. Those beyond
/// are left where they are, and counted.
pub const ENTRIES_MAX: usize = 65_536;
/// Bytes of a group's path.
pub const PATH_BYTES_MAX: usize = 4096;

/// One thing that was changed, or is about to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// A thread's place.
    Thread {
        /// Its id.
        tid: u32,
        /// When it began.
        start: u64,
        /// Where it might run.
        before: CpuMask,
        /// Where it may run.
        now: CpuMask,
    },
    /// A thread that has a place of its own, and keeps it whatever becomes of the rest.
    Left {
        /// Its id.
        tid: u32,
        /// When it began.
        start: u64,
    },
    /// An interrupt's place.
    Interrupt {
        /// Its number.
        number: u32,
        /// Where it came.
        before: CpuMask,
        /// Where it is to come.
        now: CpuMask,
    },
    /// A control group beneath that of a program.
    Group {
        /// Its folder.
        child: String,
        /// Whether cpusets had to be handed to the children of the one above.
        handed: bool,
    },
}

/// What undoes a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Journal {
    /// The run of the kernel in which it means something.
    pub boot: [u8; 16],
    /// Which partition.
    pub generation: u32,
    /// Every core.
    pub all: CpuMask,
    /// The partition.
    pub partition: Partition,
    /// What was changed.
    pub entries: Vec<Entry>,
}

/// Why bytes are no journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JournalError {
    /// They are too few, or begin with something else.
    NoJournal,
    /// Of another version.
    Version(u32),
    /// The checksum does not fit.
    Checksum,
    /// An entry is none; its place.
    Entry(usize),
}

impl Journal {
    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut head = [0; HEAD_BYTES];
        let mut w = Writer::new(&mut head);
        w.put(&MAGIC).u32(VERSION).u32(self.entries.len() as u32);
        w.put(&self.boot).u32(self.generation).u32(0);
        let Partition { application, kernel, interrupt } = &self.partition;
        for mask in [&self.all, application, kernel, interrupt] {
            mask.encode(&mut w);
        }
        let mut bytes = head.to_vec();
        self.entries.iter().for_each(|entry| put_entry(&mut bytes, entry));
        let sum = checksum(&bytes);
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    /// The journal in bytes that somebody may have changed.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(bytes: &[u8]) -> Result<Journal, JournalError> {
        let (body, sum) = bytes.split_last_chunk::<8>().ok_or(JournalError::NoJournal)?;
        let (head, mut rest) = body.split_at_checked(HEAD_BYTES).ok_or(JournalError::NoJournal)?;
        let mut r = Reader::new(head);
        if r.take() != MAGIC {
            return Err(JournalError::NoJournal);
        }
        match r.u32() {
            VERSION => {}
            found => return Err(JournalError::Version(found)),
        }
        if checksum(body) != u64::from_le_bytes(*sum) {
            return Err(JournalError::Checksum);
        }
        let count = r.u32() as usize;
        let (boot, generation, _) = (r.take(), r.u32(), r.u32());
        let [all, application, kernel, interrupt] = [(); 4].map(|()| CpuMask::decode(&mut r));
        let partition = Partition { application, kernel, interrupt };
        let mut entries = Vec::new();
        for place in 0..count {
            let (entry, after) = take_entry(rest).ok_or(JournalError::Entry(place))?;
            entries.push(entry);
            rest = after;
        }
        if !rest.is_empty() || count > ENTRIES_MAX {
            return Err(JournalError::Entry(count));
        }
        Ok(Journal { boot, generation, all, partition, entries })
    }
}

fn put_entry(bytes: &mut Vec<u8>, entry: &Entry) {
    let mut buffer = [0; THREAD_BYTES];
    let mut w = Writer::new(&mut buffer);
    let (kind, length) = match entry {
        Entry::Thread { tid, start, before, now } => {
            w.u32(*tid).u32(0).u64(*start);
            before.encode(&mut w);
            now.encode(&mut w);
            (1, THREAD_BYTES)
        }
        Entry::Left { tid, start } => {
            w.u32(*tid).u32(0).u64(*start);
            (2, 16)
        }
        Entry::Interrupt { number, before, now } => {
            before.encode(w.u32(*number).u32(0));
            now.encode(&mut w);
            (3, INTERRUPT_BYTES)
        }
        Entry::Group { child, handed } => {
            w.u32(u32::from(*handed)).u32(child.len() as u32);
            (4, 8)
        }
    };
    let path = match entry {
        Entry::Group { child, .. } => child.as_bytes(),
        _ => &[],
    };
    bytes.extend(u32::to_le_bytes(kind));
    bytes.extend(((length + path.len()) as u32).to_le_bytes());
    bytes.extend(&buffer[..length]);
    bytes.extend(path);
}

fn take_entry(bytes: &[u8]) -> Option<(Entry, &[u8])> {
    let (head, rest) = bytes.split_at_checked(8)?;
    let mut r = Reader::new(head);
    let (kind, length) = (r.u32(), r.u32() as usize);
    let (body, rest) = rest.split_at_checked(length)?;
    let mut r = Reader::new(body);
    let entry = match (kind, length) {
        (1, THREAD_BYTES) => {
            let (tid, _, start) = (r.u32(), r.u32(), r.u64());
            let (before, now) = (CpuMask::decode(&mut r), CpuMask::decode(&mut r));
            Entry::Thread { tid, start, before, now }
        }
        (2, 16) => {
            let (tid, _, start) = (r.u32(), r.u32(), r.u64());
            Entry::Left { tid, start }
        }
        (3, INTERRUPT_BYTES) => {
            let (number, _) = (r.u32(), r.u32());
            let (before, now) = (CpuMask::decode(&mut r), CpuMask::decode(&mut r));
            Entry::Interrupt { number, before, now }
        }
        (4, 8..) => {
            let (handed, path_bytes) = (r.u32() != 0, r.u32() as usize);
            let path = body.get(8..).filter(|path| path.len() == path_bytes)?;
            let is_right = path.len() <= PATH_BYTES_MAX;
            let child = std::str::from_utf8(path).ok().filter(|_| is_right)?.to_owned();
            Entry::Group { child, handed }
        }
        _ => return None,
    };
    Some((entry, rest))
}

/// FNV-1a: against accidents, not against people; the file is its owner's.
fn checksum(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoJournal => f.write_str("it is no journal of cores"),
            Self::Version(found) => write!(f, "the journal is of version {found}"),
            Self::Checksum => f.write_str("the journal's checksum does not fit"),
            Self::Entry(place) => write!(f, "entry {place} of the journal is none"),
        }
    }
}

impl std::error::Error for JournalError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Journal {
        let mask = |text| CpuMask::parse(text).unwrap();
        let entries = vec![
            Entry::Thread { tid: 7, start: 1 << 40, before: mask("0-3"), now: mask("0-1") },
            Entry::Left { tid: 8, start: 3 },
            Entry::Interrupt { number: 24, before: mask("2"), now: mask("3") },
            Entry::Group { child: "/sys/fs/cgroup/a b".into(), handed: true },
        ];
        let partition =
            Partition { application: mask("0-1"), kernel: mask("2"), interrupt: mask("3") };
        Journal { boot: [9; 16], generation: 4, all: mask("0-3"), partition, entries }
    }

    #[test]
    fn a_journal_is_read_as_it_was_written() {
        assert_eq!(Journal::decode(&journal().encode()), Ok(journal()));
    }

    #[test]
    fn every_changed_byte_and_every_shorter_journal_is_noticed() {
        let bytes = journal().encode();
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 0x40;
            assert!(Journal::decode(&changed).is_err(), "byte {place}");
            assert!(Journal::decode(&bytes[..place]).is_err(), "{place} bytes");
        }
    }

    #[test]
    fn a_right_checksum_over_wrong_entries_is_refused() {
        let mut bytes = journal().encode();
        bytes.truncate(bytes.len() - 8);
        bytes[HEAD_BYTES] = 9;
        let sum = checksum(&bytes);
        bytes.extend(sum.to_le_bytes());
        assert_eq!(Journal::decode(&bytes), Err(JournalError::Entry(0)));
    }
}
