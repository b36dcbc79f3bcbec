//! Pieces of shared memory that the kernel reads or writes: they keep the memory mapped.

use std::sync::Arc;

use super::{OutOfRange, SharedMapping};

/// Up to two pieces of one mapping, in order. Their bytes are nobody's alone: whoever makes a system
/// call with them knows why nobody else relies on them meanwhile.
pub struct Pieces {
    parts: [(*mut u8, usize); 2],
    _memory: Arc<SharedMapping>,
}

// SAFETY: the pointers are for the kernel alone, and stay valid as long as `_memory`, which may be
// used from every thread.
unsafe impl Send for Pieces {}

impl Pieces {
    /// Pieces by offset and length; one of no bytes is left out.
    ///
    /// # Errors
    /// One does not lie inside the mapping, or may not be written.
    pub fn of(
        memory: &Arc<SharedMapping>,
        ranges: [(usize, usize); 2],
    ) -> Result<Pieces, OutOfRange> {
        let [(first, first_len), (rest, rest_len)] = ranges;
        let parts = [
            (memory.writable_at(first, first_len)?, first_len),
            (memory.writable_at(rest, rest_len)?, rest_len),
        ];
        Ok(Pieces { parts, _memory: memory.clone() })
    }

    /// No bytes.
    pub fn none(memory: &Arc<SharedMapping>) -> Pieces {
        Pieces { parts: [(memory.as_ptr(), 0); 2], _memory: memory.clone() }
    }

    /// Bytes of both.
    pub fn bytes(&self) -> usize {
        self.parts[0].1 + self.parts[1].1
    }

    /// The first, where it is the only one.
    pub fn only(&self) -> Option<(*mut u8, usize)> {
        (self.parts[1].1 == 0).then_some(self.parts[0])
    }

    /// Both as a system call takes them.
    pub fn vectors(&self) -> [libc::iovec; 2] {
        self.parts.map(|(start, len)| libc::iovec { iov_base: start.cast(), iov_len: len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_lie_inside_their_mapping_or_are_refused() {
        let (_, memory) = SharedMapping::create(c"pieces", 8192).unwrap();
        let memory = Arc::new(memory);
        let pieces = Pieces::of(&memory, [(8000, 192), (0, 10)]).unwrap();
        assert_eq!((pieces.bytes(), pieces.only().is_some()), (202, false));
        assert!(Pieces::of(&memory, [(0, 5), (0, 0)]).unwrap().only().is_some());
        assert!(Pieces::of(&memory, [(8000, 193), (0, 0)]).is_err());
        assert!(Pieces::of(&memory, [(0, 0), (usize::MAX, 1)]).is_err());
    }
}
