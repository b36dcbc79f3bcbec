//! Pieces of mappings whose pages the kernel keeps, so that a transfer need not look them up.
//!
//! A window is sparse and may have a gigabyte; pinned whole it would become memory, and 256 of them
//! more than a machine has. So a piece is pinned when as many bytes have gone into it as pay for
//! that, some for each mapping and some more for all. Where no more may be pinned (RLIMIT_MEMLOCK
//! counts for an ordinary user), transfers go as without.

use std::sync::Arc;

use io_uring::{IoUring, Submitter};

use super::{pieces_of, Range};
use heliostat_base::mapping::SharedMapping;

/// Bytes of a piece, and what its start is a multiple of.
const PIECE_BYTES: usize = 2 << 20;
/// Pieces that may be pinned, for all mappings and for each of them.
const PIECES_MAX: u16 = 64;
const PIECES_EACH_MAX: usize = 16;
/// A piece is pinned when so many bytes have gone into it: pinning takes as long as looking up the
/// pages of some 500 transfers of 4 KiB.
const BYTES_BEFORE: usize = 2 * PIECE_BYTES;
/// Mappings whose pieces are counted; with more, those that are new are not.
const COUNTED_MAX: usize = 64;

/// What is known of a piece.
#[derive(Clone, Copy)]
enum Piece {
    /// So many bytes have gone into it.
    Counted(usize),
    /// It is pinned, under this number.
    Pinned(u16),
}

/// A mapping, by its address, and its pieces as far as they were used.
struct Counted {
    mapping: usize,
    pieces: Vec<Piece>,
}

/// What is pinned on one ring.
pub(super) struct Pinned {
    counted: Vec<Counted>,
    /// Which of them was asked about last: it is likely to be the next.
    last: usize,
    /// Keeps mapped what is pinned, so that no other memory comes to lie at its addresses.
    held: Vec<Option<Arc<SharedMapping>>>,
    is_refused: bool,
}

impl Pinned {
    /// Nothing, on a ring that may have a table for it.
    pub(super) fn new(ring: &IoUring) -> Pinned {
        let is_refused = ring.submitter().register_buffers_sparse(u32::from(PIECES_MAX)).is_err();
        let held = (0..PIECES_MAX).map(|_| None).collect();
        Pinned { counted: Vec::new(), last: 0, held, is_refused }
    }

    /// The number under which a range of a mapping is pinned, if it is by now.
    pub(super) fn number(
        &mut self,
        kernel: &Submitter<'_>,
        memory: &Arc<SharedMapping>,
        range: Range,
    ) -> Option<u16> {
        let index = range.offset / PIECE_BYTES;
        let last = range.offset.checked_add(range.len.checked_sub(1)?)?;
        if last / PIECE_BYTES != index {
            return None;
        }
        let piece = self.piece(memory, index)?;
        match *piece {
            Piece::Pinned(number) => return Some(number),
            Piece::Counted(bytes) if bytes < BYTES_BEFORE => {
                *piece = Piece::Counted(bytes.saturating_add(range.len));
                return None;
            }
            Piece::Counted(_) => {}
        }
        let number = self.pin(kernel, memory, index);
        // Where there is no room now, it is counted anew before that is looked for again.
        *self.piece(memory, index)? = number.map_or(Piece::Counted(0), Piece::Pinned);
        number
    }

    /// What is known of a piece; `None` where no more are counted.
    fn piece(&mut self, memory: &Arc<SharedMapping>, index: usize) -> Option<&mut Piece> {
        let mapping = address(memory);
        if self.counted.get(self.last).is_none_or(|last| last.mapping != mapping) {
            let place = self.counted.iter().position(|counted| counted.mapping == mapping);
            if place.is_none() {
                if self.is_refused || self.counted.len() >= COUNTED_MAX {
                    return None;
                }
                self.counted.push(Counted { mapping, pieces: Vec::new() });
            }
            self.last = place.unwrap_or(self.counted.len() - 1);
        }
        let pieces = &mut self.counted.get_mut(self.last)?.pieces;
        if pieces.len() <= index {
            pieces.resize(index + 1, Piece::Counted(0));
        }
        pieces.get_mut(index)
    }

    fn pin(
        &mut self,
        kernel: &Submitter<'_>,
        memory: &Arc<SharedMapping>,
        index: usize,
    ) -> Option<u16> {
        let its = self.held.iter().flatten().filter(|held| Arc::ptr_eq(held, memory)).count();
        if self.is_refused || its >= PIECES_EACH_MAX {
            return None;
        }
        let number = self.held.iter().position(Option::is_none)?;
        let offset = index * PIECE_BYTES;
        let len = PIECE_BYTES.min(memory.len().checked_sub(offset)?);
        let place = pieces_of(memory, &[Range { offset, len }], SharedMapping::writable_at).ok()?;
        // SAFETY: the bytes stay mapped until the number is given back: `held` keeps the mapping.
        if unsafe { kernel.register_buffers_update(number as u32, &place, None) }.is_err() {
            self.is_refused = true;
            return None;
        }
        *self.held.get_mut(number)? = Some(memory.clone());
        Some(number as u16)
    }

    /// Gives back what is pinned of a mapping. Transfers under way keep their pages.
    pub(super) fn forget(&mut self, kernel: &Submitter<'_>, memory: &Arc<SharedMapping>) {
        self.counted.retain(|counted| counted.mapping != address(memory));
        let nothing = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }];
        for (number, held) in self.held.iter_mut().enumerate() {
            if !held.as_ref().is_some_and(|held| Arc::ptr_eq(held, memory)) {
                continue;
            }
            // SAFETY: no bytes are named.
            if unsafe { kernel.register_buffers_update(number as u32, &nothing, None) }.is_ok() {
                *held = None;
                self.is_refused = false;
            }
        }
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.held.iter().flatten().count()
    }
}

fn address(memory: &Arc<SharedMapping>) -> usize {
    Arc::as_ptr(memory) as usize
}
