//! The index: for each chunk with a page that is not zero, which pages those are, which of them
//! this file holds, and their hashes.
//!
//! ```text
//! record   0  chunk u32
//!          4  frame bytes u32      0 when no page of it is here
//!          8  check of the frame, 8 bytes
//!         16  pages that are not zero, 64 bytes, one bit each, lowest first
//!         80  pages that are here, 64 bytes
//!        144  hash of each page that is not zero, 16 bytes each
//! ```
//!
//! Records stand in the order of their chunks, frames in the order of their records and without a
//! gap, so a frame's place needs no field, and no byte of a file is without a check.

use crate::error::{FileError, Part};
use crate::header::{Fields, Header};
use crate::layout::{chunk_bytes, chunks, page_range, PageHash, CHUNK_PAGES, PAGE_BYTES};

/// Bytes of a record before its hashes.
pub(crate) const RECORD_BYTES: usize = 144;

/// Pages of one chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PageSet([u64; CHUNK_PAGES / 64]);

impl PageSet {
    /// Whether `page` is in it.
    pub fn contains(&self, page: usize) -> bool {
        page < CHUNK_PAGES && self.0[page / 64] >> (page % 64) & 1 == 1
    }

    /// Puts `page`, which is one of a chunk's, into it.
    pub fn insert(&mut self, page: usize) {
        self.0[page / 64] |= 1 << (page % 64);
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// How many of them are less than `page`, which is one of a chunk's.
    fn before(&self, page: usize) -> usize {
        let whole: u32 = self.0[..page / 64].iter().map(|word| word.count_ones()).sum();
        let part = self.0[page / 64] & ((1 << (page % 64)) - 1);
        (whole + part.count_ones()) as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// What is in both.
    pub fn and(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] & other.0[at]))
    }

    /// What is in this one only.
    pub fn without(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] & !other.0[at]))
    }

    /// Its pages in rising order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..CHUNK_PAGES).filter(|page| self.contains(*page))
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        self.0.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    }

    fn decode(fields: &mut Fields<'_>) -> Result<Self, FileError> {
        let mut set = Self::default();
        for word in &mut set.0 {
            *word = fields.u64()?;
        }
        Ok(set)
    }
}

/// What a file says of one chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Which chunk.
    pub chunk: u32,
    /// Pages that are not zero.
    pub nonzero: PageSet,
    /// Those of them that this file holds; the base holds the others.
    pub here: PageSet,
    /// Of each page that is not zero, in rising order.
    pub hashes: Vec<PageHash>,
    /// Bytes of the frame, and its check.
    pub(crate) frame_bytes: u32,
    pub(crate) check: [u8; 8],
    /// Where the frame begins in the file.
    pub(crate) offset: u64,
}

impl Record {
    /// The hash of `page`; `None` for a page of zeros.
    pub fn hash(&self, page: usize) -> Option<&PageHash> {
        self.nonzero.contains(page).then(|| self.hashes.get(self.nonzero.before(page))).flatten()
    }

    /// Whether both describe the same bytes.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.nonzero, &self.hashes) == (other.nonzero, &other.hashes)
    }

    /// Bytes of the pages that are here, in a chunk of `bytes` bytes.
    pub(crate) fn raw_bytes(&self, bytes: usize) -> usize {
        // Only the region's last page can be short.
        let last = self.here.iter().last().map_or(0, |page| page_range(bytes, page).len());
        self.here.len().saturating_sub(1) * PAGE_BYTES + last
    }

    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.chunk.to_le_bytes());
        bytes.extend(self.frame_bytes.to_le_bytes());
        bytes.extend(self.check);
        self.nonzero.encode(bytes);
        self.here.encode(bytes);
        self.hashes.iter().for_each(|hash| bytes.extend(hash));
    }

    fn decode(fields: &mut Fields<'_>, offset: u64) -> Result<Self, FileError> {
        let (chunk, frame_bytes) = (fields.u32()?, fields.u32()?);
        let check = fields.u64()?.to_le_bytes();
        let [nonzero, here] = [PageSet::decode(fields)?, PageSet::decode(fields)?];
        let hashes = fields.take(nonzero.len() * size_of::<PageHash>())?;
        let hashes = hashes.chunks_exact(16).map(|hash| hash.try_into().unwrap_or([0; 16]));
        let hashes = hashes.collect();
        Ok(Self { chunk, nonzero, here, hashes, frame_bytes, check, offset })
    }

    /// Whether it can be of a file with this header.
    fn is_sound(&self, header: &Header) -> bool {
        let bytes = chunk_bytes(header.length, self.chunk);
        let last = self.nonzero.iter().last();
        self.chunk < chunks(header.length)
            && last.is_some_and(|page| !page_range(bytes, page).is_empty())
            && self.here.without(&self.nonzero).is_empty()
            && (header.depth > 0 || self.here == self.nonzero)
            && self.here.is_empty() == (self.frame_bytes == 0)
            && self.frame_bytes as usize <= self.raw_bytes(bytes)
    }
}

/// All records of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Index(pub(crate) Vec<Record>);

impl Index {
    /// The record of a chunk; `None` for one of zeros.
    pub fn find(&self, chunk: u32) -> Option<&Record> {
        let at = self.0.binary_search_by_key(&chunk, |record| record.chunk).ok()?;
        self.0.get(at)
    }

    /// All records, in the order of their chunks.
    pub fn records(&self) -> &[Record] {
        &self.0
    }

    /// The index in foreign bytes, with frames that lie from `from` to `to` in the file.
    pub(crate) fn decode(
        bytes: &[u8],
        header: &Header,
        from: u64,
        to: u64,
    ) -> Result<Self, FileError> {
        let (mut fields, mut records, mut offset) = (Fields(bytes), Vec::new(), from);
        while !fields.0.is_empty() {
            let record = Record::decode(&mut fields, offset)?;
            let is_next = records.last().is_none_or(|last: &Record| last.chunk < record.chunk);
            if !is_next || !record.is_sound(header) {
                return Err(FileError::Damaged(Part::Index));
            }
            offset += u64::from(record.frame_bytes);
            records.push(record);
        }
        match offset == to {
            true => Ok(Self(records)),
            false => Err(FileError::Damaged(Part::Index)),
        }
    }
}
