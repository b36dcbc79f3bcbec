//! Transfers that somebody waits for: one piece or many, in chunks that are under way at once.

use std::ops::Range;

use heliostat_abi::file::delegated::{Completion, OpKind, Operation};
use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::SharedMapping;
use heliostat_stub_link::LinkError;

use super::window::{chunk_bytes, is_far, operation, put, result_of, slot, take, SLOTS};
use super::{Delegated, Failure};

/// What a transfer moves: pieces, each with its place in the region.
pub(crate) enum Bytes<'a, 'b> {
    /// From the region into these.
    Into(&'a mut [(u64, &'b mut [u8])]),
    /// From these into the region.
    From(&'a [(u64, &'b [u8])]),
}

/// By which handles a transfer goes.
#[derive(Clone, Copy)]
pub(crate) enum Handles<'a> {
    /// All of its pieces by this one.
    One(ObjectId),
    /// Each piece by its own.
    Each(&'a [ObjectId]),
}

/// Why a transfer failed, and in which of its pieces.
pub(crate) type Failed = (Failure, usize);

/// Bytes of a piece that go by one operation.
#[derive(Clone)]
struct Chunk {
    piece: usize,
    place: Range<usize>,
}

impl Delegated {
    /// Moves many chunks. After the first error no more are begun, and those under way are waited for:
    /// their slots are the loop's until then.
    pub(super) fn stream(
        &mut self,
        handles: Handles<'_>,
        bytes: &mut Bytes<'_, '_>,
    ) -> Result<(), Failed> {
        let mut slots: [Option<Chunk>; SLOTS] = Default::default();
        let (mut next, mut under_way, mut failed) = (bytes.chunk_at((0, 0), handles), 0, None);
        loop {
            for (number, place) in slots.iter_mut().enumerate().filter(|(_, it)| it.is_none()) {
                let Some(chunk) = next.clone().filter(|_| failed.is_none()) else { break };
                let begun = self.begin_chunk(handles.of(chunk.piece), bytes, number, &chunk);
                begun.map_err(|failure| (failure, chunk.piece))?;
                next = bytes.chunk_at((chunk.piece, chunk.place.end), handles);
                under_way += 1;
                *place = Some(chunk);
            }
            if under_way == 0 {
                return failed.map_or(Ok(()), Err);
            }
            self.server.ring();
            let Completion { tag, result, .. } = self.wait(under_way).map_err(|it| (it, 0))?;
            let ended = slots.get_mut(tag as usize).and_then(Option::take);
            let chunk = ended.ok_or((Failure::Link(LinkError::Corrupt), 0))?;
            under_way -= 1;
            let taken = bytes.end(&self.window, tag as usize, &chunk, result);
            match taken.map_err(|failure| (failure, chunk.piece)) {
                Ok(()) => {}
                Err(error @ (Failure::Errno(_), _)) => failed = failed.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
    }

    fn begin_chunk(
        &mut self,
        handle: ObjectId,
        bytes: &Bytes<'_, '_>,
        number: usize,
        chunk: &Chunk,
    ) -> Result<(), Failure> {
        bytes.put(&self.window, number, chunk)?;
        let pieces = [slot(number, chunk.place.len())];
        let at = bytes.piece(chunk.piece).0.saturating_add(chunk.place.start as u64);
        let asked = operation(bytes.kind(), handle, at, 0, &pieces);
        self.push(&Operation { tag: number as u64, ..asked })
    }

    /// Moves one piece that is one chunk, by the shortest way.
    pub(super) fn move_short(
        &mut self,
        handle: ObjectId,
        bytes: &mut Bytes<'_, '_>,
    ) -> Result<(), Failure> {
        let (offset, len) = bytes.piece(0);
        let all = Chunk { piece: 0, place: 0..len };
        bytes.put(&self.window, 0, &all)?;
        // What another node has to answer is never there at once.
        let is_at_once = matches!(bytes, Bytes::Into(_)) && !is_far(handle);
        let called = if is_at_once { self.call_read(handle, offset, len)? } else { None };
        let done = match called {
            Some(done) => done,
            None => self.perform(&operation(bytes.kind(), handle, offset, 0, &[slot(0, len)]))?,
        };
        bytes.end(&self.window, 0, &all, done as i64)
    }
}

impl Handles<'_> {
    /// Returns the handle of a piece.
    pub(super) fn of(self, piece: usize) -> ObjectId {
        match self {
            Self::One(handle) => handle,
            Self::Each(all) => all.get(piece).copied().unwrap_or_default(),
        }
    }
}

impl Bytes<'_, '_> {
    /// Returns how many pieces there are.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Into(pieces) => pieces.len(),
            Self::From(pieces) => pieces.len(),
        }
    }

    /// Returns the place of a piece in the region, and its length; none behind the last.
    pub(crate) fn piece(&self, number: usize) -> (u64, usize) {
        match self {
            Self::Into(pieces) => pieces.get(number).map(|(at, bytes)| (*at, bytes.len())),
            Self::From(pieces) => pieces.get(number).map(|(at, bytes)| (*at, bytes.len())),
        }
        .unwrap_or_default()
    }

    /// Whether it is one chunk.
    pub(super) fn is_short(&self, handle: ObjectId) -> bool {
        self.count() == 1 && self.piece(0).1 <= chunk_bytes(handle)
    }

    fn kind(&self) -> OpKind {
        match self {
            Self::Into(_) => OpKind::Read,
            Self::From(_) => OpKind::Write,
        }
    }

    /// The chunk at a place of a piece, or the first one behind it.
    fn chunk_at(
        &self,
        (mut piece, mut start): (usize, usize),
        handles: Handles<'_>,
    ) -> Option<Chunk> {
        while piece < self.count() {
            let len = self.piece(piece).1;
            if start < len {
                let most = chunk_bytes(handles.of(piece));
                return Some(Chunk { piece, place: start..len.min(start + most) });
            }
            (piece, start) = (piece + 1, 0);
        }
        None
    }

    /// Before a chunk is under way.
    fn put(&self, window: &SharedMapping, number: usize, chunk: &Chunk) -> Result<(), Failure> {
        match self {
            Self::From(pieces) => put(window, number, &pieces[chunk.piece].1[chunk.place.clone()]),
            Self::Into(_) => Ok(()),
        }
    }

    /// After it has ended with a result.
    fn end(
        &mut self,
        window: &SharedMapping,
        number: usize,
        chunk: &Chunk,
        result: i64,
    ) -> Result<(), Failure> {
        if result_of(result)? != chunk.place.len() as u64 {
            return Err(Failure::Link(LinkError::Corrupt));
        }
        match self {
            Self::Into(pieces) => {
                take(window, number, &mut pieces[chunk.piece].1[chunk.place.clone()])
            }
            Self::From(_) => Ok(()),
        }
    }
}
