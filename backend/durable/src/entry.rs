//! The bytes of one entry: which file, where in it, and what. Bytes in, values out.
//!
//! ```text
//! 0   "HDF1"  4  path bytes u16   6  zero u16   8  boot id, 16 bytes
//! 24  device u64   32  inode u64   40  born, seconds i64   48  nanoseconds u32   52  when u32
//! 56  offset u64   64  path   then: bytes from that offset of the file on
//!
//! 0   "HDR2"  4  zero u32   8  boot id, 16 bytes       recovery begins to write this file in that run of
//! 24  device u64   32  inode u64   40  born, seconds i64   48  nanoseconds u32   52  zero u32  the machine
//! ```
//!
//! Little-endian. The log's own checksums guard the bytes; each entry stands alone, so that trimming
//! never takes away what a later one needs.

use std::fmt;

use heliostat_base::call::Birth;

use crate::boot::BootId;

/// Bytes before an entry's path.
pub const HEAD_BYTES: usize = 64;
/// Longest path.
pub const PATH_BYTES_MAX: usize = 1024;
/// Bytes of the longest entry that anybody writes, and so of the longest that is read: a log that takes
/// longer ones may be made by anybody, and a control plane reads it.
pub const ENTRY_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a mark.
pub const MARK_BYTES: usize = 56;

const APPENDED: [u8; 4] = *b"HDF1";
const MARK: [u8; 4] = *b"HDR2";

/// Which bytes of which file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head<'a> {
    /// The run of the machine that they were written in.
    pub boot: BootId,
    /// The file.
    pub file: Birth,
    /// Where in it the bytes begin.
    pub offset: u64,
    /// When it was, in seconds since 1970.
    pub when: u32,
    /// Its path then.
    pub path: &'a [u8],
}

/// What an entry says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry<'a> {
    /// These bytes were appended.
    Appended(Head<'a>, &'a [u8]),
    /// Recovery begins to write into this file in this run of the machine, or has ended doing so.
    Mark(BootId, Birth),
}

/// Why bytes are no entry of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// They are too few.
    Short {
        /// How many.
        found: usize,
        /// How many are needed.
        wanted: usize,
    },
    /// They begin with something else: another program's log, or a later version's.
    Kind([u8; 4]),
    /// What must be zero is not, or a path is none.
    Field(&'static str),
    /// They are too many.
    Long {
        /// How many.
        found: u64,
    },
}

impl Head<'_> {
    /// The bytes before the path.
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(&APPENDED);
        bytes[4..6].copy_from_slice(&(self.path.len() as u16).to_le_bytes());
        bytes[8..24].copy_from_slice(&self.boot);
        put_birth(&mut bytes, self.file);
        bytes[52..56].copy_from_slice(&self.when.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }
}

/// The bytes of a mark.
pub fn mark(boot: BootId, file: Birth) -> [u8; MARK_BYTES] {
    let mut bytes = [0; MARK_BYTES];
    bytes[..4].copy_from_slice(&MARK);
    bytes[8..24].copy_from_slice(&boot);
    put_birth(&mut bytes, file);
    bytes
}

/// Which file it is, where every entry has it.
fn put_birth(bytes: &mut [u8], file: Birth) {
    bytes[24..32].copy_from_slice(&file.device.to_le_bytes());
    bytes[32..40].copy_from_slice(&file.inode.to_le_bytes());
    bytes[40..48].copy_from_slice(&file.born.0.to_le_bytes());
    bytes[48..52].copy_from_slice(&file.born.1.to_le_bytes());
}

fn birth_in(bytes: &[u8]) -> Result<Birth, Malformed> {
    let u64_at = |at| array(bytes, at).map(u64::from_le_bytes);
    let born = (u64_at(40)? as i64, u32::from_le_bytes(array(bytes, 48)?));
    Ok(Birth { device: u64_at(24)?, inode: u64_at(32)?, born })
}

/// What an entry says.
///
/// # Errors
/// It is none of ours.
pub fn decode(bytes: &[u8]) -> Result<Entry<'_>, Malformed> {
    match array(bytes, 0)? {
        APPENDED => appended(bytes),
        MARK => Ok(Entry::Mark(array(bytes, 8)?, birth_in(bytes)?)),
        kind => Err(Malformed::Kind(kind)),
    }
}

fn appended(bytes: &[u8]) -> Result<Entry<'_>, Malformed> {
    let path_bytes = usize::from(u16::from_le_bytes(array(bytes, 4)?));
    if array(bytes, 6)? != [0u8; 2] {
        return Err(Malformed::Field("reserved bytes"));
    }
    let (boot, file) = (array(bytes, 8)?, birth_in(bytes)?);
    let offset = u64::from_le_bytes(array(bytes, 56)?);
    let when = u32::from_le_bytes(array(bytes, 52)?);
    let (found, wanted) = (bytes.len(), HEAD_BYTES + path_bytes);
    let path = bytes.get(HEAD_BYTES..wanted).ok_or(Malformed::Short { found, wanted })?;
    if path.first() != Some(&b'/') || path.len() > PATH_BYTES_MAX || path.contains(&0) {
        return Err(Malformed::Field("path"));
    }
    let content = &bytes[wanted..];
    if offset.checked_add(content.len() as u64).is_none_or(|end| end > i64::MAX as u64) {
        return Err(Malformed::Field("offset"));
    }
    Ok(Entry::Appended(Head { boot, file, offset, when, path }, content))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Malformed> {
    let short = Malformed::Short { found: bytes.len(), wanted: at + N };
    bytes.get(at..at + N).and_then(|part| part.try_into().ok()).ok_or(short)
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { found, wanted } => write!(f, "{found} bytes where {wanted} are needed"),
            Self::Kind(kind) => write!(f, "it begins with {:?}", String::from_utf8_lossy(kind)),
            Self::Field(name) => write!(f, "its {name} cannot be"),
            Self::Long { found } => {
                write!(f, "{found} bytes where {ENTRY_BYTES_MAX} are the most")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(content: &[u8]) -> Vec<u8> {
        let file = Birth { device: 3, inode: 4, born: (-5, 6) };
        let head = Head { boot: [7; 16], file, offset: 8, when: 9, path: b"/a/b" };
        [&head.encode()[..], head.path, content].concat()
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let bytes = sample(b"content");
        let Ok(Entry::Appended(head, content)) = decode(&bytes) else { panic!("an entry") };
        assert_eq!((head.boot, head.offset, head.path), ([7; 16], 8, &b"/a/b"[..]));
        assert_eq!(head.when, 9);
        assert_eq!(head.file, Birth { device: 3, inode: 4, born: (-5, 6) });
        assert_eq!(content, b"content");
        assert_eq!(decode(&mark([9; 16], head.file)), Ok(Entry::Mark([9; 16], head.file)));
    }

    #[test]
    fn what_is_cut_or_changed_is_refused_or_means_something_and_nothing_panics() {
        let bytes = sample(b"");
        for end in 0..bytes.len() {
            assert!(matches!(decode(&bytes[..end]), Err(Malformed::Short { .. })), "{end}");
        }
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                let _ = decode(&changed);
            }
        }
        for (at, field) in [(6, "reserved bytes"), (63, "offset"), (64, "path")] {
            let mut changed = bytes.clone();
            changed[at] = 0xff;
            assert_eq!(decode(&changed), Err(Malformed::Field(field)));
        }
        assert_eq!(decode(b"HDF2...."), Err(Malformed::Kind(*b"HDF2")));
    }
}
