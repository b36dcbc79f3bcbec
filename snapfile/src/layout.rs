//! What every part of the format agrees on: marks, grains, limits, checks.

/// First bytes of every file. The first is no ASCII and the last two are a line end, so that a
/// transfer that takes the file for text is noticed (as PNG does).
pub const MAGIC: [u8; 8] = *b"\x89HSNAP\r\n";
/// Last bytes of every file.
pub(crate) const END_MAGIC: [u8; 8] = *b"HSNAPEND";
/// Version of the format.
pub const FORMAT: u32 = 1;
/// Bytes of a page: what is stored or left out as one.
pub const PAGE_BYTES: usize = 4096;
/// Pages of a chunk: what is compressed together.
pub const CHUNK_PAGES: usize = 512;
/// Bytes of a chunk.
pub const CHUNK_BYTES: usize = PAGE_BYTES * CHUNK_PAGES;
/// Longest region (1 TiB), as for regions in memory.
pub const LENGTH_MAX: u64 = 1 << 40;
/// Longest chain of bases below a file: reading a chunk may have to look into each of them.
pub const DEPTH_MAX: u32 = 32;
/// Bytes of the trailer: offset and length of the index, identity, mark.
pub(crate) const TRAILER_BYTES: usize = 8 + 8 + 32 + 8;

/// First half of the BLAKE3 hash of a page's bytes. Equal pages are told by it, so it has to be one
/// for which nobody can make two pages: what is stored in a region may come from strangers.
pub type PageHash = [u8; 16];

/// What a file is known by: the BLAKE3 hash of its header and its index, and so of all it holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity(pub [u8; 32]);

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Chunks of a region of `length` bytes.
pub fn chunks(length: u64) -> u32 {
    length.min(LENGTH_MAX).div_ceil(CHUNK_BYTES as u64) as u32
}

/// Bytes of chunk `chunk`: the last one may be short.
pub fn chunk_bytes(length: u64, chunk: u32) -> usize {
    let left = length.saturating_sub(u64::from(chunk) * CHUNK_BYTES as u64);
    left.min(CHUNK_BYTES as u64) as usize
}

/// Where page `page` lies in a chunk of `bytes` bytes: the last one may be short.
pub(crate) fn page_range(bytes: usize, page: usize) -> std::ops::Range<usize> {
    let start = (page * PAGE_BYTES).min(bytes);
    start..(start + PAGE_BYTES).min(bytes)
}

pub(crate) fn page_hash(page: &[u8]) -> PageHash {
    let mut hash = [0; 16];
    hash.copy_from_slice(&blake3::hash(page).as_bytes()[..16]);
    hash
}

pub(crate) fn frame_check(frame: &[u8]) -> [u8; 8] {
    let mut check = [0; 8];
    check.copy_from_slice(&blake3::hash(frame).as_bytes()[..8]);
    check
}
