//! Letting elements stay with a slow consumer without blocking the ring (reaping).
//!
//! A dispatcher takes elements and hands them to threads that read them later. Elements are
//! reclaimed in order, so one slow thread would hold up everybody. A parked element stays in the
//! ring as long as there is room; [`Parking::reap`] moves the oldest ones out into private memory,
//! and their owners read them from there without noticing.
//!
//! ```text
//! take -> Element -> park -> Parked (in the ring) -> read, drop
//!                              | reap
//!                              v
//!                            Parked (moved out)   -> read, drop
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::memory::{Memory, RingMemory};
use crate::mpmc::{Consumer, Element, Token};

/// The parked elements of one consuming end, oldest first.
pub struct Parking<M: Memory = RingMemory> {
    consumer: Consumer<M>,
    parked: Mutex<VecDeque<Weak<Spot<M>>>>,
}

/// An element whose reader comes later. Dropping it releases the element.
pub struct Parked<M: Memory = RingMemory> {
    spot: Arc<Spot<M>>,
}

struct Spot<M: Memory> {
    consumer: Consumer<M>,
    place: Mutex<Place>,
}

enum Place {
    InRing(Token),
    MovedOut(Box<[u8]>),
    Gone,
}

impl<M: Memory> Parking<M> {
    /// A parking for elements of `consumer`.
    pub fn new(consumer: Consumer<M>) -> Parking<M> {
        Parking { consumer, parked: Mutex::new(VecDeque::new()) }
    }

    /// Parks an element that was taken from this parking's consumer.
    pub fn park(&self, element: Element<'_, M>) -> Parked<M> {
        let place = element.into_token().map_or(Place::Gone, Place::InRing);
        let consumer = self.consumer.clone();
        let spot = Arc::new(Spot { consumer, place: Mutex::new(place) });
        let mut parked = open(&self.parked);
        // Entries of elements that were dropped meanwhile go first, so that the list stays as
        // short as the holds of the ring allow.
        while parked.front().is_some_and(|spot| spot.strong_count() == 0) {
            parked.pop_front();
        }
        parked.push_back(Arc::downgrade(&spot));
        Parked { spot }
    }

    /// Moves the oldest parked elements out of the ring until `bytes` payload bytes have moved;
    /// says how many did. Elements that somebody has taken and not parked are never touched.
    pub fn reap(&self, bytes: usize) -> usize {
        let mut moved = 0;
        while moved < bytes {
            let Some(oldest) = open(&self.parked).pop_front() else { break };
            moved += oldest.upgrade().map_or(0, |spot| spot.move_out());
        }
        moved
    }
}

impl<M: Memory> Spot<M> {
    fn move_out(&self) -> usize {
        let mut place = open(&self.place);
        let Place::InRing(token) = &*place else { return 0 };
        let mut bytes = vec![0; token.len()].into_boxed_slice();
        self.consumer.read(token, 0, &mut bytes);
        let len = bytes.len();
        let before = std::mem::replace(&mut *place, Place::MovedOut(bytes));
        if let Place::InRing(token) = before {
            self.consumer.release(token);
        }
        len
    }
}

impl<M: Memory> Parked<M> {
    /// Payload bytes.
    #[allow(clippy::len_without_is_empty)] // an element of no bytes is still an element
    pub fn len(&self) -> usize {
        match &*open(&self.spot.place) {
            Place::InRing(token) => token.len(),
            Place::MovedOut(bytes) => bytes.len(),
            Place::Gone => 0,
        }
    }

    /// Copies payload bytes from `at`, wherever they are. Panics if they do not lie inside.
    pub fn copy_out(&self, at: usize, into: &mut [u8]) {
        match &*open(&self.spot.place) {
            Place::InRing(token) => self.spot.consumer.read(token, at, into),
            Place::MovedOut(bytes) => into.copy_from_slice(&bytes[at..at + into.len()]),
            Place::Gone => {}
        }
    }

    /// Whether the element has been moved out of the ring.
    pub fn is_moved_out(&self) -> bool {
        matches!(&*open(&self.spot.place), Place::MovedOut(_))
    }
}

impl<M: Memory> Drop for Spot<M> {
    fn drop(&mut self) {
        let place = std::mem::replace(&mut *open(&self.place), Place::Gone);
        if let Place::InRing(token) = place {
            self.consumer.release(token);
        }
    }
}

/// Locks; a reader that panicked inside a copy has left nothing half done.
fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
