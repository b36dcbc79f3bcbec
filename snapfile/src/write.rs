//! Writing a file from front to back: header, frames, index, trailer.

use std::io::Write;

use crate::error::FileError;
use crate::header::Header;
use crate::layout::{chunk_bytes, chunks, Identity, END_MAGIC, PAGE_BYTES};
use crate::pack::Packed;

/// What was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// What the file is known by from now on.
    pub identity: Identity,
    /// Its length.
    pub file_bytes: u64,
    /// Bytes of pages that are in it, before compression.
    pub stored_bytes: u64,
    /// Bytes of pages that are not zero, here or in the base.
    pub nonzero_bytes: u64,
}

/// A file in the making. It is none before `finish`: what was written so far is refused.
pub struct Writer<W> {
    sink: W,
    header: Header,
    /// Of header and index.
    hasher: blake3::Hasher,
    index: Vec<u8>,
    offset: u64,
    next: u32,
    stored_pages: u64,
    nonzero_pages: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a file. Writes are a few bytes at first, then a frame at a time.
    pub fn new(mut sink: W, header: Header) -> Result<Self, FileError> {
        let bytes = header.encode()?;
        sink.write_all(&bytes)?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&bytes);
        let (offset, index) = (bytes.len() as u64, Vec::new());
        let (next, stored_pages, nonzero_pages) = (0, 0, 0);
        Ok(Self { sink, header, hasher, index, offset, next, stored_pages, nonzero_pages })
    }

    /// Adds a chunk: in rising order; what is left out is zero.
    pub fn put(&mut self, packed: &Packed) -> Result<(), FileError> {
        let chunk = packed.chunk;
        let is_next = (self.next..chunks(self.header.length)).contains(&chunk);
        if !is_next || packed.bytes != chunk_bytes(self.header.length, chunk) {
            return Err(FileError::Order { chunk });
        }
        self.next = chunk + 1;
        let Some(record) = &packed.record else { return Ok(()) };
        self.sink.write_all(&packed.frame)?;
        record.encode(&mut self.index);
        self.offset += packed.frame.len() as u64;
        self.stored_pages += record.here.len() as u64;
        self.nonzero_pages += record.nonzero.len() as u64;
        Ok(())
    }

    /// Ends the file; the sink is neither flushed nor synchronised.
    pub fn finish(mut self) -> Result<(W, Written), FileError> {
        self.hasher.update(&self.index);
        let identity = Identity(*self.hasher.finalize().as_bytes());
        let mut trailer = self.offset.to_le_bytes().to_vec();
        trailer.extend((self.index.len() as u64).to_le_bytes());
        trailer.extend(identity.0);
        trailer.extend(END_MAGIC);
        self.sink.write_all(&self.index)?;
        self.sink.write_all(&trailer)?;
        let written = Written {
            identity,
            file_bytes: self.offset + (self.index.len() + trailer.len()) as u64,
            stored_bytes: self.stored_pages * PAGE_BYTES as u64,
            nonzero_bytes: self.nonzero_pages * PAGE_BYTES as u64,
        };
        Ok((self.sink, written))
    }
}
