//! One entry: its header, and what its checksum covers.
//!
//! ```text
//!   0  checksum u32          crc32c of bytes 4..32, begun with the log's identity
//!   4  payload checksum u32  crc32c of the payload
//!   8  length u32            payload bytes; bit 31 says that the entry is a filler
//!  12  unsettled u32         bytes from the acknowledged end, as it was then, to this entry
//!  16  position u64          where the entry begins, over all rounds
//!  24  sequence u32          entries before this one, the low 32 bits
//!  28  generation u32        counts the openings of the log
//!  32  payload, padded to a multiple of 8
//! ```
//!
//! The header has a checksum of its own, so that its length is believed before the payload is read,
//! and the payload's needs neither place nor identity: whoever brings a payload can take it.
//! `unsettled` is what tells a torn tail from damage: an entry that was sealed when everything before
//! position P was durable proves that an unreadable byte before P was lost.

use std::cmp::Ordering;

use super::{Position, ENTRY_BYTES, PAYLOAD_BYTES_MAX};

const FILLER: u32 = 1 << 31;

/// Begins the checksums of one log: entries of another log in the same place do not agree with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seed(u32);

impl Seed {
    /// Of the log with an identity.
    pub fn of(identity: &[u8; 16]) -> Self {
        Self(crc32c::crc32c(identity))
    }

    fn checksum(self, header: &[u8]) -> u32 {
        crc32c::crc32c_append(self.0, header)
    }
}

/// The checksum of what has been seen of a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PayloadChecksum(u32);

impl PayloadChecksum {
    /// Of a whole payload.
    pub fn of(bytes: &[u8]) -> Self {
        Self::default().and(bytes)
    }

    /// Goes on over the next bytes of the payload.
    #[must_use]
    pub fn and(self, bytes: &[u8]) -> Self {
        Self(crc32c::crc32c_append(self.0, bytes))
    }
}

/// What an entry holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    /// Somebody's payload.
    Payload,
    /// Nothing: the rest of a sector, or the room of an append that was given up.
    Filler,
}

/// What stands before a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryHeader {
    /// Whose payload it is.
    pub kind: EntryKind,
    /// Bytes of it.
    pub length: u32,
    /// The payload's checksum.
    pub payload: PayloadChecksum,
    /// Where the entry begins.
    pub position: Position,
    /// Of the opening that wrote it.
    pub generation: u32,
    /// Bytes before this entry that were not acknowledged when it was sealed.
    pub unsettled: u32,
}

/// Why bytes are not the entry that belongs to a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// The bytes end within the entry, or it is longer than entries are.
    Length {
        /// What the header says.
        found: u64,
        /// What there is.
        limit: u64,
    },
    /// It is an entry's header of another place, or none.
    Place {
        /// The position that it says.
        found: u64,
    },
    /// Its sequence number is not the next one.
    Sequence {
        /// The low half of the number that it says.
        found: u32,
    },
    /// It is of an opening that cannot have written here.
    Generation {
        /// The generation that it says.
        found: u32,
    },
    /// The header's checksum does not agree.
    HeaderChecksum,
    /// The payload's checksum does not agree.
    PayloadChecksum,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Length { found, limit } => {
                write!(f, "a length of {found} bytes where at most {limit} can be")
            }
            Self::Place { found } => write!(f, "no entry, or one of position {found}"),
            Self::Sequence { found } => write!(f, "its sequence number is {found}"),
            Self::Generation { found } => write!(f, "it is of generation {found}"),
            Self::HeaderChecksum => f.write_str("its header's checksum does not agree"),
            Self::PayloadChecksum => f.write_str("its payload's checksum does not agree"),
        }
    }
}

impl EntryHeader {
    /// The 32 bytes that stand before the payload.
    pub fn encode(&self, seed: Seed) -> [u8; ENTRY_BYTES as usize] {
        let flag = if self.kind == EntryKind::Filler { FILLER } else { 0 };
        let mut bytes = [0; ENTRY_BYTES as usize];
        bytes[4..8].copy_from_slice(&self.payload.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&(self.length | flag).to_le_bytes());
        bytes[12..16].copy_from_slice(&self.unsettled.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.position.at.to_le_bytes());
        bytes[24..28].copy_from_slice(&(self.position.sequence as u32).to_le_bytes());
        bytes[28..32].copy_from_slice(&self.generation.to_le_bytes());
        let checksum = seed.checksum(&bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The header of the entry that belongs to `place`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8], place: Position, longest: u64, seed: Seed) -> Result<Self, Broken> {
        let found = bytes.len() as u64;
        let limit = ENTRY_BYTES;
        let bytes = bytes.first_chunk().ok_or(Broken::Length { found, limit })?;
        let (mut header, sequence) = Self::fields(bytes);
        if header.position.at != place.at {
            return Err(Broken::Place { found: header.position.at });
        }
        if !is_sealed(bytes, seed) {
            return Err(Broken::HeaderChecksum);
        }
        if sequence != place.sequence as u32 {
            return Err(Broken::Sequence { found: sequence });
        }
        let (found, limit) = (u64::from(header.length), longest.min(PAYLOAD_BYTES_MAX));
        if found > limit {
            return Err(Broken::Length { found, limit });
        }
        header.position = place;
        Ok(header)
    }

    /// Whether these bytes are the payload that the header stands before.
    ///
    /// # Errors
    /// Other bytes, or fewer.
    pub fn check(&self, payload: &[u8]) -> Result<(), Broken> {
        let (found, limit) = (u64::from(self.length), payload.len() as u64);
        if found != limit {
            return Err(Broken::Length { found, limit });
        }
        self.agree(PayloadChecksum::of(payload))
    }

    /// Whether a payload of this length has the checksum that the header says.
    ///
    /// # Errors
    /// Another one.
    pub fn agree(&self, payload: PayloadChecksum) -> Result<(), Broken> {
        match payload == self.payload {
            true => Ok(()),
            false => Err(Broken::PayloadChecksum),
        }
    }

    /// The fields; of the sequence number only the low half is there.
    fn fields(bytes: &[u8; ENTRY_BYTES as usize]) -> (Self, u32) {
        let length = u32_at(bytes, 8);
        let sequence = u32_at(bytes, 24);
        let kind = if length & FILLER == 0 { EntryKind::Payload } else { EntryKind::Filler };
        let header = Self {
            kind,
            length: length & !FILLER,
            payload: PayloadChecksum(u32_at(bytes, 4)),
            position: Position { at: u64_at(bytes, 16), sequence: sequence.into() },
            generation: u32_at(bytes, 28),
            unsettled: u32_at(bytes, 12),
        };
        (header, sequence)
    }
}

fn is_sealed(bytes: &[u8; ENTRY_BYTES as usize], seed: Seed) -> bool {
    seed.checksum(&bytes[4..]) == u32_at(bytes, 0)
}

/// The generation of a log, and what lies where in it.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// Where an entry should begin and does not.
    pub cut: u64,
    /// Bytes for entries: positions that differ by it lie in the same place.
    pub data_bytes: u64,
    /// Of the header.
    pub generation: u32,
    /// Of the log.
    pub seed: Seed,
}

impl Search {
    /// Whether the bytes at position `at` hold the header of an entry which proves that what lay at
    /// the cut had been acknowledged: then the cut is damage, and no torn tail.
    ///
    /// Such an entry lies behind the cut, in this round or a later one, and was sealed either when
    /// the acknowledged end was behind the cut already, or by an opening that the header block knows
    /// nothing of. Its payload may be torn.
    pub fn is_proof(&self, at: u64, bytes: &[u8]) -> bool {
        let Some(bytes) = bytes.first_chunk() else {
            return false;
        };
        let (header, _) = EntryHeader::fields(bytes);
        let place = header.position.at;
        let settled = place.saturating_sub(u64::from(header.unsettled));
        let tells = match header.generation.cmp(&self.generation) {
            Ordering::Less => false,
            Ordering::Equal => settled > self.cut,
            Ordering::Greater => true,
        };
        let lies_here = place >= self.cut && place % self.data_bytes == at % self.data_bytes;
        tells && lies_here && is_sealed(bytes, self.seed)
    }
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}
