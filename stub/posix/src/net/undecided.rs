//! What is known of an accepted connection whose offer may still come.

use heliostat_abi::code::Native;
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::stream::channel::SlotState;
use heliostat_ring::stream::Lane;

use super::channel::{Secret, Side, Slot};
use super::identity;

/// An accepted connection whose client may still be inside connect(2), between the handshake and
/// the next few instructions. It is native, and counted, until the offer is there.
pub struct Undecided {
    /// The address that its offer names.
    pub peer: NetAddress,
    /// Slots that were Connecting when it was accepted: its offer, if any, is one of these.
    pub candidates: Vec<Slot>,
    /// This session, as the claim names it.
    pub acceptor: ObjectId,
    /// Payload read so far.
    pub taken: u64,
    /// Payload sent so far.
    pub sent: u64,
    /// From then on it is native (monotonic ns).
    pub ends_at_ns: u64,
}

/// The incoming and the outgoing lane.
pub type Lanes = (Lane, Lane);

impl Undecided {
    /// The offer, once it is there. Forgets what cannot become it any more. Each slot's state is
    /// looked at once: one that is put on offer between two looks would be neither found nor kept.
    pub fn find(&mut self) -> Option<Slot> {
        let (peer, mut found) = (self.peer, None);
        self.candidates.retain(|slot| match slot.state() {
            SlotState::Connecting => true,
            SlotState::Offered if is_from(slot, peer) => {
                found = Some(slot.clone());
                false
            }
            _ => false,
        });
        found
    }

    /// Claims an offer that its maker can prove; one whose user is another's is refused, so that its
    /// maker knows.
    pub fn claim(&self, slot: &Slot, secret: &Secret) -> Result<Lanes, Native> {
        let inode = slot.offered_by().map_or(0, |(_, inode)| inode);
        if let Err(reason) = identity::check(&slot.channel, inode, self.peer) {
            slot.decline();
            return Err(reason);
        }
        let lanes = slot.lanes(Side::Server).ok_or(Native::Corrupt)?;
        slot.claim(self.acceptor, secret).then_some(lanes).ok_or(Native::NotAccepted)
    }
}

/// True where the offer in a slot names that client.
pub fn is_from(slot: &Slot, peer: NetAddress) -> bool {
    slot.offered_by().is_some_and(|(client, _)| client == peer)
}
