//! A request to the control plane of another node, and its answer.
//!
//! ```text
//! request  0 kind u16 (256), number u16, user u32, flags u32 (1 restricted), process u32, 112 bytes body
//! answer   0 what u16 (1 own, 2 done, 3 refused), number u16, code u16, thing u16, side u16, 0 u16,
//!            0 u32, limit u64, session             payload of an own answer: its body
//! ```
//! The body is that of the same request of a program (`request`), whose handle is one of those that the
//! user has there. Only what needs no descriptor can be asked.

use crate::code::{Code, Side, Thing};
use crate::memory::MemoryRequest;
use crate::name::ObjectId;
use crate::session::record::{Bound, OwnReply, OwnRequest, REPLY_BODY_BYTES, REQUEST_BODY_BYTES};
use crate::wire::{Reader, WireError, Writer};

const KIND: u16 = 256;
const RESTRICTED: u32 = 1;
/// Bytes of a request's header.
pub const CONTROL_BYTES: usize = 16 + REQUEST_BODY_BYTES;
/// Bytes of an answer's header.
pub const CONTROL_REPLY_BYTES: usize = 32;

/// What a user of another node asks of this control plane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerControl {
    /// Who, by that node's word.
    pub user: u32,
    /// Whether the program is restricted there: then it is somebody else than its user.
    pub is_restricted: bool,
    /// By which process there, for people.
    pub process: u32,
    /// What.
    pub request: MemoryRequest,
}

impl PeerControl {
    /// The header.
    pub fn encode(&self) -> [u8; CONTROL_BYTES] {
        let mut bytes = [0; CONTROL_BYTES];
        let own = self.request.encode();
        let mut w = Writer::new(&mut bytes);
        let flags = if self.is_restricted { RESTRICTED } else { 0 };
        w.u16(KIND).u16(own.number).u32(self.user).u32(flags).u32(self.process).put(&own.body);
        bytes
    }

    /// The request in a foreign header.
    ///
    /// # Errors
    /// It is none, or none that another node may make.
    pub fn decode(header: &[u8]) -> Result<Self, WireError> {
        if header.len() != CONTROL_BYTES {
            return Err(WireError::Length { wanted: CONTROL_BYTES, found: header.len() });
        }
        let mut r = Reader::new(header);
        let (kind, number) = (r.u16(), r.u16());
        let (user, flags, process) = (r.u32(), r.u32(), r.u32());
        if kind != KIND {
            return Err(WireError::Kind { found: kind });
        }
        if flags & !RESTRICTED != 0 {
            return Err(WireError::Field { name: "flags", found: u64::from(flags) });
        }
        let request = MemoryRequest::decode(&OwnRequest { number, body: r.take() })?;
        if !may_be_asked(&request) {
            return Err(WireError::Kind { found: number });
        }
        Ok(Self { user, is_restricted: flags & RESTRICTED != 0, process, request })
    }
}

/// Whether a node may ask another one for that.
fn may_be_asked(request: &MemoryRequest) -> bool {
    use MemoryRequest::*;
    match request {
        Allocate(_) | Map { .. } | MapRegion { .. } | Locate { .. } | Unmap { .. } => true,
        Free { .. } | Grow { .. } | Name { .. } | Appoint { .. } | Lasting { .. } => true,
        List { .. } | Move { .. } | MoveState { .. } => true,
        Stage(_) | Adopt { .. } => true,
        Arena { .. } | RegionPage | Presence { .. } | Session | AskMe { .. } | NextAsked => false,
        Answer { .. } | EndSession | On { .. } | Replicate(_) | Class { .. } => false,
    }
}

/// What that control plane answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeerReply {
    /// An answer of the memory service, by somebody who is this session there.
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
        let zeros = (r.u16(), r.u32());
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
        if zeros != (0, 0) || reply.encode().0 != *header || what != 1 && !payload.is_empty() {
            return Err(WireError::Reserved);
        }
        Ok(reply)
    }
}
