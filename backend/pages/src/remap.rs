//! Memory whose versions are made without copying: after each, a chunk is copied when it is first
//! written, and the copy takes the chunk's place in the program's memory.
//!
//! The program's memory *is* a set of slots of a pool, one for each chunk. Sealing a version takes
//! the right to write away; the first write to a chunk then ends in this module's handler of
//! SIGSEGV, which copies the chunk to its spare slot and maps that in its stead, writable.
//!
//! ```text
//! memory   | a0 | b0 | c0 |      pool, colour 0   a0  b0  c0      sealed: version 1 is 0 0 0
//! store to b: copy b0 to b1, map it   colour 1   --  b1  --
//! memory   | a0 | b1 | c0 |                                       sealed: version 2 is 0 1 0
//! ```
//!
//! Which versions are alive, and so which slots may be spare, is decided by the caller, and before
//! a chunk is protected: the handler never has to look for a slot, to wait for one or to refuse.
//!
//! What it does not do: the kernel's own writes into protected memory (read(2), O_DIRECT) fail with
//! EFAULT, since no handler runs for them; [`Remapped::prepare_write`] goes first. A forked child
//! does not have the memory. A program that installs another handler of SIGSEGV later has to pass
//! on what is not its own.

mod chunks;
mod error;
mod handler;
mod kernel;
mod signal;

pub use error::RemapError;

use std::mem::ManuallyDrop;
use std::ops::Range;

use heliostat_abi::snapshot::memory::CHUNK_BYTES;

use chunks::Chunks;
use heliostat_base::mapping::SharedMapping;
use heliostat_base::process;

/// Most chunks of one memory: each may become a mapping of its own, and the kernel's usual limit
/// is 65,530 mappings of a process, of which this leaves three quarters to others. 32 GiB.
pub const CHUNKS_MAX: usize = 16_384;

/// Memory that the program writes and that is sealed version by version.
pub struct Remapped {
    chunks: ManuallyDrop<Box<Chunks>>,
    /// All slots, writable. Not unmapped in a forked child, which does not have them.
    pool: ManuallyDrop<SharedMapping>,
    len: usize,
    place: handler::HandlerEntry,
}

impl Remapped {
    /// `len` bytes of zeros, which lie in the slots of colour 0 of `pool`: a mapping, writable, of
    /// `colours` slots of each chunk.
    ///
    /// # Errors
    /// More than `CHUNKS_MAX` chunks, too many such memories, another handler in the way, or the
    /// kernel's refusal; nothing stays.
    pub fn new(pool: SharedMapping, len: usize) -> Result<Self, RemapError> {
        let count = len.div_ceil(CHUNK_BYTES);
        if count == 0 || count > CHUNKS_MAX || pool.len() < count * CHUNK_BYTES {
            return Err(RemapError::Length { wanted: len, limit: CHUNKS_MAX * CHUNK_BYTES });
        }
        signal::install(handler::on_fault)?;
        let chunks = Box::new(Chunks::map(&pool, len)?);
        let Some(place) = handler::enter(&chunks) else {
            chunks.unmap();
            return Err(RemapError::Full { limit: handler::MEMORIES_MAX });
        };
        let (chunks, pool) = (ManuallyDrop::new(chunks), ManuallyDrop::new(pool));
        Ok(Self { chunks, pool, len, place })
    }

    /// First byte; readable and writable for `len()` bytes while this value lives, in the process
    /// that made it.
    pub fn as_ptr(&self) -> *mut u8 {
        self.chunks.start() as *mut u8
    }

    /// Bytes.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.len
    }

    /// Takes the right to write away from every chunk that was written since the last time, and
    /// says in `colours` which slot shows it. `taken` answers the colours, a bit for each, that
    /// versions alive show of a chunk; one more must be left. Answers the chunks.
    ///
    /// Writes of other threads meanwhile go either before or after.
    ///
    /// # Errors
    /// `Forked`, `HandlerLost`, `NoSpare`, or the kernel's refusal. `colours` then tell of the
    /// chunks protected so far; the others are in the next call.
    pub fn seal(
        &self,
        colours: &mut [u8],
        taken: impl Fn(usize) -> u32,
    ) -> Result<usize, RemapError> {
        self.admit()?;
        signal::check_installed(handler::on_fault)?;
        signal::blocked(|| self.chunks.seal(colours, taken))
    }

    /// Makes the chunks of `bytes` writable as a store would: for writes that the kernel makes.
    ///
    /// # Errors
    /// `Forked`, `Length` outside the memory, or the kernel's refusal.
    pub fn prepare_write(&self, bytes: Range<usize>) -> Result<(), RemapError> {
        self.admit()?;
        if bytes.start > bytes.end || bytes.end > self.len {
            return Err(RemapError::Length { wanted: bytes.end, limit: self.len });
        }
        let chunks = bytes.start / CHUNK_BYTES..bytes.end.div_ceil(CHUNK_BYTES);
        let mut open = chunks.into_iter().filter(|_| !bytes.is_empty());
        // A handler of another signal must not meet a chunk that its own thread holds.
        signal::blocked(|| open.try_for_each(|chunk| self.chunks.open(chunk, false)))
    }

    /// True when a chunk was written since the last sealing.
    pub fn is_written(&self) -> bool {
        self.chunks.is_written()
    }

    fn admit(&self) -> Result<(), RemapError> {
        match process::pid() == self.chunks.pid() {
            true => Ok(()),
            false => Err(RemapError::Forked),
        }
    }
}

impl Drop for Remapped {
    fn drop(&mut self) {
        // In a forked child none of it is mapped, and something else may lie there.
        if self.admit().is_err() || !handler::leave(&self.place) {
            return;
        }
        self.chunks.unmap();
        // SAFETY: neither is used again; no handler runs with the chunks any more (`leave`).
        unsafe {
            ManuallyDrop::drop(&mut self.chunks);
            ManuallyDrop::drop(&mut self.pool);
        }
    }
}

#[cfg(test)]
#[path = "remap/tests.rs"]
mod tests;
