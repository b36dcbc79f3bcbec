//! How a flush is made: of the file itself, by the kernel, here or by an io_uring of the stub's own.
//!
//! This is all that knows what durable means. `state` asks for no more than: begin for these files,
//! what has ended, a descriptor to wait for, flush here.

use heliostat_base::call;
use heliostat_base::flush_ring::FlushRing;
use heliostat_base::sys::Errno;

use super::files::{Files, FILES_MAX};
use super::own;

/// The files themselves: a write is in the page cache, where every other program sees it.
pub struct FileSink {
    ring: Ring,
}

enum Ring {
    Unopened,
    /// The kernel gives us none (a container's filter, a fence): every flush is made here.
    None,
    Open(FlushRing),
}

impl FileSink {
    /// Nothing is opened yet.
    pub const fn new() -> Self {
        Self { ring: Ring::Unopened }
    }

    fn ring(&mut self) -> Option<&FlushRing> {
        if matches!(self.ring, Ring::Unopened) {
            // Those of one flush, and of a checkpoint of the log.
            let ring = FlushRing::open(2 * FILES_MAX as u32);
            self.ring =
                ring.ok().filter(|ring| own::claim(ring.fd())).map_or(Ring::None, Ring::Open);
        }
        match &self.ring {
            Ring::Open(ring) => Some(ring),
            _ => None,
        }
    }

    /// True where flushes can be begun, and need not be made here.
    pub fn is_there(&mut self) -> bool {
        self.ring().is_some()
    }

    /// Begins to flush a file; false where it has to be flushed here.
    pub fn begin(&mut self, fd: i32, is_data: bool, place: usize) -> bool {
        let Some(ring) = self.ring() else { return false };
        ring.begin(fd, is_data, place as u64).is_ok()
    }

    /// The place of a file whose flush has ended, and how.
    pub fn ended(&self) -> Option<(usize, Result<(), Errno>)> {
        let Ring::Open(ring) = &self.ring else { return None };
        ring.take().map(|flushed| (flushed.tag as usize, flushed.answer))
    }

    /// Readable when a flush has ended.
    pub fn descriptor(&self) -> Option<i32> {
        match &self.ring {
            Ring::Open(ring) => Some(ring.fd()),
            _ => None,
        }
    }

    /// The ring is the parent's: its number is given back, and its memory is not there.
    pub fn forget_in_forked_child(&mut self) {
        if let Ring::Open(ring) = std::mem::replace(&mut self.ring, Ring::Unopened) {
            let _ = call::close(ring.fd());
            std::mem::forget(ring);
        }
    }
}

/// Flushes these files here, and says which failed, and how.
pub fn flush_here(files: &Files) -> [Result<(), Errno>; FILES_MAX] {
    let mut answers = [Ok(()); FILES_MAX];
    for (file, answer) in files.iter().zip(&mut answers) {
        *answer = loop {
            match call::flush(file.fd, file.is_data) {
                Err(Errno(libc::EINTR)) => {}
                flushed => break flushed.map(|_| ()),
            }
        };
    }
    answers
}
