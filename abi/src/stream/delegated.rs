//! Delegated streams: what a session asks of the network service, and how it hands a socket over.
//!
//! A *delegated stream* has the lanes of a direct stream, with a loop of the network service as its
//! other end, which moves their bytes from and to a TCP socket. The session asks once for each
//! channel; every later connection is one message on the channel's *link*.
//!
//! ```text
//! Channel   is forced u32, cores 48              reply [channel memory, link]: an entry, 32 bytes
//! Hand      kind u32, slot u32, generation u32, 0 u32      on the link: [the socket, a shadow's end]
//! ```
//! The session has the client's end of every slot, whichever side called connect(2).

use crate::cores::CpuRanges;
use crate::session::record::{ChannelEntry, OwnReply, OwnRequest};
use crate::session::record::{REPLY_BODY_BYTES, REQUEST_BODY_BYTES};
use crate::wire::{Reader, WireError, Writer};

/// The number of the service in the protocol.
pub const SERVICE: u16 = 15;
/// The number of the only request: a channel.
pub const CHANNEL: u16 = SERVICE << 8;
/// The number of its reply.
pub const GRANTED: u16 = CHANNEL + 128;
/// Length of a message on a link.
pub const HAND_BYTES: usize = 16;
/// What a message on a link begins with: "HAND".
const HAND: u32 = u32::from_le_bytes(*b"HAND");

/// The request for a channel, whose connections are carried where the measured rule says so; or
/// whatever it says, by loops on `cores`, of which none means any.
pub fn request(cores: Option<CpuRanges>) -> OwnRequest {
    let mut body = [0; REQUEST_BODY_BYTES];
    if let Some(cores) = cores {
        let mut w = Writer::new(&mut body);
        w.u32(1);
        cores.encode(&mut w);
    }
    OwnRequest { number: CHANNEL, body }
}

/// What a foreign request of this service asks for, as `request` has it.
///
/// # Errors
/// It is another one, or has bytes that say nothing.
pub fn asked(request: &OwnRequest) -> Result<Option<CpuRanges>, WireError> {
    if request.number != CHANNEL {
        return Err(WireError::Kind { found: request.number });
    }
    let mut r = Reader::new(&request.body);
    let is_forced = r.u32();
    let cores = match is_forced {
        0 => None,
        1 => Some(CpuRanges::decode(&mut r)?),
        found => return Err(WireError::Field { name: "is forced", found: found.into() }),
    };
    match r.rest_is_zero() {
        true => Ok(cores),
        false => Err(WireError::Reserved),
    }
}

/// The reply that brings a channel.
pub fn reply(entry: &ChannelEntry) -> OwnReply {
    let mut body = [0; REPLY_BODY_BYTES];
    entry.encode(&mut Writer::new(&mut body));
    OwnReply { number: GRANTED, body }
}

/// The channel that a reply brings.
///
/// # Errors
/// It is another reply, or names what cannot be.
pub fn granted(reply: &OwnReply) -> Result<ChannelEntry, WireError> {
    match reply.number {
        GRANTED => ChannelEntry::decode(&mut Reader::new(&reply.body)),
        found => Err(WireError::Kind { found }),
    }
}

/// A connection that is handed over on a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hand {
    /// Its slot in the link's channel.
    pub slot: u32,
    /// Which use of the slot.
    pub generation: u32,
}

impl Hand {
    /// The message.
    pub fn encode(&self) -> [u8; HAND_BYTES] {
        let mut bytes = [0; HAND_BYTES];
        Writer::new(&mut bytes).u32(HAND).u32(self.slot).u32(self.generation);
        bytes
    }

    /// What a foreign message says.
    ///
    /// # Errors
    /// It is no such message.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let bytes: &[u8; HAND_BYTES] = bytes
            .try_into()
            .map_err(|_| WireError::Length { wanted: HAND_BYTES, found: bytes.len() })?;
        let mut r = Reader::new(bytes);
        let kind = r.u32();
        let hand = Self { slot: r.u32(), generation: r.u32() };
        match (kind, r.u32()) {
            (HAND, 0) => Ok(hand),
            (HAND, _) => Err(WireError::Reserved),
            (found, _) => Err(WireError::Field { name: "kind of hand", found: u64::from(found) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cores::CpuMask;
    use crate::name::ObjectId;

    #[test]
    fn a_request_and_its_reply_come_back_as_they_were() {
        let cores = CpuRanges::of(CpuMask::parse("2-3,9").unwrap()).unwrap();
        for wanted in [None, Some(cores), CpuRanges::of(CpuMask::EMPTY)] {
            assert_eq!(asked(&request(wanted)), Ok(wanted));
        }
        let id = ObjectId { index: 3, generation: 9 };
        let entry = ChannelEntry { id, client: id, peer_uid: 7, slots: 64, ring_bytes: 65536 };
        assert_eq!(granted(&reply(&entry)), Ok(entry));
    }

    #[test]
    fn foreign_requests_and_hands_are_refused() {
        for place in [0, 2, REQUEST_BODY_BYTES - 1] {
            let mut foreign = request(None);
            foreign.body[place] = 2;
            assert!(asked(&foreign).is_err(), "{place}");
        }
        assert!(asked(&OwnRequest { number: CHANNEL + 1, ..request(None) }).is_err());
        let hand = Hand { slot: 63, generation: 0x00ff_ffff };
        assert_eq!(Hand::decode(&hand.encode()), Ok(hand));
        let mut bytes = hand.encode();
        bytes[12] = 1;
        assert!(Hand::decode(&bytes).is_err());
        assert!(Hand::decode(&bytes[..12]).is_err());
        assert!(Hand::decode(&[0; HAND_BYTES]).is_err());
    }
}
