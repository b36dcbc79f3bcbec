//! A channel's memory and its slots: who may take one, and how both ends agree on it.
//!
//! The state word of a slot moves only by compare-and-swap (`heliostat_ring::slot`):
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

use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::Arc;

use heliostat_abi::limits::SESSIONS_MAX;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::node::State;
use heliostat_abi::session::record::ChannelEntry;
use heliostat_abi::stream::channel::{self as layout, slot, SlotState};
use heliostat_base::fd::OwnedFd;
use heliostat_base::lock::Lock;
use heliostat_base::mapping::{Access, SharedMapping};
use heliostat_client::NodePage;
use heliostat_ring::slot as words;
use heliostat_ring::stream::Lane;

pub use heliostat_ring::slot::Secret;

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

    fn words(&self, slot: u32) -> Words<'_> {
        Words { memory: &self.memory, slot }
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
        words::is_left(&self.words(index), |session| {
            self.node.session(known_session(session)) == State::Active
        })
    }

    /// The lane of a slot in a direction: 0 client to server, 1 back.
    fn lane(&self, slot: u32, direction: usize) -> Option<Lane> {
        let words = layout::slot_offset(slot) + slot::DIRECTION[direction];
        let ring_bytes = self.entry.ring_bytes;
        let data = layout::ring_offset(slot, direction, ring_bytes);
        Lane::new(&self.memory, words, data, ring_bytes).ok()
    }

    fn release(&self, index: u32) {
        *self.taken.lock() &= !(1 << index);
    }

    /// A slot of this channel by number, for the acceptor.
    pub fn slot(self: &Arc<Self>, index: u32) -> Option<Slot> {
        if index >= self.entry.slots {
            return None;
        }
        let generation = words::generation(&self.words(index));
        Some(Slot { channel: self.clone(), index, generation })
    }

    /// Frees what other threads of the parent held.
    pub fn reset_in_forked_child(&self) {
        self.taken.reset_in_forked_child();
    }
}

/// The words of a slot in a mapped channel.
struct Words<'a> {
    memory: &'a SharedMapping,
    slot: u32,
}

impl words::Words for Words<'_> {
    #[inline]
    fn u32(&self, offset: usize) -> &AtomicU32 {
        self.memory.atomic_u32(layout::slot_offset(self.slot) + offset)
    }

    #[inline]
    fn u64(&self, offset: usize) -> &AtomicU64 {
        self.memory.atomic_u64(layout::slot_offset(self.slot) + offset)
    }

    fn offers(&self) -> &AtomicU64 {
        self.memory.atomic_u64(layout::OFFERS)
    }

    fn offer(&self) -> u64 {
        1 << self.slot
    }
}

/// Session indices beyond the node page do not exist; a foreign one is cut to its size.
fn known_session(session: ObjectId) -> ObjectId {
    ObjectId { index: session.index % SESSIONS_MAX as u32, ..session }
}

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

    fn words(&self) -> Words<'_> {
        self.channel.words(self.index)
    }

    fn begin(channel: &Arc<Channel>, index: u32) -> Self {
        for direction in [0, 1] {
            if let Some(lane) = channel.lane(index, direction) {
                // 5 lines apart and prime to the ring: lanes do not share cache sets.
                lane.reset(u64::from(index * 2 + direction as u32) * 320);
            }
        }
        let generation = words::begin(&channel.words(index));
        Self { channel: channel.clone(), index, generation }
    }

    /// The incoming and the outgoing lane of `side`.
    pub fn lanes(&self, side: Side) -> Option<(Lane, Lane)> {
        let lane = |direction| self.channel.lane(self.index, direction);
        let (forth, back) = (lane(0)?, lane(1)?);
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
        words::state(&self.words(), self.generation)
    }

    fn step(&self, from: SlotState, to: SlotState) -> bool {
        words::step(&self.words(), self.generation, from, to)
    }

    /// Client: gives back a slot that never became a stream.
    pub fn abandon(self) {
        self.withdraw();
        if self.state() == SlotState::Left {
            return self.leave(Side::Client);
        }
        words::set_offer(&self.words(), false);
        self.channel.release(self.index);
    }

    /// One more process holds this end (fork).
    pub fn share(&self, side: Side) {
        self.word(side.holders()).fetch_add(1, AcqRel);
    }

    /// The process for which it was shared did not come to be.
    pub fn unshare(&self, side: Side) {
        self.word(side.holders()).fetch_sub(1, AcqRel);
    }

    /// This process holds this end no more; true when it is the last that does, as far as the count
    /// knows. From one that `has_claimed` others may go on holding the end, of which the slot's session
    /// does not tell.
    pub fn let_go(&self, side: Side, has_claimed: bool) -> bool {
        words::let_go(&self.words(), side.holders(), has_claimed)
    }

    /// True when several processes hold the end of `side`, as far as its count knows.
    pub fn is_shared(&self, side: Side) -> bool {
        self.word(side.holders()).load(Relaxed) > 1
    }

    /// True when several processes hold the end that is not `side`'s, as far as its count knows.
    pub fn is_peer_shared(&self, side: Side) -> bool {
        match side {
            Side::Client => self.is_shared(Side::Server),
            Side::Server => self.is_shared(Side::Client),
        }
    }

    /// This end is closed for good.
    pub fn leave(&self, side: Side) {
        match side {
            Side::Client => words::leave(&self.words()),
            Side::Server => words::close(&self.words(), slot::CLOSED_SERVER),
        }
    }

    /// This end is the kernel's alone, and touches the slot no more. The connection may go on.
    pub fn be_done(&self, side: Side) {
        words::close(&self.words(), side.bit(slot::DONE_CLIENT, slot::DONE_SERVER));
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
            Side::Client => known_session(words::acceptor(&self.words())),
        };
        self.channel.node.session(peer) != State::Active && self.state().is_stream()
    }

    /// True when the other end touches the slot no more, closed or the kernel's.
    pub fn has_peer_let_go(&self, side: Side) -> bool {
        let bit = match side {
            Side::Client => slot::DONE_SERVER,
            Side::Server => slot::DONE_CLIENT,
        };
        self.peer_left(side) || self.word(slot::CLOSED).load(Acquire) & bit != 0
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
