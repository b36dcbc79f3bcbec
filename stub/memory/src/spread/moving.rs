//! Reads and writes that meet several parts: those on other nodes are on their way at once.

use heliostat_abi::memory::peer::CHUNK_BYTES_MAX;
use heliostat_abi::memory::Rights;
use heliostat_abi::name::ObjectId;

use super::{Part, SpreadError, SpreadRegion};
use crate::delegated::{Bytes, Handles};
use crate::region::HOPS_MAX;
use crate::{MemoryError, Region};

/// What parts take turns with: as much as one message carries.
const TURN_BYTES: usize = CHUNK_BYTES_MAX as usize;

/// Memory of the program that goes to or comes from one place of one part.
struct Piece<'a, M> {
    part: &'a Part,
    region: &'a Region,
    at: u64,
    memory: M,
}

/// Memory that can be cut in two.
trait Cut: Sized {
    fn len(&self) -> usize;
    fn cut(self, at: usize) -> (Self, Self);
}

impl Cut for &[u8] {
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    fn cut(self, at: usize) -> (Self, Self) {
        self.split_at(at)
    }
}

impl Cut for &mut [u8] {
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    fn cut(self, at: usize) -> (Self, Self) {
        self.split_at_mut(at)
    }
}

impl SpreadRegion {
    /// Reads pieces, each from its offset on; all of each.
    ///
    /// # Errors
    /// As `read`, about the first that is wrong. Others may have been read.
    pub fn read_vectored(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<(), SpreadError> {
        self.wherever(|| self.read_once(pieces))
    }

    fn read_once(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<(), SpreadError> {
        let pieces = pieces.iter_mut().map(|(offset, into)| (*offset, &mut **into));
        let (near, far) = self.by_part(pieces)?;
        for it in near {
            it.region.read(it.at, it.memory).map_err(|why| it.part.error(why))?;
        }
        let (places, memory) = in_turns(far);
        let mut memory: Vec<_> = places.iter().map(|it| it.at).zip(memory).collect();
        self.move_far(Rights::READ, &places, Bytes::Into(&mut memory))
    }

    /// Writes pieces, each from its offset on, in any order.
    ///
    /// # Errors
    /// As `write`, about the first that is wrong. Others may have been written.
    pub fn write_vectored(&self, pieces: &[(u64, &[u8])]) -> Result<(), SpreadError> {
        self.wherever(|| self.write_once(pieces))
    }

    fn write_once(&self, pieces: &[(u64, &[u8])]) -> Result<(), SpreadError> {
        let (near, far) = self.by_part(pieces.iter().copied())?;
        for it in near {
            it.region.write(it.at, it.memory).map_err(|why| it.part.error(why))?;
        }
        let (places, memory) = in_turns(far);
        let memory: Vec<_> = places.iter().map(|it| it.at).zip(memory).collect();
        self.move_far(Rights::WRITE, &places, Bytes::From(&memory))
    }

    /// Moves bytes, and again where a part has moved to another node meanwhile.
    fn wherever(
        &self,
        mut act: impl FnMut() -> Result<(), SpreadError>,
    ) -> Result<(), SpreadError> {
        for _ in 0..HOPS_MAX {
            match act() {
                Err(SpreadError::Part { from, why: MemoryError::Stale { .. }, .. })
                    if self.is_elsewhere(from) => {}
                other => return other,
            }
        }
        act()
    }

    /// Whether the part whose bytes begin there is found, perhaps on another node than before.
    fn is_elsewhere(&self, from: u64) -> bool {
        let part = self.parts.iter().find(|part| part.bytes.start == from);
        let region = part.and_then(|part| part.found.as_ref().ok());
        // A question about it follows it, as any operation on one region does.
        region.is_some_and(|region| region.size().is_ok())
    }

    /// The pieces by their parts: those that this process reaches by itself, and the others by part.
    #[allow(clippy::type_complexity)] // two lists of one kind, taken apart at once
    fn by_part<'a, M: Cut>(
        &'a self,
        pieces: impl Iterator<Item = (u64, M)>,
    ) -> Result<(Vec<Piece<'a, M>>, Vec<Vec<Piece<'a, M>>>), SpreadError> {
        let (mut near, mut far) = (Vec::new(), Vec::new());
        far.resize_with(self.parts.len(), Vec::new);
        for (offset, mut rest) in pieces {
            for it in self.segments(offset, rest.len() as u64)? {
                let (memory, behind) = rest.cut(it.bytes as usize);
                rest = behind;
                let piece = Piece { part: it.part, region: it.region, at: it.at, memory };
                if it.region.is_direct() {
                    near.push(piece);
                    continue;
                }
                let is_its = |part: &Part| std::ptr::eq(part, it.part);
                if let Some(far) = self.parts.iter().position(is_its).and_then(|at| far.get_mut(at))
                {
                    far.push(piece);
                }
            }
        }
        Ok((near, far))
    }

    /// Has the server loop move the pieces.
    fn move_far(
        &self,
        wanted: Rights,
        places: &[Place<'_>],
        mut bytes: Bytes<'_, '_>,
    ) -> Result<(), SpreadError> {
        if places.is_empty() {
            return Ok(());
        }
        let handles: Vec<ObjectId> = places.iter().map(|it| it.region.handle()).collect();
        let mut failed = 0;
        let moved = self.memory.shared.with_loops(|loops| {
            let moved = loops.transfer(Handles::Each(&handles), &mut bytes);
            moved.map_err(|(failure, number)| {
                failed = number;
                failure
            })
        })?;
        moved.map_err(|failure| {
            let (offset, len) = bytes.piece(failed);
            let Some(it) = places.get(failed) else { return MemoryError::Corrupt.into() };
            it.part.error(it.region.explain(failure, wanted, (offset, len as u64)))
        })
    }
}

/// Where a piece goes to or comes from.
struct Place<'a> {
    part: &'a Part,
    region: &'a Region,
    at: u64,
}

/// Cuts pieces and has the parts take turns, so that each node has some on their way.
fn in_turns<M: Cut>(parts: Vec<Vec<Piece<'_, M>>>) -> (Vec<Place<'_>>, Vec<M>) {
    let mut parts: Vec<_> = parts.into_iter().map(|it| it.into_iter().flat_map(cut_up)).collect();
    let (mut places, mut memory) = (Vec::new(), Vec::new());
    let mut is_any = true;
    while is_any {
        is_any = false;
        for it in parts.iter_mut().filter_map(Iterator::next) {
            places.push(Place { part: it.part, region: it.region, at: it.at });
            memory.push(it.memory);
            is_any = true;
        }
    }
    (places, memory)
}

fn cut_up<M: Cut>(piece: Piece<'_, M>) -> impl Iterator<Item = Piece<'_, M>> {
    let Piece { part, region, mut at, memory } = piece;
    let mut rest = Some(memory).filter(|it| it.len() > 0);
    std::iter::from_fn(move || {
        let memory = rest.take()?;
        let bytes = memory.len().min(TURN_BYTES);
        let (memory, behind) = memory.cut(bytes);
        let piece = Piece { part, region, at, memory };
        at += bytes as u64;
        rest = Some(behind).filter(|it| it.len() > 0);
        Some(piece)
    })
}
