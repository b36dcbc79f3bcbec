//! Operations on regions, as a session's rings and its call carry them.
//!
//! ```text
//! kind          object   offset        argument              pieces
//! Read          handle   in the region 0                     where to in the window
//! Write         handle   in the region 0                     where from in the window
//! Set           handle   in the region bytes << 8 | value    none
//! Copy          handle   destination   0                     one of COPY_BYTES: the source
//! FetchAdd      handle   in the region what is added         one of 8 bytes: gets the old value
//! CompareSwap   handle   in the region the new value         one of 8 bytes: the expected value;
//!                                                            gets the old one
//! Swap          handle   in the region the new value         one of 8 bytes: gets the old value
//! ```
//!
//! Results: bytes of Read, Write, Set and Copy; of the others 8, or 0 where CompareSwap changed
//! nothing. Errors: EBADF (no such handle), ESTALE (its region is gone), EACCES (a right is missing),
//! ERANGE (beyond its end), EINVAL (no multiple of 8, or nothing this service knows).

use crate::name::ObjectId;
use crate::wire::{Reader, Writer};

/// Bytes of the piece that says where a copy comes from.
pub const COPY_BYTES: usize = 24;
/// Bytes of an atomic word, which lies at a multiple of them.
pub const WORD_BYTES: usize = 8;
/// Bytes that one Set or Copy changes at most.
pub const CHANGED_BYTES_MAX: u64 = (1 << 47) - 1;

/// Where a copy comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CopySource {
    /// A handle of the same session, perhaps the same one.
    pub handle: ObjectId,
    /// First byte in its region.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
}

impl CopySource {
    /// Its bytes, as they are put into the window.
    pub fn encode(&self) -> [u8; COPY_BYTES] {
        let mut bytes = [0; COPY_BYTES];
        let mut w = Writer::new(&mut bytes);
        self.handle.encode(&mut w);
        w.u64(self.offset).u64(self.bytes);
        bytes
    }

    /// The source in bytes that were copied from the window; `None` where it changes too much.
    pub fn decode(bytes: &[u8; COPY_BYTES]) -> Option<CopySource> {
        let mut r = Reader::new(bytes);
        let source =
            CopySource { handle: ObjectId::decode(&mut r), offset: r.u64(), bytes: r.u64() };
        (source.bytes <= CHANGED_BYTES_MAX).then_some(source)
    }
}

/// Set's argument; `None` for more bytes than one may change.
pub fn set_argument(value: u8, bytes: u64) -> Option<u64> {
    (1..=CHANGED_BYTES_MAX).contains(&bytes).then_some(bytes << 8 | u64::from(value))
}

/// Value and number of bytes in Set's argument; `None` when it changes nothing or too much.
pub fn set_of(argument: u64) -> Option<(u8, u64)> {
    let bytes = argument >> 8;
    (1..=CHANGED_BYTES_MAX).contains(&bytes).then_some((argument as u8, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_and_copied_comes_back_as_it_was() {
        assert_eq!(set_argument(200, 7).and_then(set_of), Some((200, 7)));
        assert_eq!((set_argument(1, 0), set_of(255)), (None, None));
        assert_eq!(set_argument(1, CHANGED_BYTES_MAX + 1), None);
        let handle = ObjectId { index: 3, generation: 4 };
        let source = CopySource { handle, offset: 1 << 40, bytes: 9 };
        assert_eq!(CopySource::decode(&source.encode()), Some(source));
        let whole = CopySource { bytes: u64::MAX, ..source };
        assert_eq!(CopySource::decode(&whole.encode()), None);
    }
}
