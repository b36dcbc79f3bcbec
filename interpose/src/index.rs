//! The index: files whose text has been looked at, and in which there is nothing to catch.
//!
//! Most libraries make no system call by themselves. One file says so for all of them, so that a
//! program's start reads one file and not one per library. Those that have sites have a list of
//! their own ([`crate::format`]).
//!
//! ```text
//! header, 24 bytes                     record, 40 bytes
//!   0  8  magic "HELIOIDX"               0  1  length of the build-id, 1-32
//!   8  4  version (2)                    1  1  0: nothing there; 1: cannot be examined
//!  12  4  record count                   2  6  zero
//!  16  8  check word over all the rest   8 32  build-id, zero-padded
//! ```
//! It is foreign input as a list is, and read under the same conditions ([`crate::cache`]).

use crate::format::{bytes, check_word};
use crate::site::{BuildId, BUILD_ID_BYTES_MAX};
use std::fmt;

/// The first eight bytes.
pub const MAGIC: [u8; 8] = *b"HELIOIDX";
/// The version written and read. A scanner that judges files differently raises it.
pub const VERSION: u32 = 2;
/// Length of the header.
pub const HEADER_BYTES: usize = 24;
/// Length of a record.
pub const RECORD_BYTES: usize = 40;
/// The most files in one index; with one more it begins anew. A large machine has some 3,000
/// libraries, of which one user's programs load a part.
pub const FILES_MAX: usize = 2048;
/// The longest file that can be an index.
pub const FILE_BYTES_MAX: usize = HEADER_BYTES + FILES_MAX * RECORD_BYTES;

/// What is known of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Finding {
    /// No `syscall` instruction in its text.
    Nothing = 0,
    /// It may hold some, and is of a kind that the scanner does not know.
    Unknown = 1,
}

/// What is wrong with an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexError {
    /// Not the length of a header and whole records, or too long.
    Length {
        /// Bytes there.
        found: usize,
    },
    /// The header is not one of this version.
    Header,
    /// The content is not what was written.
    CheckWord,
    /// A record has a value that no scanner writes.
    Record {
        /// Which record, from 0.
        index: usize,
    },
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IndexError::Length { found } => write!(f, "index of {found} bytes"),
            IndexError::Header => write!(f, "not an index of this version"),
            IndexError::CheckWord => write!(f, "index is damaged"),
            IndexError::Record { index } => write!(f, "index record {index} is invalid"),
        }
    }
}

impl std::error::Error for IndexError {}

/// The files of an index, in the order in which they were found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Index {
    files: Vec<(BuildId, Finding)>,
}

impl Index {
    /// What is known of this file.
    pub fn find(&self, build_id: &BuildId) -> Option<Finding> {
        self.files.iter().find(|(known, _)| known == build_id).map(|(_, finding)| *finding)
    }

    /// Notes a file; what was known of it is replaced.
    pub fn note(&mut self, build_id: BuildId, finding: Finding) {
        self.files.retain(|(known, _)| *known != build_id);
        if self.files.len() >= FILES_MAX {
            self.files.clear();
        }
        self.files.push((build_id, finding));
    }

    /// Takes what another one knows.
    pub fn add(&mut self, other: Index) {
        self.files.extend(other.files);
    }

    /// Writes it as a file.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + self.files.len() * RECORD_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(self.files.len() as u32).to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        for (build_id, finding) in &self.files {
            let id = build_id.as_bytes();
            out.extend_from_slice(&[id.len() as u8, *finding as u8, 0, 0, 0, 0, 0, 0]);
            out.extend_from_slice(id);
            out.resize(out.len() + BUILD_ID_BYTES_MAX - id.len(), 0);
        }
        let check = check_word(&out);
        out[16..24].copy_from_slice(&check.to_le_bytes());
        out
    }

    /// Reads a file, refusing whatever [`Index::encode`] would not have written.
    pub fn decode(file: &[u8]) -> Result<Index, IndexError> {
        let records = file.len().checked_sub(HEADER_BYTES).map(|rest| rest / RECORD_BYTES);
        let count =
            records.filter(|n| *n <= FILES_MAX && HEADER_BYTES + n * RECORD_BYTES == file.len());
        let count = count.ok_or(IndexError::Length { found: file.len() })?;
        let is_ours = bytes::<8>(file, 0) == MAGIC
            && u32::from_le_bytes(bytes(file, 8)) == VERSION
            && u32::from_le_bytes(bytes(file, 12)) as usize == count;
        if !is_ours {
            return Err(IndexError::Header);
        }
        if check_word(file) != u64::from_le_bytes(bytes(file, 16)) {
            return Err(IndexError::CheckWord);
        }
        let records = file[HEADER_BYTES..].chunks_exact(RECORD_BYTES).enumerate();
        let one = |(index, record)| decode_record(record).ok_or(IndexError::Record { index });
        Ok(Index { files: records.map(one).collect::<Result<_, _>>()? })
    }
}

fn decode_record(record: &[u8]) -> Option<(BuildId, Finding)> {
    let finding = match record[1] {
        0 => Finding::Nothing,
        1 => Finding::Unknown,
        _ => return None,
    };
    let length = usize::from(record[0]);
    let (id, rest) = record[8..].split_at_checked(length)?;
    let is_clean = record[2..8].iter().chain(rest).all(|byte| *byte == 0);
    Some((BuildId::new(id)?, finding)).filter(|_| is_clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> Index {
        let mut index = Index::default();
        index.note(BuildId::new(&[7; 20]).unwrap(), Finding::Nothing);
        index.note(BuildId::of_file(1, 2, 3, 4), Finding::Unknown);
        index
    }

    #[test]
    fn what_was_written_is_read_again() {
        let read = Index::decode(&index().encode()).unwrap();
        assert_eq!(read, index());
        assert_eq!(read.find(&BuildId::of_file(1, 2, 3, 4)), Some(Finding::Unknown));
        assert_eq!(read.find(&BuildId::new(&[8; 20]).unwrap()), None);
    }

    #[test]
    fn one_changed_byte_or_another_length_is_refused() {
        let file = index().encode();
        for at in 0..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 0x10;
            assert!(Index::decode(&changed).is_err(), "{at}");
            assert!(Index::decode(&file[..at]).is_err(), "{at}");
        }
    }

    #[test]
    fn a_full_index_begins_anew() {
        let mut index = Index::default();
        for inode in 0..=FILES_MAX as u64 {
            index.note(BuildId::of_file(1, inode, 0, 0), Finding::Nothing);
        }
        assert_eq!(index.find(&BuildId::of_file(1, 0, 0, 0)), None);
        let last = BuildId::of_file(1, FILES_MAX as u64, 0, 0);
        assert_eq!(index.find(&last), Some(Finding::Nothing));
        assert!(index.encode().len() <= FILE_BYTES_MAX);
    }
}
