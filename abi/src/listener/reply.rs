//! What the service of shared listeners answers: the bodies of its replies. Others are Done and Refused.
//!
//! ```text
//! Joined  worker, place u32, workers u32   [queue, page]
//! Found   -                                [listening socket]
//! ```

use super::request::FIRST;
use crate::name::ObjectId;
use crate::session::record::{OwnReply, REPLY_BODY_BYTES};
use crate::wire::{Reader, WireError, Writer};

const JOINED: u16 = FIRST + 128;
const FOUND: u16 = FIRST + 129;

/// A reply of the service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListenerReply {
    /// To Join.
    Joined {
        /// Which worker the session is.
        worker: ObjectId,
        /// Its place among the workers of the listener, by which the rules that are consistent know it.
        place: u32,
        /// How many workers there are now.
        workers: u32,
    },
    /// To Find.
    Found,
}

impl ListenerReply {
    /// The record.
    pub fn encode(&self) -> OwnReply {
        let mut body = [0; REPLY_BODY_BYTES];
        let number = match self {
            Self::Joined { worker, place, workers } => {
                let mut w = Writer::new(&mut body);
                worker.encode(&mut w);
                w.u32(*place).u32(*workers);
                JOINED
            }
            Self::Found => FOUND,
        };
        OwnReply { number, body }
    }

    /// The reply in a record's foreign body.
    ///
    /// # Errors
    /// It is none; the value says which field.
    pub fn decode(own: &OwnReply) -> Result<Self, WireError> {
        let r = &mut Reader::new(&own.body);
        let reply = match own.number {
            JOINED => {
                let worker = ObjectId::decode(r);
                Self::Joined { worker, place: r.u32(), workers: r.u32() }
            }
            FOUND => Self::Found,
            found => return Err(WireError::Kind { found }),
        };
        if !r.rest_is_zero() {
            return Err(WireError::Reserved);
        }
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reply_comes_back_as_it_was_and_has_no_byte_that_says_nothing() {
        let worker = ObjectId { index: 1, generation: 2 };
        for reply in [ListenerReply::Joined { worker, place: 3, workers: 4 }, ListenerReply::Found]
        {
            let mut own = reply.encode();
            assert_eq!(ListenerReply::decode(&own), Ok(reply));
            own.body[REPLY_BODY_BYTES - 1] = 1;
            assert_eq!(ListenerReply::decode(&own), Err(WireError::Reserved));
        }
    }
}
