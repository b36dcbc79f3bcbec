//! Reading one file: foreign bytes, checked before they are believed.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::error::{FileError, Part};
use crate::header::{Header, FIXED_BYTES, HEADER_BYTES_MAX};
use crate::index::{Index, Record, RECORD_BYTES};
use crate::layout::{
    chunk_bytes, chunks, frame_check, Identity, CHUNK_PAGES, END_MAGIC, FORMAT, MAGIC,
    TRAILER_BYTES,
};

/// Bytes that can be read at any place.
pub trait ReadAt {
    /// How many there are.
    fn size(&self) -> std::io::Result<u64>;
    /// Fills `into` from `offset`, or fails.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> std::io::Result<()>;
}

impl ReadAt for File {
    fn size(&self) -> std::io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
        self.read_exact_at(into, offset)
    }
}

impl ReadAt for Vec<u8> {
    fn size(&self) -> std::io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
        let found = self.get(offset as usize..).and_then(|rest| rest.get(..into.len()));
        into.copy_from_slice(found.ok_or(std::io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A file whose header and index are read and checked. Its frames are checked as they are read.
#[derive(Debug)]
pub struct SnapFile<R> {
    source: R,
    header: Header,
    index: Index,
    identity: Identity,
    file_bytes: u64,
}

impl<R: ReadAt> SnapFile<R> {
    /// Reads header and index. Takes memory for the index: 16 bytes for each page of the region
    /// that is not zero.
    pub fn open(source: R) -> Result<Self, FileError> {
        let file_bytes = source.size()?;
        let header_bytes = begin(&source, file_bytes)?;
        let trailer_at = file_bytes - TRAILER_BYTES as u64;
        let mut trailer = [0; TRAILER_BYTES];
        source.read_at(trailer_at, &mut trailer)?;
        if trailer[48..] != END_MAGIC {
            return Err(FileError::Truncated);
        }
        let number = |at| trailer[at..at + 8].iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
        let (index_at, index_bytes) = (number(0), number(8));
        let is_placed = index_at.checked_add(index_bytes) == Some(trailer_at);
        if !is_placed || index_at < header_bytes as u64 {
            return Err(FileError::Damaged(Part::Index));
        }
        let header_text = bytes_at(&source, 0, header_bytes)?;
        let header = Header::decode(&header_text)?;
        let most = u64::from(chunks(header.length)) * (RECORD_BYTES + CHUNK_PAGES * 16) as u64;
        if index_bytes > most {
            return Err(FileError::Damaged(Part::Index));
        }
        let index_text = bytes_at(&source, index_at, index_bytes as usize)?;
        let mut hasher = blake3::Hasher::new();
        let identity = hasher.update(&header_text).update(&index_text).finalize();
        if identity.as_bytes()[..] != trailer[16..48] {
            return Err(FileError::Damaged(Part::Head));
        }
        let index = Index::decode(&index_text, &header, header_bytes as u64, index_at)?;
        let identity = Identity(*identity.as_bytes());
        Ok(Self { source, header, index, identity, file_bytes })
    }

    /// What it says of itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What it holds, for an incremental file that builds on it.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// What it is known by.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Its length.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// The pages that `record`, which is of this file, has here, one behind the other.
    pub(crate) fn frame(&self, record: &Record, into: &mut Vec<u8>) -> Result<(), FileError> {
        let chunk = record.chunk;
        let damaged = || FileError::Damaged(Part::Frame { chunk });
        let wanted = record.raw_bytes(chunk_bytes(self.header.length, chunk));
        let frame = bytes_at(&self.source, record.offset, record.frame_bytes as usize)?;
        if frame_check(&frame) != record.check {
            return Err(damaged());
        }
        *into = match frame.len() == wanted {
            true => frame,
            // Never more than was promised, whatever the frame says.
            false => zstd::bulk::decompress(&frame, wanted).map_err(|_| damaged())?,
        };
        (into.len() == wanted).then_some(()).ok_or_else(damaged)
    }
}

/// Looks at the first bytes of a file; answers the length of its header.
fn begin(source: &impl ReadAt, file_bytes: u64) -> Result<usize, FileError> {
    let mut start = [0; 16];
    let there = file_bytes.min(16) as usize;
    source.read_at(0, &mut start[..there])?;
    let magic = there.min(MAGIC.len());
    if there == 0 || start[..magic] != MAGIC[..magic] {
        return Err(FileError::Foreign);
    }
    if file_bytes < (FIXED_BYTES + TRAILER_BYTES) as u64 {
        return Err(FileError::Truncated);
    }
    let word = |at: usize| start[at..at + 4].iter().rev().fold(0, |n, b| n << 8 | u32::from(*b));
    if word(8) != FORMAT {
        return Err(FileError::Version(word(8)));
    }
    let header_bytes = word(12) as usize;
    match (FIXED_BYTES..=HEADER_BYTES_MAX).contains(&header_bytes) {
        true if header_bytes as u64 <= file_bytes - TRAILER_BYTES as u64 => Ok(header_bytes),
        true => Err(FileError::Truncated),
        false => Err(FileError::Damaged(Part::Field("header bytes"))),
    }
}

fn bytes_at(source: &impl ReadAt, offset: u64, len: usize) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    let (found, limit) = (len as u64, 0);
    let what = "bytes of memory";
    bytes.try_reserve_exact(len).map_err(|_| FileError::Limit { what, found, limit })?;
    bytes.resize(len, 0);
    source.read_at(offset, &mut bytes)?;
    Ok(bytes)
}
