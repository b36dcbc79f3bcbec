//! The bytes of a region on their way to other pieces, a part at a time.

use std::collections::HashMap;
use std::io;

use heliostat_abi::memory::Piece;
use heliostat_abi::name::ObjectId;
use heliostat_server_loop::Area;
use heliostat_service_memory::CopyPlan;

use super::arena::Arena;

/// Bytes copied in one turn of the loop of events, which does nothing else meanwhile.
const PART_BYTES: u64 = 1 << 20;

/// How far a copy is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copied {
    /// There is more to do.
    Some,
    /// Everything is there.
    All,
}

/// A copy that goes on.
pub struct Copying {
    from: Area,
    to: Area,
    from_pieces: Vec<Piece>,
    to_pieces: Vec<Piece>,
    bytes: u64,
    /// Bytes that are there.
    pub done: u64,
}

impl Copying {
    /// Begins one.
    ///
    /// # Errors
    /// An arena cannot be mapped here, or is none.
    pub fn begin(arenas: &mut HashMap<ObjectId, Arena>, plan: &CopyPlan) -> io::Result<Copying> {
        let mut area = |pieces: &[Piece]| {
            let mut list = Vec::with_capacity(pieces.len());
            for piece in pieces {
                let arena = arenas.get_mut(&piece.arena).ok_or(io::ErrorKind::NotFound)?;
                let mapping = arena.mapping().map_err(io::Error::other)?;
                list.push((mapping, piece.offset, piece.bytes));
            }
            Area::new(list, plan.bytes).map_err(io::Error::other)
        };
        let (from, to) = (area(&plan.from)?, area(&plan.to)?);
        let (from_pieces, to_pieces) = (plan.from.clone(), plan.to.clone());
        Ok(Copying { from, to, from_pieces, to_pieces, bytes: plan.bytes, done: 0 })
    }

    /// Copies the next bytes. Those that were never written stay so.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn go_on(&mut self, arenas: &HashMap<ObjectId, Arena>) -> io::Result<Copied> {
        let mut left = PART_BYTES;
        while left > 0 && self.done < self.bytes {
            let (piece, at) = place(&self.from_pieces, self.done)?;
            let end = piece.end().min(at + (self.bytes - self.done));
            let arena = arenas.get(&piece.arena).ok_or(io::ErrorKind::NotFound)?;
            let data = arena.next_data(at, end)?;
            self.done += data - at;
            if data == end {
                continue;
            }
            // No further: whoever reads a hole through a mapping fills it.
            let hole = arena.next_hole(data, end)?;
            let part = self.reserve(arenas, left.min((hole - data).max(1)))?;
            let copied = (self.bytes, self.done);
            let copied = self.from.copy_some(0, (&self.to, 0), copied, part);
            let copied = copied.map_err(io::Error::other)?;
            self.done += copied;
            left = left.saturating_sub(copied);
        }
        Ok(if self.done < self.bytes { Copied::Some } else { Copied::All })
    }

    /// Has pages for the next bytes; for how many.
    fn reserve(&self, arenas: &HashMap<ObjectId, Arena>, most: u64) -> io::Result<u64> {
        let (piece, at) = place(&self.to_pieces, self.done)?;
        let bytes = most.min(piece.end() - at);
        let arena = arenas.get(&piece.arena).ok_or(io::ErrorKind::NotFound)?;
        arena.reserve(at, bytes)?;
        Ok(bytes)
    }
}

/// The piece in which a byte of a region lies, and where in its arena.
fn place(pieces: &[Piece], byte: u64) -> io::Result<(Piece, u64)> {
    let mut start = 0;
    for piece in pieces {
        if byte < start + piece.bytes {
            return Ok((*piece, piece.offset + (byte - start)));
        }
        start += piece.bytes;
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

#[cfg(test)]
mod tests {
    use heliostat_service_grant::Holder;

    use super::*;

    const BYTES: u64 = 4 << 20;

    fn id(index: u32) -> ObjectId {
        ObjectId { index, generation: 1 }
    }

    #[test]
    fn every_byte_comes_to_its_place_and_holes_stay_holes() {
        let mut arenas: HashMap<_, _> = (1..=3)
            .map(|index| (id(index), Arena::create(Holder::user(1), BYTES).unwrap()))
            .collect();
        let piece = |index, offset, bytes| Piece { arena: id(index), offset, bytes };
        let from = vec![piece(1, 64, 64), piece(2, 4096, 3 << 20), piece(1, 8192, 128)];
        let bytes = (3 << 20) + 64 + 100;
        let to = vec![piece(3, 192, (3 << 20) + 192)];
        let plan = CopyPlan { from, to, bytes };
        let mut copying = Copying::begin(&mut arenas, &plan).unwrap();
        let places = [0, 63, 64, 70_000, (3 << 20) + 63, (3 << 20) + 64, bytes - 1];
        for (value, place) in (1..).zip(places) {
            copying.from.write(place, &[value]).unwrap();
        }
        let mut turns = 1;
        while copying.go_on(&arenas).unwrap() == Copied::Some {
            turns += 1;
        }
        assert_eq!(copying.done, bytes);
        // Before it is read: whoever reads a hole through a mapping fills it.
        let blocks = rustix::fs::fstat(&arenas[&id(3)].fd).unwrap().st_blocks * 512;
        assert!((blocks as u64) < BYTES / 2, "{blocks} bytes, where few were written");
        let (mut was, mut is) = (vec![0; bytes as usize], vec![1; bytes as usize]);
        copying.from.read(0, &mut was).unwrap();
        copying.to.read(0, &mut is).unwrap();
        assert!(was == is, "{turns} turns");
    }
}
