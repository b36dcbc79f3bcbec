//! What the control plane of another node answers to a request of one of its services.
//!
//! ```text
//! header   0 what u16 (1 own, 2 done, 3 refused), number u16, code u16, thing u16, side u16, 0 u16,
//!            0 u32, limit u64, session             payload of an own answer: its body
//! ```

use crate::code::{Code, Side, Thing};
use crate::name::ObjectId;
use crate::session::record::{Bound, OwnReply, REPLY_BODY_BYTES};
use crate::wire::{Reader, WireError, Writer};

/// Bytes of an answer's header.
pub const CONTROL_REPLY_BYTES: usize = 32;

/// What that control plane answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeerReply {
    /// An answer of the service, to somebody who is this session there.
    Own {
        /// The session of the asking node's user.
        session: ObjectId,
        /// The answer.
        reply: Box<OwnReply>,
    },
    /// It was done.
    Done,
    /// It was not.
    Refused {
        /// Why.
        code: Code,
        /// The limit, if that is why.
        limit: u64,
        /// On what.
        bound: Bound,
    },
}

impl PeerReply {
    /// Header and payload.
    pub fn encode(&self) -> ([u8; CONTROL_REPLY_BYTES], Vec<u8>) {
        let mut header = [0; CONTROL_REPLY_BYTES];
        let mut w = Writer::new(&mut header);
        let mut payload = Vec::new();
        match self {
            Self::Own { session, reply } => {
                w.u16(1).u16(reply.number).u64(0).u32(0).u64(0);
                session.encode(&mut w);
                payload = reply.body.to_vec();
            }
            Self::Done => {
                w.u16(2);
            }
            Self::Refused { code, limit, bound } => {
                w.u16(3).u16(0).u16(*code as u16).u16(bound.thing as u16).u16(bound.side as u16);
                w.u16(0).u32(0).u64(*limit);
            }
        }
        (header, payload)
    }

    /// The answer in a foreign header and payload.
    ///
    /// # Errors
    /// It is none; the value says which field.
    pub fn decode(header: &[u8], payload: &[u8]) -> Result<Self, WireError> {
        if header.len() != CONTROL_REPLY_BYTES {
            return Err(WireError::Length { wanted: CONTROL_REPLY_BYTES, found: header.len() });
        }
        let mut r = Reader::new(header);
        let (what, number, code, thing, side) = (r.u16(), r.u16(), r.u16(), r.u16(), r.u16());
        let _zeros = (r.u16(), r.u32());
        let (limit, session) = (r.u64(), ObjectId::decode(&mut r));
        let wrong = |name, found: u16| WireError::Field { name, found: u64::from(found) };
        let reply = match what {
            1 => {
                let body = <[u8; REPLY_BODY_BYTES]>::try_from(payload);
                let length = WireError::Length { wanted: REPLY_BODY_BYTES, found: payload.len() };
                let body = body.map_err(|_| length)?;
                Self::Own { session, reply: Box::new(OwnReply { number, body }) }
            }
            2 => Self::Done,
            3 => Self::Refused {
                code: Code::from_number(code).ok_or(wrong("code", code))?,
                limit,
                bound: Bound {
                    thing: Thing::from_number(thing).ok_or(wrong("thing", thing))?,
                    side: Side::from_number(side).ok_or(wrong("side", side))?,
                },
            },
            found => return Err(WireError::Kind { found }),
        };
        // One answer has one form.
        if reply.encode().0 != *header || what != 1 && !payload.is_empty() {
            return Err(WireError::Reserved);
        }
        Ok(reply)
    }
}
