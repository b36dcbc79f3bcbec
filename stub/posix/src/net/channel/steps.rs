//! A slot's steps from the offer to the rings, and the words that go with them.

use std::sync::atomic::Ordering::{Acquire, Release};

use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::stream::channel::{self as layout, slot, SlotState};
use heliostat_ring::slot::{self as words, Claim};

use super::{Secret, Slot};

impl Slot {
    /// Puts the connected socket on offer; false when the words are not this slot's any more.
    pub fn offer(&self, client: NetAddress, server: NetAddress, inode: u64) -> bool {
        let base = layout::slot_offset(self.index);
        let (family, client_ip) = client.to_parts();
        let (_, server_ip) = server.to_parts();
        let mut head = [0u8; 52];
        head[0] = family;
        head[2..4].copy_from_slice(&client.port.to_le_bytes());
        head[4..6].copy_from_slice(&server.port.to_le_bytes());
        head[12..28].copy_from_slice(&client_ip);
        head[28..44].copy_from_slice(&server_ip);
        head[44..52].copy_from_slice(&inode.to_le_bytes());
        let memory = &self.channel.memory;
        let written = memory.copy_in(base + slot::FAMILY, &head).is_ok();
        written && self.step(SlotState::Connecting, SlotState::Offered)
    }

    /// The client's address and socket inode, as the offer says.
    pub fn offered_by(&self) -> Option<(NetAddress, u64)> {
        let mut head = [0u8; 52];
        let at = layout::slot_offset(self.index) + slot::FAMILY;
        self.channel.memory.copy_out(at, &mut head).ok()?;
        let port = u16::from_le_bytes([head[2], head[3]]);
        let ip = head[12..28].try_into().ok()?;
        let inode = u64::from_le_bytes(head[44..52].try_into().ok()?);
        Some((NetAddress::from_parts(head[0], ip, port)?, inode))
    }

    /// Addresses of the client's and the server's end, as the offer says.
    pub fn ends(&self) -> Option<(NetAddress, NetAddress)> {
        let mut head = [0u8; 52];
        let at = layout::slot_offset(self.index) + slot::FAMILY;
        self.channel.memory.copy_out(at, &mut head).ok()?;
        let port = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let client = NetAddress::from_parts(head[0], head[12..28].try_into().ok()?, port(2))?;
        let server = NetAddress::from_parts(head[0], head[28..44].try_into().ok()?, port(4))?;
        Some((client, server))
    }

    /// Acceptor: takes the offer, which the client proves by telling `secret` on the shadow; false
    /// when the client was faster in withdrawing it.
    pub fn claim(&self, acceptor: ObjectId, secret: &Secret) -> bool {
        let claim = Claim { acceptor, secret: *secret };
        words::claim(&self.words(), self.generation, &claim)
    }

    /// Acceptor: refuses the offer, so that the client knows.
    pub fn decline(&self) -> bool {
        words::decline(&self.words(), self.generation)
    }

    /// Client: what the acceptor wants to be told, once the slot is Claimed; `None` where another
    /// acceptor, late for an earlier use of the slot, has written over it.
    pub fn secret(&self) -> Option<Secret> {
        words::claimed(&self.words(), self.generation).map(|claim| claim.secret)
    }

    /// Acceptor: gives its claim up; false when the client has begun its ring.
    pub fn revoke(&self) -> bool {
        self.step(SlotState::Claimed, SlotState::Declined)
    }

    /// Acceptor: the client has told the secret, and the own ring is begun.
    pub fn prove(&self) -> bool {
        self.step(SlotState::Started, SlotState::Proven)
    }

    /// Acceptor: the offer was false.
    pub fn refuse(&self) -> bool {
        self.step(SlotState::Started, SlotState::Declined)
    }

    /// Acceptor that waits for offers: it has written on the shadow of one of them, maybe this.
    pub fn note_written(&self) {
        self.word(slot::HAS_WRITTEN).store(1, Release);
    }

    /// Client: bytes on the shadow may come from an acceptor that will claim the offer.
    pub fn may_have_been_written(&self) -> bool {
        self.word(slot::HAS_WRITTEN).load(Acquire) != 0
    }

    /// Client: begins its ring, after the prefix's last byte; false when the claim was given up.
    pub fn start(&self) -> bool {
        self.step(SlotState::Claimed, SlotState::Started)
    }

    /// Client: leaves after the claim, with nothing in its ring. The slot is the acceptor's too
    /// until that has left.
    pub fn retreat(&self) -> bool {
        self.step(SlotState::Claimed, SlotState::Left)
    }

    /// Client: takes the offer back; false when it was claimed already.
    pub fn withdraw(&self) -> bool {
        words::withdraw(&self.words(), self.generation)
    }

    /// Its number in the channel.
    pub fn number(&self) -> u32 {
        self.index
    }

    /// Which use of it this is.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Takes all steps at once, before the slot's connection is handed to a loop, which never offers:
    /// both rings are begun. `own` stands where an acceptor does, whose end the loop tells by the shadow.
    pub fn begin_carried(&self, own: ObjectId) -> bool {
        self.step(SlotState::Connecting, SlotState::Offered)
            && self.claim(own, &[0; slot::SECRET_BYTES])
            && self.start()
            && self.prove()
    }

    /// Gives a slot back that no loop was told of.
    pub fn give_up_carried(&self) {
        self.leave(super::Side::Server);
        self.leave(super::Side::Client);
    }
}
