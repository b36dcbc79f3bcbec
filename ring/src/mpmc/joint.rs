//! The producing end that threads of several processes have together: records are pushed by combining.
//!
//! Threads of a process queue their records, as in [`super::producer`]; whoever serves them takes the
//! turn among the processes once for the whole batch. Copying is part of the turn, and not left to
//! each thread after it: records are a few cache lines, and so nobody's reservation ever stands in
//! the ring unfilled. A member that dies or stops outside of its turn costs the others nothing.
//!
//! ```text
//! begin    take the turn; head, tail as they stand                                       [turn]
//! push     zero word behind, record, header := ready (release)                        [publish]
//! finish   head := ... (release), give the turn back                                     [turn]
//! ```
//! A member that died in its turn may have committed elements that its head does not count yet. Who
//! takes the turn from it goes on behind them, as behind what the consumer has released of them.

use std::sync::Arc;

use crate::combine::{Combiner, Serve};
use crate::doorbell;
use crate::error::{Corrupt, ReserveError, RingError, Side};
use crate::layout::HEADER_BYTES;
use crate::memory::{Memory, RingMemory, Word};
use crate::position::{self, Geometry, Header, Position, RawHeader, RawPosition};
use crate::spsc::producer::{refresh_tail, zero_behind};
use crate::sync::Ordering;
use crate::turn::{Busy, Members, Taken, Turn};

/// Why a record was not pushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PushError {
    /// The ring says no.
    Ring(ReserveError),
    /// Another process has the turn and does not give it back; it has stopped perhaps.
    Busy,
}

impl std::fmt::Display for PushError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PushError::Ring(error) => error.fmt(f),
            PushError::Busy => write!(f, "another process has the turn and does not give it back"),
        }
    }
}
impl std::error::Error for PushError {}

/// One process's part of the end, to be cloned into as many threads as there are.
pub struct JointProducer<T: Members, M: Memory = RingMemory> {
    shared: Arc<JointInner<T, M>>,
}

struct JointInner<T: Members, M: Memory> {
    line: Combiner<Pusher<T, M>>,
    memory: Arc<M>,
}

/// What is known of the ring in this process's turn; used by one thread at a time.
struct Pusher<T: Members, M: Memory> {
    memory: Arc<M>,
    geometry: Geometry,
    turn: Turn<T>,
    batch: Batch,
    head: Position,
    tail: Position,
}

/// How it stands with the batch that is served.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Batch {
    /// None has begun.
    None,
    /// The turn is ours.
    Begun,
    /// It was not to be had, or the ring is corrupt: the whole batch is told so.
    Refused(PushError),
}

/// A record to be pushed, and what came of it.
struct Request {
    record: *const u8,
    len: usize,
    answer: Result<(), PushError>,
}

// SAFETY: the record is private memory of a thread that waits until the request is served, and is
// only read by whoever serves it.
unsafe impl Send for Request {}

impl<T: Members, M: Memory> Serve for Pusher<T, M> {
    type Request = Request;

    #[inline]
    fn serve(&mut self, request: &mut Request) {
        if self.batch == Batch::None {
            self.batch = self.begin();
        }
        request.answer = match self.batch {
            Batch::Refused(why) => Err(why),
            _ => self.push(request).map_err(PushError::Ring),
        };
    }

    #[inline]
    fn finish(&mut self) {
        if self.batch == Batch::Begun {
            // Whoever has the next turn goes on there, see [turn].
            self.memory.word(Word::Head).store(self.head.value(), Ordering::Release);
            self.turn.give_back();
        }
        self.batch = Batch::None;
    }
}

impl<T: Members, M: Memory> Pusher<T, M> {
    fn begin(&mut self) -> Batch {
        let taken = match self.turn.take() {
            Ok(taken) => taken,
            Err(Busy) => return Batch::Refused(PushError::Busy),
        };
        match self.find_place(taken) {
            Ok(()) => Batch::Begun,
            Err(corrupt) => {
                self.turn.give_back();
                Batch::Refused(PushError::Ring(ReserveError::Corrupt(corrupt)))
            }
        }
    }

    /// Where the next element goes. Both positions are foreign: other processes write them.
    fn find_place(&mut self, taken: Taken) -> Result<(), Corrupt> {
        let memory = &*self.memory;
        // [reclaim]
        let tail = memory.word(Word::Tail).load(Ordering::Acquire);
        self.tail = Position::new(tail & !(HEADER_BYTES - 1));
        let head = RawPosition(memory.word(Word::Head).load(Ordering::Acquire));
        if taken == Taken::Free {
            self.head = self.geometry.check_head(head, self.tail)?;
            return Ok(());
        }
        let found = self.geometry.check_head(head, self.tail).unwrap_or(self.tail);
        self.head = self.behind_committed(found)?;
        Ok(())
    }

    /// The place behind what a dead member had committed.
    fn behind_committed(&self, start: Position) -> Result<Position, Corrupt> {
        let mut head = start;
        while head.since(self.tail) < self.geometry.capacity() {
            // [publish]
            let word = self.memory.header(self.geometry.index(head)).load(Ordering::Acquire);
            match self.geometry.check_header(RawHeader(word), head)? {
                Header::Pending => break,
                Header::Ready(len) | Header::Skipped(len) => {
                    head = head.after(position::span_of(len));
                }
            }
        }
        self.geometry.check_head(RawPosition(head.value()), self.tail)
    }

    #[inline]
    fn push(&mut self, request: &Request) -> Result<(), ReserveError> {
        let geometry = self.geometry;
        let span = geometry.span(request.len)?;
        if !geometry.fits(self.head, self.tail, span) {
            refresh_tail(&*self.memory, self.head, &mut self.tail)?;
            if !geometry.fits(self.head, self.tail, span) {
                return Err(ReserveError::Full);
            }
        }
        let (at, next) = (self.head, self.head.after(span));
        let index = geometry.index(at);
        zero_behind(&*self.memory, next);
        // SAFETY: the thread whose record it is waits for the answer with the bytes borrowed.
        let record = unsafe { std::slice::from_raw_parts(request.record, request.len) };
        self.memory.fill(index + HEADER_BYTES as usize, record);
        // [publish]
        self.memory.header(index).store(position::ready(at, request.len), Ordering::Release);
        self.head = next;
        Ok(())
    }
}

impl<T: Members, M: Memory> Clone for JointProducer<T, M> {
    fn clone(&self) -> Self {
        JointProducer { shared: self.shared.clone() }
    }
}

impl<T: Members, M: Memory> JointProducer<T, M> {
    /// This process's part, by its turn among the members.
    ///
    /// # Errors
    /// The process has the end already.
    pub fn new(memory: Arc<M>, turn: Turn<T>) -> Result<Self, RingError> {
        if !memory.claim(Side::Producer) {
            return Err(RingError::Claimed(Side::Producer));
        }
        let (geometry, batch) = (memory.geometry(), Batch::None);
        let (head, tail) = Default::default();
        let line =
            Combiner::new(Pusher { memory: memory.clone(), geometry, turn, batch, head, tail });
        Ok(JointProducer { shared: Arc::new(JointInner { line, memory }) })
    }

    /// Pushes a record, without ringing.
    ///
    /// # Errors
    /// There is no room, or another process keeps the turn.
    #[inline]
    pub fn push(&self, record: &[u8]) -> Result<(), PushError> {
        let asked = Request { record: record.as_ptr(), len: record.len(), answer: Ok(()) };
        self.shared.line.run(asked).answer
    }

    /// Rings the consumer's bell if it sleeps: once after some pushes.
    #[inline]
    pub fn ring(&self) {
        doorbell::ring(self.shared.memory.bell(Side::Consumer), None);
    }
}

impl<T: Members, M: Memory> Drop for JointInner<T, M> {
    fn drop(&mut self) {
        self.memory.unclaim(Side::Producer);
    }
}

#[cfg(all(test, loom))]
mod models;
