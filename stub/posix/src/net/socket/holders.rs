//! Who holds a connection's end: descriptors of this process, and processes that a fork has made.

use heliostat_abi::stream::channel::direction::TAKEN_BACK;
use heliostat_abi::stream::channel::SlotState;
use heliostat_base::sync::Ordering::{AcqRel, Relaxed};

use super::{Socket, Stream};
use crate::net::channel::Side;

/// Where processes share an end each looks by itself after this long: a bell, or the word that asks for
/// one, may have been taken by a sibling that has gone on, and no process can pass it on.
const SIBLING_PAUSE_NS: u64 = 100_000_000;

impl Socket {
    /// One more descriptor of this process refers to it.
    pub fn retain(&self) {
        self.descriptors.fetch_add(1, AcqRel);
    }

    /// No other descriptor of this process refers to it.
    pub fn has_one_descriptor(&self) -> bool {
        self.descriptors.load(Relaxed) == 1
    }

    /// One descriptor less; true when it was the last.
    pub fn release(&self) -> bool {
        self.descriptors.fetch_sub(1, AcqRel) == 1
    }

    /// Before a fork: one more process will hold this end.
    pub fn share(&self, stream: &Stream) {
        stream.slot.share(stream.side);
        self.forks.fetch_add(1, AcqRel);
    }

    /// That fork failed. An end that began after it was never shared.
    pub fn unshare(&self, stream: &Stream) {
        let one_less = |forks: u32| forks.checked_sub(1);
        if self.forks.fetch_update(AcqRel, Relaxed, one_less).is_ok() {
            stream.slot.unshare(stream.side);
        }
    }

    /// True when other processes may hold this end too: the shared locks are taken as well.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.forks.load(Relaxed) != 0
    }

    /// How long a sleep for the stream may last at once: for ever, unless other processes hold this end
    /// as well. Its stage does not matter: a sibling may settle the stream while this process sleeps.
    /// The slot's count is the peer's to write as well; one that falsifies it is as good as silent.
    pub fn siblings_pause(&self, stream: &Stream) -> Option<u64> {
        let has_siblings = self.is_shared() && stream.slot.is_shared(stream.side);
        has_siblings.then_some(SIBLING_PAUSE_NS)
    }

    /// This process holds the connection's end no more; true when it was the last.
    pub fn let_go(&self, stream: &Stream) -> bool {
        let has_claimed = stream.side == Side::Server && !self.inherited.load(Relaxed);
        stream.slot.let_go(stream.side, has_claimed)
    }

    /// This process touches the slot of a connection that has become the kernel's no more.
    pub fn give_slot_back(&self, stream: &Stream) {
        if self.let_go(stream) {
            stream.slot.be_done(stream.side);
        }
    }

    /// This process of the acceptor uses a slot no more that its client has left.
    pub fn let_go_of_left(&self, stream: &Stream) {
        if stream.slot.state() == SlotState::Left && self.let_go(stream) {
            stream.slot.leave(Side::Server);
        }
    }

    /// Another process that holds this end has stopped reading: what is in the ring comes again, on
    /// the shadow. Under the lock that both take for reading.
    #[inline]
    pub fn is_frozen_by_other(&self, stream: &Stream) -> bool {
        self.is_shared()
            && !self.stage().is_kernels()
            && (stream.incoming.is_reader_leaving() || stream.incoming.flags() & TAKEN_BACK != 0)
    }
}
