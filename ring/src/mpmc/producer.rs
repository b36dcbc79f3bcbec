//! The producing end for many threads: reserve by combining, fill in parallel, commit.

use std::sync::Arc;

use heliostat_base::event::Event;

use crate::combine::{Combiner, Serve};
use crate::doorbell::{self, Patience};
use crate::error::{ReserveError, RingError, Side, WaitError};
use crate::layout::HEADER_BYTES;
use crate::memory::{Memory, RingMemory, Word};
use crate::position::{self, Position};
use crate::probe::Probe;
use crate::spsc::producer::{claim_producer, has_space, refresh_tail, zero_behind};
use crate::sync::Ordering;

/// The producing end of a ring, to be cloned into as many threads as there are.
pub struct Producer<M: Memory = RingMemory> {
    shared: Arc<ProducerInner<M>>,
}

struct ProducerInner<M: Memory> {
    line: Combiner<Reserver<M>>,
    memory: Arc<M>,
    consumer_event: Option<Event>,
}

/// The positions; used by one thread at a time.
struct Reserver<M: Memory> {
    memory: Arc<M>,
    head: Position,
    published: Position,
    tail: Position,
}

enum Request {
    /// Reserve a span; answered by its position.
    Reserve { span: u64, answer: Result<Position, ReserveError> },
    /// Whether an element of that length fits, or never will.
    Look { len: usize, over: bool },
}

impl<M: Memory> Serve for Reserver<M> {
    type Request = Request;

    #[inline]
    fn serve(&mut self, request: &mut Request) {
        match request {
            Request::Reserve { span, answer } => *answer = self.reserve(*span),
            Request::Look { len, over } => {
                *over = has_space(&*self.memory, self.head, &mut self.tail, *len);
            }
        }
    }

    #[inline]
    fn finish(&mut self) {
        if self.head != self.published {
            // Once per batch; only for those who come later and for observers.
            self.memory.word(Word::Head).store(self.head.value(), Ordering::Release);
            self.published = self.head;
        }
    }
}

impl<M: Memory> Reserver<M> {
    #[inline]
    fn reserve(&mut self, span: u64) -> Result<Position, ReserveError> {
        let geometry = self.memory.geometry();
        if !geometry.fits(self.head, self.tail, span) {
            refresh_tail(&*self.memory, self.head, &mut self.tail)?;
            if !geometry.fits(self.head, self.tail, span) {
                return Err(ReserveError::Full);
            }
        }
        let at = self.head;
        self.head = at.after(span);
        // Whoever fills this element has this store from us, with its answer.
        zero_behind(&*self.memory, self.head);
        Ok(at)
    }
}

impl<M: Memory> Clone for Producer<M> {
    fn clone(&self) -> Producer<M> {
        Producer { shared: self.shared.clone() }
    }
}

impl<M: Memory> Producer<M> {
    /// Claims the producing end for this process.
    pub fn new(memory: Arc<M>) -> Result<Producer<M>, RingError> {
        Producer::build(memory, None)
    }

    /// As [`Producer::new`]; rings `event` for a consumer that sleeps in poll.
    pub fn with_consumer_event(memory: Arc<M>, event: Event) -> Result<Producer<M>, RingError> {
        Producer::build(memory, Some(event))
    }

    fn build(memory: Arc<M>, consumer_event: Option<Event>) -> Result<Producer<M>, RingError> {
        let (head, tail) = claim_producer(&*memory)?;
        let line = Combiner::new(Reserver { memory: memory.clone(), head, published: head, tail });
        Ok(Producer { shared: Arc::new(ProducerInner { line, memory, consumer_event }) })
    }

    /// Reserves an element of `len` payload bytes. Elements are taken in the order of their
    /// reservations, whichever is committed first.
    #[inline]
    pub fn reserve(&self, len: usize) -> Result<Slot<'_, M>, ReserveError> {
        let geometry = self.shared.memory.geometry();
        let span = geometry.span(len)?;
        let asked = Request::Reserve { span, answer: Err(ReserveError::Full) };
        match self.shared.line.run(asked) {
            Request::Reserve { answer, .. } => {
                Ok(Slot { shared: &self.shared, at: answer?, len, committed: false })
            }
            Request::Look { .. } => Err(ReserveError::Full),
        }
    }

    /// Reserves, copies and commits in one step, and rings the bell.
    #[inline]
    pub fn push(&self, bytes: &[u8]) -> Result<(), ReserveError> {
        let mut slot = self.reserve(bytes.len())?;
        slot.copy_in(0, bytes);
        slot.commit();
        Ok(())
    }

    /// Waits until an element of `len` bytes fits; another thread may then be faster. A corrupt
    /// ring ends the wait as well.
    pub fn wait_space(
        &self,
        len: usize,
        patience: &Patience,
        probe: &dyn Probe,
    ) -> Result<(), WaitError> {
        let shared = &*self.shared;
        doorbell::wait(shared.memory.bell(Side::Producer), patience, probe, || {
            let asked = Request::Look { len, over: false };
            matches!(shared.line.run(asked), Request::Look { over: true, .. })
        })
    }
}

impl<M: Memory> Drop for ProducerInner<M> {
    fn drop(&mut self) {
        self.memory.unclaim(Side::Producer);
    }
}

/// A reserved element. Dropping it uncommitted gives it up: the consumer passes over it.
pub struct Slot<'p, M: Memory = RingMemory> {
    shared: &'p ProducerInner<M>,
    at: Position,
    len: usize,
    committed: bool,
}

impl<M: Memory> Slot<'_, M> {
    /// Payload bytes reserved.
    #[allow(clippy::len_without_is_empty)] // an element of no bytes is still an element
    pub fn len(&self) -> usize {
        self.len
    }

    /// Copies bytes to `at` of the payload. Panics if they do not lie inside the reservation.
    #[inline]
    pub fn copy_in(&mut self, at: usize, bytes: &[u8]) {
        assert!(at <= self.len && bytes.len() <= self.len - at, "beyond the reservation");
        self.shared.memory.fill(self.start() + at, bytes);
    }

    /// Address of the payload, for engines and system calls; valid for `len()` bytes until commit.
    pub fn as_ptr(&self) -> *mut u8 {
        self.shared.memory.data().wrapping_add(self.start())
    }

    /// Publishes the element and rings the bell of a sleeping consumer.
    #[inline]
    pub fn commit(mut self) {
        self.committed = true;
        self.publish(position::ready(self.at, self.len));
    }

    #[inline]
    fn start(&self) -> usize {
        self.shared.memory.geometry().index(self.at) + HEADER_BYTES as usize
    }

    #[inline]
    fn publish(&self, header: u64) {
        let memory = &*self.shared.memory;
        // [publish]
        memory.header(memory.geometry().index(self.at)).store(header, Ordering::Release);
        doorbell::ring(memory.bell(Side::Consumer), self.shared.consumer_event.as_ref());
    }
}

impl<M: Memory> Drop for Slot<'_, M> {
    #[inline]
    fn drop(&mut self) {
        if !self.committed {
            self.publish(position::skipped(self.at, self.len));
        }
    }
}
