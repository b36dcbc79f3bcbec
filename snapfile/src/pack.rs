//! One chunk on its way into a file: zeros left out, known pages left out, the rest compressed.

use zstd::bulk::Compressor;

use crate::error::FileError;
use crate::index::{Index, PageSet, Record};
use crate::layout::{frame_check, page_hash, page_range, CHUNK_BYTES, CHUNK_PAGES, PAGE_BYTES};

const ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// A chunk as it goes into a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packed {
    pub(crate) chunk: u32,
    pub(crate) bytes: usize,
    pub(crate) record: Option<Record>,
    pub(crate) frame: Vec<u8>,
}

impl Packed {
    /// Which chunk it is.
    pub fn chunk(&self) -> u32 {
        self.chunk
    }
}

/// Packs chunks; one for each thread, since it keeps a compressor's memory.
pub struct Packer {
    compressor: Option<Compressor<'static>>,
    raw: Vec<u8>,
}

impl Packer {
    /// Compresses with zstd at `level` (1 to 22, or negative for faster ones); `None`: not at all.
    pub fn new(level: Option<i32>) -> Result<Self, FileError> {
        let compressor = level.map(Compressor::new).transpose()?;
        Ok(Self { compressor, raw: Vec::with_capacity(CHUNK_BYTES) })
    }

    /// Packs chunk `chunk` of a region; with a base, only pages that differ from the base's.
    pub fn pack(
        &mut self,
        chunk: u32,
        bytes: &[u8],
        base: Option<&Index>,
    ) -> Result<Packed, FileError> {
        if bytes.is_empty() || bytes.len() > CHUNK_BYTES {
            return Err(FileError::Order { chunk });
        }
        let below = base.and_then(|index| index.find(chunk));
        let (mut nonzero, mut here) = (PageSet::default(), PageSet::default());
        let mut hashes = Vec::new();
        self.raw.clear();
        for page in 0..CHUNK_PAGES {
            let part = &bytes[page_range(bytes.len(), page)];
            if part == &ZEROS[..part.len()] {
                continue;
            }
            let hash = page_hash(part);
            nonzero.insert(page);
            hashes.push(hash);
            if below.and_then(|record| record.hash(page)) != Some(&hash) {
                here.insert(page);
                self.raw.extend_from_slice(part);
            }
        }
        let bytes = bytes.len();
        if nonzero.is_empty() {
            return Ok(Packed { chunk, bytes, record: None, frame: Vec::new() });
        }
        let frame = self.compressed()?;
        let (frame_bytes, check) = (frame.len() as u32, frame_check(&frame));
        let record = Record { chunk, nonzero, here, hashes, frame_bytes, check, offset: 0 };
        Ok(Packed { chunk, bytes, record: Some(record), frame })
    }

    /// The stored pages compressed, or as they are when that is not shorter.
    fn compressed(&mut self) -> Result<Vec<u8>, FileError> {
        let frame = match &mut self.compressor {
            Some(compressor) if !self.raw.is_empty() => compressor.compress(&self.raw)?,
            _ => return Ok(self.raw.clone()),
        };
        Ok(if frame.len() < self.raw.len() { frame } else { self.raw.clone() })
    }
}
