//! A call to a function of another node, what ends it early, and its reply: the headers of messages.
//!
//! ```text
//! 0 kind u16 (1 Call, 2 Leave, 3 Reply)   8 call    of who calls: Leave and Reply name it
//! 2 u16   Call: 1 one way, 2 now or never  16 user   Call: the session of the caller's user there
//!         Reply: 0 done, 1 no, 2 its server 24 function  Call: there
//!                ended                     32 session   Call: the caller's, for people
//! 4 process u32  Call: the caller's        40 left u64  Call: microseconds it waits, 0 for ever
//! ```
//! What a message does not have is 0.

use crate::name::ObjectId;
use crate::wire::{Reader, WireError, Writer};

/// Bytes of each header.
pub const MESSAGE_BYTES: usize = 48;

const CALL: u16 = 1;
const LEAVE: u16 = 2;
const REPLY: u16 = 3;
const ONE_WAY: u16 = 1;
const NOW: u16 = 2;

/// A call, or a message that is sent one way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FarCall {
    /// By this its reply names it.
    pub call: ObjectId,
    /// What the caller's user is there.
    pub user: ObjectId,
    /// Which function there.
    pub function: ObjectId,
    /// The caller's session, by its own node's word.
    pub session: ObjectId,
    /// Its process, likewise.
    pub process: u32,
    /// It is sent one way.
    pub is_one_way: bool,
    /// Where there is no room in line now it is not sent.
    pub is_now: bool,
    /// Microseconds for which the caller waits; 0 for ever.
    pub left_us: u64,
}

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FarReply {
    /// The payload is the reply.
    Done,
    /// The function ran and says no; the payload says why.
    No,
    /// Its server ended before it answered. No payload.
    ServerEnded,
}

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerMessage {
    /// A call.
    Call(FarCall),
    /// Nobody waits for a call of this node any more.
    Leave {
        /// Which.
        call: ObjectId,
    },
    /// A call of the node that is told has ended.
    Reply {
        /// Which.
        call: ObjectId,
        /// How.
        how: FarReply,
    },
}

impl PeerMessage {
    /// The header.
    pub fn encode(&self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        let mut w = Writer::new(&mut bytes);
        match self {
            Self::Call(it) => {
                let bit = |is: bool, bit| if is { bit } else { 0 };
                w.u16(CALL).u16(bit(it.is_one_way, ONE_WAY) | bit(it.is_now, NOW)).u32(it.process);
                [it.call, it.user, it.function, it.session].iter().for_each(|id| id.encode(&mut w));
                w.u64(it.left_us);
            }
            Self::Leave { call } => {
                w.u16(LEAVE).u16(0).u32(0);
                call.encode(&mut w);
            }
            Self::Reply { call, how } => {
                w.u16(REPLY).u16(how.number()).u32(0);
                call.encode(&mut w);
            }
        }
        bytes
    }

    /// The message in a foreign header.
    ///
    /// # Errors
    /// It is none; the value says which field.
    pub fn decode(header: &[u8]) -> Result<Self, WireError> {
        if header.len() != MESSAGE_BYTES {
            return Err(WireError::Length { wanted: MESSAGE_BYTES, found: header.len() });
        }
        let mut r = Reader::new(header);
        let (kind, flags, process) = (r.u16(), r.u16(), r.u32());
        let call = ObjectId::decode(&mut r);
        let message = match kind {
            CALL => {
                let user = ObjectId::decode(&mut r);
                let function = ObjectId::decode(&mut r);
                let session = ObjectId::decode(&mut r);
                let (is_one_way, is_now) = (flags & ONE_WAY != 0, flags & NOW != 0);
                let left_us = r.u64();
                Self::Call(FarCall {
                    call,
                    user,
                    function,
                    session,
                    process,
                    is_one_way,
                    is_now,
                    left_us,
                })
            }
            LEAVE => Self::Leave { call },
            REPLY => {
                let wrong = WireError::Field { name: "reply", found: u64::from(flags) };
                Self::Reply { call, how: FarReply::from_number(flags).ok_or(wrong)? }
            }
            found => return Err(WireError::Kind { found }),
        };
        // One message has one form.
        if message.encode() != *header {
            return Err(WireError::Reserved);
        }
        Ok(message)
    }
}

impl FarReply {
    const fn number(self) -> u16 {
        match self {
            Self::Done => 0,
            Self::No => 1,
            Self::ServerEnded => 2,
        }
    }

    fn from_number(number: u16) -> Option<Self> {
        [Self::Done, Self::No, Self::ServerEnded].into_iter().find(|it| it.number() == number)
    }
}
