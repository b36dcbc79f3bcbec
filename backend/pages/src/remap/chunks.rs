//! The chunks of one memory: which slot each shows, which is spare, and who may write it.
//!
//! ```text
//!            seal                  a store, prepare_write
//! WRITABLE --------> PROTECTED ----------------------------> WRITABLE
//!          (HELD)                 (HELD: copied, mapped)
//! ```
//!
//! A chunk is changed by who holds it; others wait. Whoever holds one has all signals blocked, so
//! that its thread cannot meet itself. No allocation and no lock below `open`: it runs in a
//! handler.

mod state;

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use heliostat_abi::snapshot::memory::CHUNK_BYTES;

use state::{Chunk, HELD, NONE, PROTECTED, WRITABLE};

use super::{kernel, RemapError};
use crate::live;
use heliostat_base::mapping::{SharedMapping, PAGE_BYTES};
use heliostat_base::process;

/// What the handler knows of a memory.
pub(super) struct Chunks {
    start: usize,
    len: usize,
    /// Address of the pool, writable.
    pool: usize,
    colours: usize,
    pid: i32,
    chunks: Box<[Chunk]>,
}

impl Chunks {
    /// Maps a memory that shows colour 0 of `pool` and may be written.
    pub(super) fn map(pool: &SharedMapping, len: usize) -> Result<Self, RemapError> {
        let count = len.div_ceil(CHUNK_BYTES);
        let pool_at = pool.as_ptr() as usize;
        // Mappings made from this one inherit it. A child could write what the parent publishes.
        kernel::advise(pool_at, pool.len(), libc::MADV_DONTFORK)?;
        // Where the kernel has no huge pages for shared memory this changes nothing.
        let _ = kernel::advise(pool_at, pool.len(), libc::MADV_HUGEPAGE);
        let start = kernel::reserve(count * CHUNK_BYTES)?;
        let chunks = (0..count).map(|_| Chunk::writable()).collect();
        let colours = pool.len() / (count * CHUNK_BYTES);
        let it = Self { start, len, pool: pool_at, colours, pid: process::pid(), chunks };
        if let Err(error) = it.show(0, 0, count) {
            it.unmap();
            return Err(error);
        }
        Ok(it)
    }

    /// Ends the mapping of the memory; the pool stays.
    pub(super) fn unmap(&self) {
        kernel::unmap(self.start, self.bytes());
    }

    pub(super) fn start(&self) -> usize {
        self.start
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// The chunk in which an address lies.
    pub(super) fn at(&self, address: usize) -> Option<usize> {
        let inside = address.checked_sub(self.start)?;
        (inside < self.bytes()).then_some(inside / CHUNK_BYTES)
    }

    pub(super) fn is_written(&self) -> bool {
        self.chunks.iter().any(|chunk| chunk.state.load(Acquire) != PROTECTED)
    }

    fn bytes(&self) -> usize {
        self.chunks.len() * CHUNK_BYTES
    }

    /// Makes a chunk writable. `faulted` says that it was not although it seemed so: then another
    /// thread has just done it, or the program has taken the right away itself.
    pub(super) fn open(&self, index: usize, faulted: bool) -> Result<(), RemapError> {
        let Some(chunk) = self.chunks.get(index) else { return Ok(()) };
        loop {
            let state = chunk.state.load(Acquire);
            match state {
                WRITABLE if !faulted => return Ok(()),
                HELD => {
                    chunk.wait();
                    // The store is made again, and faults again if it must.
                    if faulted {
                        return Ok(());
                    }
                }
                _ if chunk.hold(state) => {
                    let done = match state {
                        PROTECTED => self.copy_on_write(index, chunk),
                        _ => kernel::protect(self.address(index), CHUNK_BYTES, true),
                    };
                    chunk.release(if done.is_ok() { WRITABLE } else { state });
                    return done;
                }
                _ => {}
            }
        }
    }

    fn copy_on_write(&self, index: usize, chunk: &Chunk) -> Result<(), RemapError> {
        let spare = chunk.spare.load(Relaxed);
        if spare == NONE {
            return Err(RemapError::NoSpare { chunk: index });
        }
        let used = (self.len - index * CHUNK_BYTES).min(CHUNK_BYTES);
        let (from, to) = (self.address(index), self.slot(spare, index));
        let used = used.next_multiple_of(PAGE_BYTES);
        // SAFETY: the chunk is mapped readable and the slot writable for whole pages of a chunk;
        // nobody writes the one while it is protected, nor looks at the other while it is spare.
        unsafe { live::stream(from as *const u8, to as *mut u8, used) };
        self.show(spare, index, 1)?;
        // Faults that the stores to come would take one by one.
        let _ = kernel::advise(from, used, libc::MADV_POPULATE_WRITE);
        self.gather(index, spare, chunk);
        chunk.current.store(spare, Relaxed);
        chunk.spare.store(NONE, Relaxed);
        Ok(())
    }

    /// Asks the kernel, once for each slot, to make it one huge page: from then on protecting it
    /// and opening it changes one entry instead of 512, also where huge pages for shared memory are
    /// not given unasked (`shmem_enabled` = `never`). Refused, it stays as it is.
    fn gather(&self, index: usize, colour: u8, chunk: &Chunk) {
        let bit = 1u16.checked_shl(u32::from(colour)).unwrap_or(0);
        if chunk.gathered.fetch_or(bit, Relaxed) & bit == 0 {
            let _ = kernel::advise(self.address(index), CHUNK_BYTES, libc::MADV_COLLAPSE);
        }
    }

    /// See `Remapped::seal`. All signals are blocked.
    pub(super) fn seal(
        &self,
        colours: &mut [u8],
        taken: impl Fn(usize) -> u32,
    ) -> Result<usize, RemapError> {
        let (mut at, mut sealed) = (0, 0);
        while at < self.chunks.len() {
            let run = self.chunks[at..].iter().take_while(|chunk| chunk.hold_written()).count();
            if run > 0 {
                let done = self.seal_run(at..at + run, colours, &taken);
                let state = if done.is_ok() { PROTECTED } else { WRITABLE };
                self.chunks[at..at + run].iter().for_each(|chunk| chunk.release(state));
                done?;
            }
            sealed += run;
            at += run.max(1);
        }
        Ok(sealed)
    }

    /// Protects neighbours that are held and finds each its next spare slot, before any store to
    /// them can want one.
    fn seal_run(
        &self,
        run: std::ops::Range<usize>,
        colours: &mut [u8],
        taken: impl Fn(usize) -> u32,
    ) -> Result<(), RemapError> {
        for index in run.clone() {
            let chunk = &self.chunks[index];
            let current = chunk.current.load(Relaxed);
            // The lowest: slots that were used before have their pages.
            let spare = (!(taken(index) | 1 << current)).trailing_zeros() as u8;
            if usize::from(spare) >= self.colours {
                return Err(RemapError::NoSpare { chunk: index });
            }
            chunk.spare.store(spare, Relaxed);
        }
        kernel::protect(self.address(run.start), run.len() * CHUNK_BYTES, false)?;
        for index in run {
            colours[index] = self.chunks[index].current.load(Relaxed);
        }
        Ok(())
    }

    /// Lets `count` chunks from `index` on show their slots of `colour`, writable.
    fn show(&self, colour: u8, index: usize, count: usize) -> Result<(), RemapError> {
        kernel::show(self.slot(colour, index), self.address(index), count * CHUNK_BYTES)
    }

    fn address(&self, index: usize) -> usize {
        self.start + index * CHUNK_BYTES
    }

    /// Address in the pool; chunks of one colour are neighbours there.
    fn slot(&self, colour: u8, index: usize) -> usize {
        self.pool + (usize::from(colour) * self.chunks.len() + index) * CHUNK_BYTES
    }
}
