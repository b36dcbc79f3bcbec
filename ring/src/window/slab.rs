//! Chunks of a window, all of one size: allocation and release in constant time.
//!
//! The owner of a window allocates; the allocator lives in the owner's private memory, and what
//! the other side gives back is checked against it, so that it can neither free twice nor free
//! what was never handed out.

use super::{Extent, RawExtent};

/// Why a chunk could not be allocated or given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlabError {
    /// All chunks are in use.
    Full {
        /// That many there are.
        limit: usize,
    },
    /// More bytes than a chunk has.
    TooLarge {
        /// Bytes asked for.
        wanted: usize,
        /// Bytes of a chunk.
        limit: usize,
    },
    /// Given back was something that is not in use.
    NotAllocated {
        /// What was given back.
        found: RawExtent,
    },
}

impl std::fmt::Display for SlabError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SlabError::Full { limit } => write!(f, "all {limit} chunks are in use"),
            SlabError::TooLarge { wanted, limit } => {
                write!(f, "{wanted} bytes wanted of chunks of {limit}")
            }
            SlabError::NotAllocated { found } => {
                write!(f, "{} bytes at {} are not in use", found.len, found.offset)
            }
        }
    }
}
impl std::error::Error for SlabError {}

/// Equal chunks of `[0, chunks * chunk_bytes)` of a window.
#[derive(Debug)]
pub struct Slab {
    chunk_bytes: usize,
    free: Vec<u32>,
    in_use: Vec<bool>,
}

impl Slab {
    /// Cuts a window of `window_bytes` into chunks; a remainder stays unused.
    pub fn new(window_bytes: usize, chunk_bytes: usize) -> Slab {
        let chunk_bytes = chunk_bytes.max(1);
        let chunks = (window_bytes / chunk_bytes).min(u32::MAX as usize);
        // Reversed, so that the lowest chunk is handed out first and few pages are touched.
        let free = (0..chunks as u32).rev().collect();
        Slab { chunk_bytes, free, in_use: vec![false; chunks] }
    }

    /// Hands out the first `len` bytes of a chunk.
    pub fn allocate(&mut self, len: usize) -> Result<Extent, SlabError> {
        if len > self.chunk_bytes {
            return Err(SlabError::TooLarge { wanted: len, limit: self.chunk_bytes });
        }
        let chunk = self.free.pop().ok_or(SlabError::Full { limit: self.in_use.len() })?;
        self.in_use[chunk as usize] = true;
        Ok(Extent { offset: chunk as usize * self.chunk_bytes, len })
    }

    /// Takes a chunk back, as the other side names it: only its start counts.
    pub fn release(&mut self, raw: RawExtent) -> Result<(), SlabError> {
        let refuse = SlabError::NotAllocated { found: raw };
        let chunk_bytes = self.chunk_bytes as u64;
        if raw.offset % chunk_bytes != 0 || raw.len > chunk_bytes {
            return Err(refuse);
        }
        let chunk = raw.offset / chunk_bytes;
        match self.in_use.get_mut(chunk as usize) {
            Some(used) if *used => *used = false,
            _ => return Err(refuse),
        }
        // `in_use` has at most u32::MAX entries, and `chunk` is one of them.
        self.free.push(chunk as u32);
        Ok(())
    }

    /// Chunks that are free.
    pub fn free_chunks(&self) -> usize {
        self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_handed_out_once_and_come_back() {
        let mut slab = Slab::new(1000, 300);
        let held: Vec<Extent> = (0..3).map(|_| slab.allocate(300).expect("free")).collect();
        assert_eq!(held.iter().map(|e| e.offset()).collect::<Vec<_>>(), [0, 300, 600]);
        assert_eq!(slab.allocate(1), Err(SlabError::Full { limit: 3 }));
        slab.release(held[1].to_raw()).expect("in use");
        assert_eq!(slab.allocate(20).map(|e| e.offset()), Ok(300));
    }

    #[test]
    fn foreign_releases_of_anything_else_are_refused() {
        let mut slab = Slab::new(1000, 300);
        let held = slab.allocate(10).expect("free");
        for (offset, len) in [(300, 10), (1, 10), (900, 10), (u64::MAX, 1), (0, 301)] {
            let found = RawExtent { offset, len };
            assert_eq!(slab.release(found), Err(SlabError::NotAllocated { found }));
        }
        slab.release(held.to_raw()).expect("in use");
        assert!(slab.release(held.to_raw()).is_err(), "twice");
        assert_eq!(slab.free_chunks(), 3);
    }

    #[test]
    fn more_than_a_chunk_is_too_large() {
        let mut slab = Slab::new(1000, 300);
        assert_eq!(slab.allocate(301), Err(SlabError::TooLarge { wanted: 301, limit: 300 }));
    }
}
