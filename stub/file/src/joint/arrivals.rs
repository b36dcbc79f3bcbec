//! Completions of one process in a joint session: each to the thread that has submitted it.
//!
//! ```text
//! own part of a tag   submitter's index 16 bits | its generation 24 bits | slot 16 bits
//! ```
//! One of the threads that wait looks at the ring and sleeps on its bell, and hands out what comes;
//! the others sleep until it has something for them, or leaves and one of them looks.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use heliostat_abi::file::delegated::joint::tag_of;
use heliostat_abi::file::delegated::{Completion, COMPLETION_RECORD_BYTES};
use heliostat_abi::name::ObjectId;
use heliostat_abi::table::{Table, TableFull};
use heliostat_base::sync::Ordering::Relaxed;
use heliostat_base::sync::{AtomicUsize, Condvar, Mutex, MutexGuard};
use heliostat_ring::doorbell::Patience;
use heliostat_ring::probe::Probe;
use heliostat_ring::{SpscConsumer, TakeError, WaitError};

/// Submitters of one process. The index behind the last is nobody's: a tag with it is of no operation
/// of a submitter (`succession`, `joint::all_of`).
pub const SUBMITTERS_MAX: usize = (1 << 16) - 1;
const GENERATION_MASK: u32 = (1 << 24) - 1;

/// Why nothing arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Silence {
    /// Not in time.
    TimedOut,
    /// The session has ended.
    Gone,
    /// The server broke the protocol.
    Corrupt,
}

/// A completion, and the slot that its submitter has given it.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub slot: u16,
    pub completion: Completion,
}

/// What has come and was not taken.
pub struct Arrivals {
    state: Mutex<State>,
    /// Something has come for somebody, or nobody looks.
    news: Condvar,
    /// Operations that may still be submitted: the server's table and this process's ring have room
    /// for them. Nothing is ordered by it.
    room: AtomicUsize,
}

struct State {
    /// Away while a thread looks.
    ring: Option<SpscConsumer>,
    inboxes: Table<VecDeque<Arrival>>,
    end: Option<Silence>,
}

impl Arrivals {
    pub fn new(ring: SpscConsumer, depth: usize) -> Arrivals {
        let (ring, inboxes) = (Some(ring), Table::new(SUBMITTERS_MAX));
        let state = Mutex::new(State { ring, inboxes, end: None });
        Arrivals { state, news: Condvar::new(), room: AtomicUsize::new(depth) }
    }

    /// A place for a submitter.
    pub fn enter(&self) -> Result<ObjectId, TableFull> {
        self.lock().inboxes.insert(VecDeque::new())
    }

    /// A submitter takes nothing any more; what comes for it is dropped.
    pub fn leave(&self, id: ObjectId) {
        drop(self.lock().inboxes.remove(id));
    }

    /// Room for up to so many operations.
    pub fn take_room(&self, wanted: usize) -> usize {
        let mut seen = self.room.load(Relaxed);
        loop {
            let taken = wanted.min(seen);
            if taken == 0 {
                return 0;
            }
            match self.room.compare_exchange(seen, seen - taken, Relaxed, Relaxed) {
                Ok(_) => return taken,
                Err(now) => seen = now,
            }
        }
    }

    /// Gives back what was not used.
    pub fn give_room(&self, unused: usize) {
        self.room.fetch_add(unused, Relaxed);
    }

    /// Takes what is there for a submitter.
    pub fn take(&self, id: ObjectId) -> Result<Option<Arrival>, Silence> {
        let mut state = self.lock();
        if state.has_none(id) && state.ring.is_some() {
            self.hand_out(&mut state);
        }
        match state.pop(id) {
            Some(found) => Ok(Some(found)),
            None => state.end.map_or(Ok(None), Err),
        }
    }

    /// Waits until something is there for a submitter, `limit` at most.
    pub fn wait(
        &self,
        id: ObjectId,
        limit: Option<Duration>,
        lives: &dyn Probe,
    ) -> Result<Arrival, Silence> {
        let until = limit.map(|limit| Instant::now() + limit);
        let mut state = self.lock();
        loop {
            if let Some(found) = state.pop(id) {
                return Ok(found);
            }
            if let Some(end) = state.end {
                return Err(end);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                // Who does not wait takes what is there.
                self.hand_out(&mut state);
                return state.pop(id).ok_or(Silence::TimedOut);
            }
            state = match state.ring.take() {
                Some(ring) => {
                    drop(state);
                    self.look(ring, left, lives)
                }
                None => self.sleep(state, left),
            };
        }
    }

    /// Looks at the ring for all threads, and hands out what has come.
    fn look(
        &self,
        mut ring: SpscConsumer,
        limit: Option<Duration>,
        lives: &dyn Probe,
    ) -> MutexGuard<'_, State> {
        let patience = limit.map_or(Patience::ENDLESS, Patience::up_to);
        let waited = ring.wait(&patience, lives);
        let mut state = self.lock();
        state.ring = Some(ring);
        self.hand_out(&mut state);
        if waited == Err(WaitError::PeerGone) {
            state.end = state.end.or(Some(Silence::Gone));
        }
        // One of those that sleep looks next, if this one leaves.
        self.news.notify_all();
        state
    }

    fn sleep<'a>(
        &self,
        state: MutexGuard<'a, State>,
        limit: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        match limit {
            Some(limit) => {
                let woken = self.news.wait_timeout(state, limit);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.news.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Hands out what is in the ring.
    fn hand_out(&self, state: &mut State) {
        let State { ring: Some(ring), inboxes, end } = state else { return };
        let mut record = [0; COMPLETION_RECORD_BYTES];
        let mut count = 0;
        loop {
            let found = match ring.poll(&mut record) {
                Ok(COMPLETION_RECORD_BYTES) => Completion::decode(&record),
                Err(TakeError::Empty) => break,
                _ => None,
            };
            let Some(completion) = found else {
                *end = Some(Silence::Corrupt);
                break;
            };
            count += 1;
            let (index, generation, slot) = parts(completion.tag);
            let id = inboxes.id_at(index);
            let id = id.filter(|id| id.generation & GENERATION_MASK == generation);
            // Nobody's is for a submitter that has left.
            if let Some(inbox) = id.and_then(|id| inboxes.get_mut(id)) {
                inbox.push_back(Arrival { slot, completion });
            }
        }
        self.give_room(count);
        if count > 0 {
            self.news.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_none(&self, id: ObjectId) -> bool {
        self.inboxes.get(id).is_none_or(VecDeque::is_empty)
    }

    fn pop(&mut self, id: ObjectId) -> Option<Arrival> {
        self.inboxes.get_mut(id)?.pop_front()
    }
}

/// The tag of an operation that a submitter keeps in a slot.
pub fn tag(member: u32, submitter: ObjectId, slot: u16) -> u64 {
    let ObjectId { index, generation } = submitter;
    let generation = u64::from(generation & GENERATION_MASK);
    tag_of(member, u64::from(index) << 40 | generation << 16 | u64::from(slot))
}

/// Index and generation of a submitter, and its slot.
fn parts(tag: u64) -> (u32, u32, u16) {
    ((tag >> 40) as u32 & 0xffff, (tag >> 16) as u32 & GENERATION_MASK, tag as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_names_submitter_and_slot_whatever_they_are() {
        for (index, generation, slot) in
            [(0, 1, 0), (0xffff, 0x3fff_ffff, u16::MAX), (7, 1 << 24, 3)]
        {
            let found = parts(tag(15, ObjectId { index, generation }, slot));
            assert_eq!(found, (index, generation & GENERATION_MASK, slot));
        }
    }

    #[test]
    fn room_is_given_until_there_is_none_and_again_when_it_comes_back() {
        let (_fd, memory) = heliostat_ring::RingMemory::create(c"arrivals", 4096).unwrap();
        let ring = memory.spsc_consumer(heliostat_ring::Refresh::Lazy).unwrap();
        let arrivals = Arrivals::new(ring, 10);
        assert_eq!([7, 7, 7].map(|wanted| arrivals.take_room(wanted)), [7, 3, 0]);
        arrivals.give_room(4);
        assert_eq!(arrivals.take_room(100), 4);
    }
}
