//! A channel's memory and its slots: who may take one, and how both ends agree on it.
//!
//! The state word of a slot moves only by compare-and-swap:
//!
//! ```text
//!          client               client              acceptor              client
//!  Free ---------> Connecting ---------> Offered ------------> Claimed ----------> Started
//!                      |                 |     |               |    |                 |
//!                      | client   client |     | acceptor      |    | acceptor        | acceptor
//!                      v                 v     v        client |    v                 v
//!                          Withdrawn        Declined           v  Declined          Proven,
//!                                                             Left                 or Declined
//!
//!  All end as Free again.
//! ```

mod steps;

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::Arc;

use heliostat_abi::channel::{self as layout, slot, SlotState};
use heliostat_abi::name::ObjectId;
use heliostat_abi::node::State;
use heliostat_abi::record::ChannelEntry;
use heliostat_base::fd::OwnedFd;
use heliostat_base::lock::Lock;
use heliostat_base::mapping::{Access, SharedMapping};
use heliostat_client::NodePage;
use heliostat_ring::stream::Lane;
use std::os::fd::AsRawFd;

/// Which end of a stream this process is. Neither is 0: no stream at all is, so that the table of
/// connections begins as zeros and takes no room in the library's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// It connected.
    Client = 1,
    /// It accepted.
    Server,
}

impl Side {
    /// Of two bits that of this side.
    fn bit(self, client: u32, server: u32) -> u32 {
        if self == Self::Client {
            client
        } else {
            server
        }
    }

    fn holders(self) -> usize {
        slot::HOLDERS + 4 * usize::from(self == Self::Server)
    }
}

/// A mapped channel.
pub struct Channel {
    memory: Arc<SharedMapping>,
    /// As the control plane described it.
    pub entry: ChannelEntry,
    node: Arc<NodePage>,
    /// Slots this process has given out (client side only).
    taken: Lock<u64>,
}

impl Channel {
    /// Maps a channel that the control plane handed out; `None` when its shape is not valid.
    pub fn map(entry: ChannelEntry, fd: &OwnedFd, node: &Arc<NodePage>) -> Option<Arc<Self>> {
        if !layout::shape_is_valid(entry.slots, entry.ring_bytes) {
            return None;
        }
        let length = layout::bytes(entry.slots, entry.ring_bytes);
        let memory = SharedMapping::from_fd(fd.as_raw_fd(), length, Access::ReadWrite).ok()?;
        let mark = memory.atomic_u32(0).load(Relaxed);
        let version = memory.atomic_u32(4).load(Relaxed);
        if mark != layout::MAGIC || version != layout::VERSION {
            return None;
        }
        let memory = Arc::new(memory);
        Some(Arc::new(Self { memory, entry, node: node.clone(), taken: Lock::new(0) }))
    }

    /// State of the grant, one load from the node page.
    #[inline]
    pub fn state(&self) -> State {
        self.node.channel(self.entry.id)
    }

    /// True while its client's session stands.
    pub fn is_alive(&self) -> bool {
        self.node.session(self.entry.client) == State::Active
    }

    fn word(&self, slot: u32, offset: usize) -> &AtomicU32 {
        self.memory.atomic_u32(layout::slot_offset(slot) + offset)
    }

    /// Slots on offer, as the client says.
    pub fn offers(&self) -> u64 {
        let known = u64::MAX >> (64 - self.entry.slots);
        self.memory.atomic_u64(layout::OFFERS).load(Acquire) & known
    }

    fn set_offer(&self, slot: u32, on: bool) {
        let word = self.memory.atomic_u64(layout::OFFERS);
        match on {
            true => word.fetch_or(1 << slot, AcqRel),
            false => word.fetch_and(!(1 << slot), AcqRel),
        };
    }

    /// Takes a slot for a connection about to be made and marks it Connecting.
    pub fn take_slot(self: &Arc<Self>) -> Option<Slot> {
        let mut taken = self.taken.lock();
        for index in 0..self.entry.slots {
            if *taken & 1 << index != 0 && !self.is_left(index) {
                continue;
            }
            *taken |= 1 << index;
            return Some(Slot::begin(self, index));
        }
        None
    }

    /// True when a slot given out earlier is nobody's any more.
    fn is_left(&self, index: u32) -> bool {
        let closed = self.word(index, slot::CLOSED).load(Acquire);
        if closed & (slot::CLOSED_CLIENT | slot::DONE_CLIENT) == 0 {
            return false;
        }
        let state = SlotState::from_word(self.word(index, slot::STATE).load(Acquire));
        let by_server = closed & (slot::CLOSED_SERVER | slot::DONE_SERVER);
        if !state.is_some_and(SlotState::is_acceptors) || by_server != 0 {
            return true;
        }
        if closed & slot::PASSED_ON != 0 {
            return false; // its children end it
        }
        // The acceptor was killed: its session is gone and no child of it holds the stream.
        let acceptor = ObjectId {
            index: self.word(index, slot::ACCEPTOR).load(Relaxed) % MAX_SESSION_INDEX,
            generation: self.word(index, slot::ACCEPTOR + 4).load(Relaxed),
        };
        let holders = self.word(index, Side::Server.holders()).load(Relaxed);
        holders <= 1 && self.node.session(acceptor) != State::Active
    }

    fn release(&self, index: u32) {
        *self.taken.lock() &= !(1 << index);
    }

    /// A slot of this channel by number, for the acceptor.
    pub fn slot(self: &Arc<Self>, index: u32) -> Option<Slot> {
        if index >= self.entry.slots {
            return None;
        }
        let generation = self.word(index, slot::STATE).load(Acquire) >> 8;
        Some(Slot { channel: self.clone(), index, generation })
    }

    /// Frees what other threads of the parent held.
    pub fn reset_in_forked_child(&self) {
        self.taken.reset_in_forked_child();
    }
}

/// Session indices beyond the node page do not exist; a foreign one is cut to its size.
const MAX_SESSION_INDEX: u32 = heliostat_abi::limits::SESSIONS_MAX as u32;

/// What proves an offer.
pub type Secret = [u8; slot::SECRET_BYTES];

/// One stream's place in a channel.
#[derive(Clone)]
pub struct Slot {
    /// The channel it lies in.
    pub channel: Arc<Channel>,
    index: u32,
    /// Generation of the slot when this stream began; a later one is another stream.
    generation: u32,
}

impl Slot {
    fn word(&self, offset: usize) -> &AtomicU32 {
        self.channel.word(self.index, offset)
    }

    fn begin(channel: &Arc<Channel>, index: u32) -> Self {
        let next = channel.word(index, slot::STATE).load(Relaxed).wrapping_add(0x100);
        let slot = Self { channel: channel.clone(), index, generation: next >> 8 };
        for (direction, side) in [(0, Side::Client), (1, Side::Server)] {
            if let Some(lane) = slot.lane(direction) {
                // 5 lines apart and prime to the ring: lanes do not share cache sets.
                lane.reset(u64::from(index * 2 + direction as u32) * 320);
            }
            slot.word(side.holders()).store(1, Relaxed);
        }
        slot.word(slot::CLOSED).store(0, Relaxed);
        slot.word(slot::HAS_WRITTEN).store(0, Relaxed);
        slot.word(slot::STATE).store(SlotState::Connecting.in_word(next), Release);
        channel.set_offer(index, true);
        slot
    }

    /// The lane of a direction: 0 client to server, 1 back.
    fn lane(&self, direction: usize) -> Option<Lane> {
        let words = layout::slot_offset(self.index) + slot::DIRECTION[direction];
        let ring_bytes = self.channel.entry.ring_bytes;
        let data = layout::ring_offset(self.index, direction, ring_bytes);
        Lane::new(&self.channel.memory, words, data, ring_bytes).ok()
    }

    /// The incoming and the outgoing lane of `side`.
    pub fn lanes(&self, side: Side) -> Option<(Lane, Lane)> {
        let (forth, back) = (self.lane(0)?, self.lane(1)?);
        Some(match side {
            Side::Client => (back, forth),
            Side::Server => (forth, back),
        })
    }

    /// Tells this stream from every other one: its channel, and in it the slot and which use of it.
    pub fn name(&self) -> (ObjectId, u32, u32) {
        (self.channel.entry.id, self.index, self.generation)
    }

    /// State now; nonsense counts as Free.
    pub fn state(&self) -> SlotState {
        let word = self.word(slot::STATE).load(Acquire); // S1
        match word >> 8 == self.generation {
            true => SlotState::from_word(word).unwrap_or(SlotState::Free),
            false => SlotState::Free,
        }
    }

    fn step(&self, from: SlotState, to: SlotState) -> bool {
        let word = self.word(slot::STATE).load(Acquire);
        word >> 8 == self.generation
            && SlotState::from_word(word) == Some(from)
            && self
                .word(slot::STATE)
                .compare_exchange(word, to.in_word(word), AcqRel, Acquire)
                .is_ok()
    }

    /// Client: gives back a slot that never became a stream.
    pub fn abandon(self) {
        self.withdraw();
        if self.state() == SlotState::Left {
            return self.leave(Side::Client);
        }
        self.channel.set_offer(self.index, false);
        self.channel.release(self.index);
    }

    /// One more process holds this end (fork).
    pub fn share(&self, side: Side) {
        self.word(side.holders()).fetch_add(1, AcqRel);
    }

    /// True when this process is the last to hold this end, as far as the count knows.
    pub fn is_last_holder(&self, side: Side) -> bool {
        self.word(side.holders()).fetch_sub(1, AcqRel) <= 1
    }

    /// This process holds this end no more: as `is_last_holder`. From one that `has_claimed` others
    /// may go on holding the end, of which the slot's session does not tell.
    pub fn let_go(&self, side: Side, has_claimed: bool) -> bool {
        if has_claimed && self.word(side.holders()).load(Relaxed) > 1 {
            self.word(slot::CLOSED).fetch_or(slot::PASSED_ON, AcqRel);
        }
        self.is_last_holder(side)
    }

    /// True when several processes hold the other end, as far as its count knows.
    pub fn is_peer_shared(&self, side: Side) -> bool {
        let peer = match side {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        };
        self.word(peer.holders()).load(Relaxed) > 1
    }

    /// This end is closed for good.
    pub fn leave(&self, side: Side) {
        self.word(slot::CLOSED)
            .fetch_or(side.bit(slot::CLOSED_CLIENT, slot::CLOSED_SERVER), AcqRel);
        if side == Side::Client {
            self.channel.set_offer(self.index, false);
        }
    }

    /// This end is the kernel's alone, and touches the slot no more. The connection may go on.
    pub fn be_done(&self, side: Side) {
        self.word(slot::CLOSED).fetch_or(side.bit(slot::DONE_CLIENT, slot::DONE_SERVER), AcqRel);
    }

    /// True when the other end is closed for good, or its process has ended: worth a look at the
    /// shadow before more is sent. Loads only.
    #[inline]
    pub fn peer_may_be_gone(&self, side: Side) -> bool {
        if self.peer_left(side) {
            return true;
        }
        let peer = match side {
            Side::Server => self.channel.entry.client,
            Side::Client => self.acceptor(),
        };
        self.channel.node.session(peer) != State::Active && self.state().is_stream()
    }

    fn acceptor(&self) -> ObjectId {
        ObjectId {
            index: self.word(slot::ACCEPTOR).load(Relaxed) % MAX_SESSION_INDEX,
            generation: self.word(slot::ACCEPTOR + 4).load(Relaxed),
        }
    }

    /// True when the other end is closed for good: what is sent now reaches nobody.
    #[inline]
    pub fn peer_left(&self, side: Side) -> bool {
        let bit = match side {
            Side::Client => slot::CLOSED_SERVER,
            Side::Server => slot::CLOSED_CLIENT,
        };
        self.word(slot::CLOSED).load(Relaxed) & bit != 0
    }
}
