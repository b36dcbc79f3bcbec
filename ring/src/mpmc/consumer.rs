//! The consuming end for many threads: take by combining, read in parallel, release in any order.

use std::sync::Arc;

use heliostat_base::event::Event;

use super::holds::{Held, Hold, Holds, HOLDS_MAX};
use crate::combine::{Combiner, Serve};
use crate::doorbell::{self, Patience};
use crate::error::{RingError, Side, TakeError, WaitError};
use crate::layout::HEADER_BYTES;
use crate::memory::{Memory, RingMemory, Word};
use crate::position::{self, Position};
use crate::probe::Probe;
use crate::spsc::consumer::{claim_consumer, look};
use crate::sync::Ordering;

/// The consuming end of a ring, to be cloned into as many threads as there are.
pub struct Consumer<M: Memory = RingMemory> {
    shared: Arc<ConsumerInner<M>>,
}

struct ConsumerInner<M: Memory> {
    line: Combiner<Taker<M>>,
    memory: Arc<M>,
    holds: Arc<Holds>,
}

/// The positions; used by one thread at a time.
struct Taker<M: Memory> {
    memory: Arc<M>,
    holds: Arc<Holds>,
    producer_event: Option<Event>,
    held: Held,
    /// Behind the last element taken.
    next: Position,
    /// Everything before it is released.
    tail: Position,
    /// What of that the producer knows.
    published: Position,
    /// Somebody found the ring empty: publish all that is released, however little.
    drained: bool,
}

/// A taken element: where it is and how it is given back. Not `Clone`: each is released once.
#[derive(Debug)]
pub(crate) struct Token {
    at: Position,
    len: usize,
    hold: Hold,
}

enum Request {
    Take(Result<Token, TakeError>),
    /// Whether there is an element, or the ring is corrupt.
    Look(bool),
    /// Publish what is released.
    Reclaim,
}

impl<M: Memory> Serve for Taker<M> {
    type Request = Request;

    #[inline]
    fn serve(&mut self, request: &mut Request) {
        match request {
            Request::Take(answer) => *answer = self.take(),
            Request::Look(over) => {
                *over = !matches!(look(&*self.memory, &mut self.next), Ok(None));
                self.drained |= !*over;
            }
            Request::Reclaim => self.drained = true,
        }
    }

    #[inline]
    fn finish(&mut self) {
        let waiting = self.next.since(self.published);
        if waiting >= self.memory.geometry().publish_bytes() || (self.drained && waiting > 0) {
            self.reclaim();
        }
        self.drained = false;
    }
}

impl<M: Memory> Taker<M> {
    #[inline]
    fn take(&mut self) -> Result<Token, TakeError> {
        if self.held.is_full() {
            self.reclaim();
            if self.held.is_full() {
                return Err(TakeError::Held { limit: HOLDS_MAX });
            }
        }
        match look(&*self.memory, &mut self.next)? {
            Some(len) => {
                let (at, hold) = (self.next, self.held.begin());
                self.next = at.after(position::span_of(len));
                Ok(Token { at, len, hold })
            }
            None => {
                self.drained = true;
                Err(TakeError::Empty)
            }
        }
    }

    fn reclaim(&mut self) {
        let insist = self.next.since(self.published) >= self.memory.geometry().publish_bytes();
        if let Some(end) = self.held.reclaim(&self.holds, insist) {
            self.tail = end;
        }
        if self.held.is_empty() {
            // Elements that were given up lie behind the last hold and belong to nobody.
            self.tail = self.next;
        }
        if self.tail != self.published {
            // [reclaim] All reads of the released bytes come before, see [hold].
            self.memory.word(Word::Tail).store(self.tail.value(), Ordering::Release);
            self.published = self.tail;
            doorbell::ring(self.memory.bell(Side::Producer), self.producer_event.as_ref());
        }
    }
}

impl<M: Memory> Clone for Consumer<M> {
    fn clone(&self) -> Consumer<M> {
        Consumer { shared: self.shared.clone() }
    }
}

impl<M: Memory> Consumer<M> {
    /// Claims the consuming end for this process.
    pub fn new(memory: Arc<M>) -> Result<Consumer<M>, RingError> {
        Consumer::build(memory, None)
    }

    /// As [`Consumer::new`]; rings `event` for a producer that sleeps in poll.
    pub fn with_producer_event(memory: Arc<M>, event: Event) -> Result<Consumer<M>, RingError> {
        Consumer::build(memory, Some(event))
    }

    fn build(memory: Arc<M>, producer_event: Option<Event>) -> Result<Consumer<M>, RingError> {
        let tail = claim_consumer(&*memory)?;
        let holds = Arc::new(Holds::new());
        let taker = Taker {
            memory: memory.clone(),
            holds: holds.clone(),
            producer_event,
            held: Held::default(),
            next: tail,
            tail,
            published: tail,
            drained: false,
        };
        let line = Combiner::new(taker);
        Ok(Consumer { shared: Arc::new(ConsumerInner { line, memory, holds }) })
    }

    /// Takes the oldest element. Dropping it releases it.
    #[inline]
    pub fn take(&self) -> Result<Element<'_, M>, TakeError> {
        let token = self.take_token()?;
        Ok(Element { consumer: self, token: Some(token) })
    }

    /// Takes the oldest element, copies it to the start of `into`, releases it, and says how long
    /// it was. An element longer than `into` is cut.
    #[inline]
    pub fn pop(&self, into: &mut [u8]) -> Result<usize, TakeError> {
        let element = self.take()?;
        let len = element.len();
        let kept = len.min(into.len());
        element.copy_out(0, &mut into[..kept]);
        Ok(len)
    }

    /// Waits until there is an element; another thread may then be faster. A corrupt ring ends
    /// the wait as well.
    pub fn wait(&self, patience: &Patience, probe: &dyn Probe) -> Result<(), WaitError> {
        let shared = &*self.shared;
        doorbell::wait(shared.memory.bell(Side::Consumer), patience, probe, || {
            matches!(shared.line.run(Request::Look(false)), Request::Look(true))
        })
    }

    #[inline]
    fn take_token(&self) -> Result<Token, TakeError> {
        match self.shared.line.run(Request::Take(Err(TakeError::Empty))) {
            Request::Take(answer) => answer,
            Request::Look(_) | Request::Reclaim => Err(TakeError::Empty),
        }
    }

    pub(crate) fn read(&self, token: &Token, at: usize, into: &mut [u8]) {
        assert!(at <= token.len && into.len() <= token.len - at, "beyond the element");
        let start = self.shared.memory.geometry().index(token.at) + HEADER_BYTES as usize;
        self.shared.memory.read(start + at, into);
    }

    #[inline]
    pub(crate) fn release(&self, token: Token) {
        let end = token.at.after(position::span_of(token.len));
        let awaited = self.shared.holds.release(token.hold, end);
        // Nobody may take again for a long time, so who releases much sees to the reclaiming. The
        // word is our own; a producer that scribbles on it makes us reclaim too often or leaves
        // itself without space.
        let published = self.shared.memory.word(Word::Tail).load(Ordering::Relaxed);
        let waiting = end.since(Position::new(published));
        if awaited || waiting >= self.shared.memory.geometry().publish_bytes() {
            self.shared.line.run(Request::Reclaim);
        }
    }
}

impl<M: Memory> Drop for ConsumerInner<M> {
    fn drop(&mut self) {
        self.line.run(Request::Reclaim);
        self.memory.unclaim(Side::Consumer);
    }
}

/// A taken element: its memory stays the consumer's until this value is dropped.
pub struct Element<'c, M: Memory = RingMemory> {
    consumer: &'c Consumer<M>,
    token: Option<Token>,
}

impl<M: Memory> Element<'_, M> {
    /// Payload bytes.
    #[allow(clippy::len_without_is_empty)] // an element of no bytes is still an element
    pub fn len(&self) -> usize {
        self.token.as_ref().map_or(0, |token| token.len)
    }

    /// Copies payload bytes from `at`. Panics if they do not lie inside the element.
    #[inline]
    pub fn copy_out(&self, at: usize, into: &mut [u8]) {
        if let Some(token) = &self.token {
            self.consumer.read(token, at, into);
        }
    }

    /// Releases the element now.
    pub fn release(self) {}

    /// Keeps the element taken beyond this value's life; see [`crate::parking`].
    pub(crate) fn into_token(mut self) -> Option<Token> {
        self.token.take()
    }
}

impl Token {
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl<M: Memory> Drop for Element<'_, M> {
    #[inline]
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            self.consumer.release(token);
        }
    }
}
