//! What the service of delegated sockets answers. Others are Done and Refused.
//!
//! ```text
//! Session   0 depth u32, sockets u32      [rings]
//! ```

use super::request::FIRST;
use crate::session::record::{OwnReply, REPLY_BODY_BYTES};
use crate::wire::{Reader, WireError, Writer};

const SESSION: u16 = FIRST + 128;

/// A reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketReply {
    /// To Session [its rings].
    Session {
        /// Operations that may be under way.
        depth: u32,
        /// Sockets that the session may have.
        sockets: u32,
    },
}

impl SocketReply {
    /// The record.
    pub fn encode(&self) -> OwnReply {
        let mut body = [0; REPLY_BODY_BYTES];
        let Self::Session { depth, sockets } = self;
        Writer::new(&mut body).u32(*depth).u32(*sockets);
        OwnReply { number: SESSION, body }
    }

    /// The reply in a record's foreign body.
    ///
    /// # Errors
    /// It is none; the value says which field.
    pub fn decode(own: &OwnReply) -> Result<Self, WireError> {
        if own.number != SESSION {
            return Err(WireError::Kind { found: own.number });
        }
        let mut r = Reader::new(&own.body);
        let reply = Self::Session { depth: r.u32(), sockets: r.u32() };
        r.rest_is_zero().then_some(reply).ok_or(WireError::Reserved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_comes_back_as_it_was_and_others_are_refused() {
        let reply = SocketReply::Session { depth: 256, sockets: 4096 };
        let good = reply.encode();
        assert_eq!(SocketReply::decode(&good), Ok(reply));
        let unknown = OwnReply { number: FIRST, ..good };
        assert_eq!(SocketReply::decode(&unknown), Err(WireError::Kind { found: FIRST }));
        let mut odd = good;
        odd.body[8] = 1;
        assert_eq!(SocketReply::decode(&odd), Err(WireError::Reserved));
    }
}
