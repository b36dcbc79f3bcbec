//! A header block: where a log begins, up to where it was durable, and who may have written behind.
//!
//! ```text
//!   0  magic, 8 bytes         56  generation u32          counts the openings
//!   8  format u32             60  longest payload u32
//!  12  sector bytes u32       64  begin: position u64, sequence u64
//!  16  identity, 16 bytes     80  end: position u64, sequence u64
//!  32  data bytes u64         96  zero, 32 bytes
//!  40  window bytes u64      128  marks, 256 bytes        a bit for each entry from begin on
//!  48  counter u64           384  zero, up to 508
//!                            508  checksum u32            crc32c of bytes 0..508
//! ```
//!
//! There are two, written in turns; the one with the higher counter counts. `end` is a lower bound:
//! everything from begin to there had been acknowledged when the block was written.

use super::entry::{u32_at, u64_at, Seed};
use super::{
    Position, DATA_BYTES_MAX, DATA_SECTORS_MIN, ENTRY_BYTES, HEADER_BYTES, POSITION_MAX,
    WINDOW_BYTES_MAX,
};

const MAGIC: [u8; 8] = *b"\x89HLOG\r\n\x1a";
const FORMAT: u32 = 1;
const MARKS_AT: usize = 128;
const CHECKSUM_AT: usize = HEADER_BYTES - 4;
const MARK_WORDS: usize = 32;

/// A bit for each of the entries from the log's begin on: which of them a queue's consumers have
/// acknowledged out of order. A log without a queue has none set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marks([u64; MARK_WORDS]);

impl Marks {
    /// Entries that have a bit.
    pub const ENTRIES: u64 = 64 * MARK_WORDS as u64;

    /// Whether an entry is marked; `offset` counts from the begin.
    pub fn has(&self, offset: u64) -> bool {
        self.word(offset).is_some_and(|word| word >> (offset % 64) & 1 == 1)
    }

    /// Marks an entry; whether it has a bit.
    pub fn set(&mut self, offset: u64) -> bool {
        let word = usize::try_from(offset / 64).ok().and_then(|at| self.0.get_mut(at));
        word.map(|word| *word |= 1 << (offset % 64)).is_some()
    }

    /// The marks as seen from a begin that lies `entries` further on.
    #[must_use]
    pub fn after(&self, entries: u64) -> Self {
        let mut moved = Self::default();
        for offset in (entries..Self::ENTRIES).filter(|offset| self.has(*offset)) {
            moved.set(offset - entries);
        }
        moved
    }

    fn word(&self, offset: u64) -> Option<u64> {
        usize::try_from(offset / 64).ok().and_then(|at| self.0.get(at)).copied()
    }
}

/// What a header block says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What the device could write as a whole when the log was made.
    pub sector_bytes: u32,
    /// Chosen at random when the log was made.
    pub identity: [u8; 16],
    /// Bytes for entries.
    pub data_bytes: u64,
    /// How far behind the acknowledged end an entry may begin.
    pub window_bytes: u64,
    /// Counts the header blocks that were written.
    pub counter: u64,
    /// Counts the openings.
    pub generation: u32,
    /// Longest payload.
    pub longest: u32,
    /// The first entry that is still wanted.
    pub begin: Position,
    /// Behind the last entry that was known to be durable.
    pub end: Position,
    /// What a queue's consumers have acknowledged behind the begin.
    pub marks: Marks,
}

/// Why bytes are no header block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderError {
    /// They do not begin with the mark.
    Foreign,
    /// They do, but the checksum does not agree.
    Checksum,
    /// Of another version of the format.
    Version {
        /// Which.
        found: u32,
    },
    /// A field that cannot be, though the checksum agrees.
    Field {
        /// Which.
        name: &'static str,
        /// What it says.
        found: u64,
    },
}

impl std::fmt::Display for HeaderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Foreign => f.write_str("no header block of a log"),
            Self::Checksum => f.write_str("a header block whose checksum does not agree"),
            Self::Version { found } => {
                write!(f, "a log of format version {found}; this program reads version {FORMAT}")
            }
            Self::Field { name, found } => write!(f, "a header block whose {name} is {found}"),
        }
    }
}

impl Header {
    /// What begins the checksums of this log's entries.
    pub fn seed(&self) -> Seed {
        Seed::of(&self.identity)
    }

    /// The bytes of the block.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        let words =
            [(8, FORMAT), (12, self.sector_bytes), (56, self.generation), (60, self.longest)];
        for (at, word) in words {
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes[16..32].copy_from_slice(&self.identity);
        let long_words = [
            (32, self.data_bytes),
            (40, self.window_bytes),
            (48, self.counter),
            (64, self.begin.at),
            (72, self.begin.sequence),
            (80, self.end.at),
            (88, self.end.sequence),
        ];
        for (at, word) in long_words {
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        for (at, word) in self.marks.0.iter().enumerate() {
            let at = MARKS_AT + 8 * at;
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let checksum = crc32c::crc32c(&bytes[..CHECKSUM_AT]);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The header block in foreign bytes.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(HeaderError::Foreign)?;
        if bytes[..8] != MAGIC {
            return Err(HeaderError::Foreign);
        }
        if crc32c::crc32c(&bytes[..CHECKSUM_AT]) != u32_at(bytes, CHECKSUM_AT) {
            return Err(HeaderError::Checksum);
        }
        let found = u32_at(bytes, 8);
        if found != FORMAT {
            return Err(HeaderError::Version { found });
        }
        let mut identity = [0; 16];
        identity.copy_from_slice(&bytes[16..32]);
        let mut marks = Marks::default();
        for (at, word) in marks.0.iter_mut().enumerate() {
            *word = u64_at(bytes, MARKS_AT + 8 * at);
        }
        let position = |at| Position { at: u64_at(bytes, at), sequence: u64_at(bytes, at + 8) };
        let header = Self {
            sector_bytes: u32_at(bytes, 12),
            identity,
            data_bytes: u64_at(bytes, 32),
            window_bytes: u64_at(bytes, 40),
            counter: u64_at(bytes, 48),
            generation: u32_at(bytes, 56),
            longest: u32_at(bytes, 60),
            begin: position(64),
            end: position(80),
            marks,
        };
        header.checked()
    }

    fn checked(self) -> Result<Self, HeaderError> {
        let sector = u64::from(self.sector_bytes);
        let used = self.end.at.checked_sub(self.begin.at);
        let has_order = used.is_some_and(|bytes| bytes <= self.data_bytes)
            && self.begin.sequence <= self.end.sequence;
        let rules = [
            (matches!(sector, 512 | 4096), "sector", sector),
            (is_data(self.data_bytes, sector), "number of data bytes", self.data_bytes),
            (self.has_window(), "window", self.window_bytes),
            (u64::from(self.longest) <= self.window_bytes, "longest payload", self.longest.into()),
            (self.begin.at % 8 == 0, "begin", self.begin.at),
            (self.end.at % 8 == 0 && self.end.at < POSITION_MAX, "end", self.end.at),
            (has_order, "begin", self.begin.at),
            // No entry takes less.
            (self.end.sequence <= self.end.at / ENTRY_BYTES, "sequence number", self.end.sequence),
        ];
        match rules.iter().find(|(holds, ..)| !holds) {
            Some(&(_, name, found)) => Err(HeaderError::Field { name, found }),
            None => Ok(self),
        }
    }
}

impl Header {
    fn has_window(&self) -> bool {
        let pages = self.window_bytes / 4096 * 4096 == self.window_bytes;
        pages && (4096..=WINDOW_BYTES_MAX.min(self.data_bytes)).contains(&self.window_bytes)
    }
}

fn is_data(bytes: u64, sector: u64) -> bool {
    let least = DATA_SECTORS_MIN * sector;
    (least..=DATA_BYTES_MAX).contains(&bytes) && sector > 0 && bytes % sector == 0
}
