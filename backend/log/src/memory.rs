//! The log's bytes in memory: a ring of positions, mapped twice so that no entry wraps.
//!
//! Position `p` lies at `p` modulo the ring's bytes, which are whole pages. So its place in a sector
//! is the same as on the device, and what is written is the memory as it is.

use std::sync::Arc;

use heliostat_backend_block::Buffer;
use heliostat_base::mapping::{Access, MappingError, OutOfRange, SharedMapping, PAGE_BYTES};
use std::os::fd::AsRawFd;

/// Memory for the positions that are not yet durable, and for the sector before them.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    mapping: Arc<SharedMapping>,
    bytes: u64,
}

impl Memory {
    /// A ring of about so many bytes: whole pages, at least one.
    pub(crate) fn new(bytes: u64) -> Result<Memory, MappingError> {
        let len = whole_pages(bytes) as usize;
        let fd = SharedMapping::create_fd(c"heliostat-log", len)?;
        let mapping = SharedMapping::double_mapped(fd.as_raw_fd(), 0, len, Access::ReadWrite)?;
        Ok(Memory { mapping: Arc::new(mapping), bytes: len as u64 })
    }

    /// Copies bytes to a position.
    pub(crate) fn put(&self, at: u64, from: &[u8]) -> Result<(), OutOfRange> {
        self.mapping.copy_in(self.place(at), from)
    }

    /// Sets bytes from a position on to zero.
    pub(crate) fn zero(&self, at: u64, bytes: u64) -> Result<(), OutOfRange> {
        self.mapping.zero(self.place(at), bytes as usize)
    }

    /// What a device operation writes from.
    pub(crate) fn buffer(&self, at: u64, bytes: u64) -> Buffer {
        Buffer { memory: self.mapping.clone(), at: self.place(at), bytes: bytes as usize }
    }

    fn place(&self, at: u64) -> usize {
        (at % self.bytes) as usize
    }
}

/// So many bytes, rounded down to pages, and at least one page.
pub(crate) fn whole_pages(bytes: u64) -> u64 {
    let page = PAGE_BYTES as u64;
    (bytes / page).max(1) * page
}
