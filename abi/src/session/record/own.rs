//! Records that a service brings itself: the envelope carries their bodies, and knows no field.
//!
//! The first four services have their requests in [`RequestKind`](super::RequestKind). Every later
//! one keeps its records in its own folder and has them carried here, so that a service can be added
//! without a change of the envelope. Whoever answers decodes the body, and checks all of it.

use super::{HEADER_BYTES, REPLY_BYTES, REQUEST_BYTES};
use crate::wire::Reader;

/// Bytes of a request behind its header.
pub const REQUEST_BODY_BYTES: usize = REQUEST_BYTES - HEADER_BYTES;
/// Bytes of a reply behind its header.
pub const REPLY_BODY_BYTES: usize = REPLY_BYTES - HEADER_BYTES;
/// The first number of records that the envelope does not know: those of the fifth service.
pub const FIRST_OWN: u16 = 5 << 8;
/// Replies have the second half of a service's numbers.
const REPLY: u16 = 128;

/// A record of a service: its number, and a body that nobody has looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Own<const BYTES: usize> {
    /// Its number, in the range of its service.
    pub number: u16,
    /// Foreign bytes.
    pub body: [u8; BYTES],
}

/// A request that a service brings itself.
pub type OwnRequest = Own<REQUEST_BODY_BYTES>;
/// A reply that a service brings itself.
pub type OwnReply = Own<REPLY_BODY_BYTES>;

impl<const BYTES: usize> Own<BYTES> {
    /// The number of the service whose record it is.
    pub fn service(&self) -> u16 {
        self.number >> 8
    }

    fn take(number: u16, r: &mut Reader<'_>) -> Self {
        Self { number, body: r.take() }
    }
}

impl OwnRequest {
    /// The request with this number, if it is one that the envelope only carries.
    pub(super) fn decode(number: u16, r: &mut Reader<'_>) -> Option<Self> {
        (number >= FIRST_OWN && number & REPLY == 0).then(|| Self::take(number, r))
    }
}

impl OwnReply {
    /// The reply with this number, if it is one that the envelope only carries.
    pub(super) fn decode(number: u16, r: &mut Reader<'_>) -> Option<Self> {
        (number >= FIRST_OWN && number & REPLY != 0).then(|| Self::take(number, r))
    }
}
