//! What a call's line asks: any operation of at most two pieces that answers with a number alone.
//!
//! ```text
//! word 8   object index u32, generation u32
//!      16  offset u64
//!      24  place of the first piece u64
//!      32  its bytes u32, kind u8, pieces u8, 0 u16      kind and pieces 0: a read of one piece
//! more 40  argument u64
//!      48  place of the second piece u64
//!      56  its bytes u32, timeout_us u32
//! ```
//! A read of one piece needs the first four words only ([`super::OneRead`]); all of them are one line.

use super::{Malformed, OpKind, Operation, Piece, Pieces, OPERATION_BYTES_MAX};
use crate::name::ObjectId;

/// The words that every call has.
pub type CallWords = [u64; 4];
/// Those that a call has that is no read of one piece.
pub type MoreWords = [u64; 3];

/// Whether a call is a read of one piece: its other words say nothing then.
pub const fn is_one_read(words: &CallWords) -> bool {
    words[3] >> 32 == 0
}

/// An operation as a call asks it; `None` for those that no call can ask: what Open answers is more
/// than a number, Cancel is about another operation, and there is room for two pieces.
pub fn call_words(operation: &Operation) -> Option<(CallWords, MoreWords)> {
    let Operation { kind, object, offset, timeout_us, argument, pieces, .. } = operation;
    let pieces = pieces.as_slice();
    if !may_be_called(*kind) || pieces.len() > 2 {
        return None;
    }
    let piece = |at: usize| pieces.get(at).copied().unwrap_or_default();
    let (first, second) = (piece(0), piece(1));
    let named = u64::from(object.generation) << 32 | u64::from(object.index);
    let shape = (pieces.len() as u64) << 40 | (*kind as u64) << 32;
    let words = [named, *offset, first.offset, shape | u64::from(first.bytes)];
    let last = u64::from(*timeout_us) << 32 | u64::from(second.bytes);
    Some((words, [*argument, second.offset, last]))
}

/// The operation in words that were copied from a line, for a window of `window_bytes`; its tag is 0.
///
/// # Errors
/// It is none, or one that no call can ask.
pub fn called(
    words: &CallWords,
    more: &MoreWords,
    window_bytes: u64,
) -> Result<Operation, Malformed> {
    let [named, offset, place, shape] = *words;
    let [argument, second_place, last] = *more;
    let [.., kind, count, low, high] = shape.to_le_bytes();
    let fail = |reason| Malformed { tag: None, reason };
    let kind = OpKind::from_number(kind).filter(|kind| may_be_called(*kind));
    let kind = kind.ok_or(fail(super::Reason::Kind))?;
    if low != 0 || high != 0 {
        return Err(fail(super::Reason::Reserved));
    }
    let list = [
        Piece { offset: place, bytes: shape as u32 },
        Piece { offset: second_place, bytes: last as u32 },
    ];
    let asked = list.get(..usize::from(count)).and_then(Pieces::new);
    let pieces = asked.ok_or(fail(super::Reason::Pieces))?;
    let object = ObjectId { index: named as u32, generation: (named >> 32) as u32 };
    let timeout_us = (last >> 32) as u32;
    let asked = Operation { kind, object, offset, tag: 0, timeout_us, argument, pieces };
    // What is checked of a record is checked of a call, by the same code.
    let mut record = [0; OPERATION_BYTES_MAX];
    let length = asked.encode(&mut record);
    Operation::decode(record.get(..length).unwrap_or(&[]), window_bytes)
}

const fn may_be_called(kind: OpKind) -> bool {
    !matches!(kind, OpKind::Open | OpKind::Cancel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::delegated::Reason;

    const WINDOW: u64 = 1 << 20;

    fn operation(kind: OpKind, pieces: &[(u64, u32)], argument: u64) -> Operation {
        let pieces: Vec<_> =
            pieces.iter().map(|(offset, bytes)| Piece { offset: *offset, bytes: *bytes }).collect();
        let object = ObjectId { index: 3, generation: 9 };
        let pieces = Pieces::new(&pieces).unwrap();
        Operation { kind, object, offset: 77, tag: 0, timeout_us: 0, argument, pieces }
    }

    #[test]
    fn every_operation_that_fits_the_line_comes_back_as_it_was() {
        let asked = [
            operation(OpKind::Write, &[(0, 10), (100, 20)], 0),
            operation(OpKind::Stat, &[(4096, 64)], 0),
            operation(OpKind::Truncate, &[], 1 << 40),
            operation(OpKind::Rename, &[(0, 10), (100, 20)], 1),
            Operation { timeout_us: u32::MAX, ..operation(OpKind::Stat, &[(0, 64)], 0) },
        ];
        for operation in asked {
            let (words, more) = call_words(&operation).unwrap();
            assert!(!is_one_read(&words));
            assert_eq!(called(&words, &more, WINDOW), Ok(operation));
        }
    }

    #[test]
    fn what_does_not_fit_is_not_asked_and_nonsense_is_none() {
        let many = operation(OpKind::Read, &[(0, 1), (1, 1), (2, 1)], 0);
        let named = operation(OpKind::Open, &[(0, 9)], 1);
        for operation in [many, named] {
            assert_eq!(call_words(&operation), None);
        }
        let (words, more) =
            call_words(&operation(OpKind::Write, &[(0, 10), (100, 20)], 0)).unwrap();
        let reason = |words, more| called(&words, &more, WINDOW).map_err(|it| it.reason).err();
        let with = |shape| [words[0], words[1], words[2], shape];
        assert_eq!(reason(with(words[3] | 1 << 48), more), Some(Reason::Reserved));
        assert_eq!(reason(with(2 << 40 | 200 << 32 | 10), more), Some(Reason::Kind));
        assert_eq!(reason(with(2 << 40 | 5 << 32 | 10), more), Some(Reason::Kind));
        assert_eq!(reason(with(3 << 40 | 2 << 32 | 10), more), Some(Reason::Pieces));
        assert_eq!(reason(words, [0, WINDOW, 20]), Some(Reason::Window));
        assert_eq!(reason(words, [9, 100, 20]), Some(Reason::Argument));
    }
}
