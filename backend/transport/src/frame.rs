//! The head of a message between nodes: what kind it is, which call it belongs to, and credit.
//!
//! ```text
//!  0  u8   kind                    1 hello .. 5 refuse: the handshake; 6 request, 7 post, 8 reply,
//!                                  9 withdraw, 10 alive, 11 goodbye
//!  1  u8   code                    reply: 0 answered, 1 refused; else 0
//!  2  u16  0
//!  4  u32  index of the call       request, reply, withdraw; else 0
//!  8  u32  generation of the call  as above
//! 12  u32  0
//! 16  u64  ns left for the answer  request; else 0
//! 24  u64  bytes of requests and posts that the sender has released since the link began
//! 32  u64  bytes of replies that it has released
//! 40  the program's header         request, post, reply; else nothing
//! ```
//!
//! All numbers are little-endian. What comes from another node is read by [`Frame::decode`] alone.

use crate::limits::{HEADER_BYTES_MAX, HEAD_BYTES};

/// One message, read and checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// What it is.
    pub kind: FrameKind,
    /// What the sender has released of what came to it.
    pub released: Released,
    /// The program's own header; empty where the kind has none.
    pub header: Vec<u8>,
}

/// Bytes of each class that a receiver has released since the link began.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Released {
    /// Of requests and posts.
    pub requests: u64,
    /// Of replies.
    pub replies: u64,
}

/// The number of a call at the side that made it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallId {
    /// Its place in the table.
    pub index: u32,
    /// Which of the calls that had this place.
    pub generation: u32,
}

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameKind {
    /// A record of the handshake, in the payload.
    Handshake(HandshakeKind),
    /// A call; its answer carries its number.
    Request {
        /// The caller's number for it.
        call: CallId,
        /// How long the caller waits from now on.
        left_ns: u64,
    },
    /// A message without an answer.
    Post,
    /// The answer to a call.
    Reply {
        /// The caller's number for it.
        call: CallId,
        /// Whether the other side refused to do it.
        is_refusal: bool,
    },
    /// The caller wants no answer any more.
    Withdraw {
        /// Its number for the call.
        call: CallId,
    },
    /// A sign of life, and credit.
    Alive,
    /// The sender leaves; it answers nothing that comes later.
    Goodbye,
}

/// The records of the handshake, in their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandshakeKind {
    /// Who connects says who it is.
    Hello = 1,
    /// Who listens says who it is, and what is to be proven.
    Challenge = 2,
    /// Who connects proves that it knows the secret.
    Proof = 3,
    /// Who listens proves it too.
    Welcome = 4,
    /// Either side says why not.
    Refuse = 5,
}

/// What is wrong with a message of another node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameError {
    /// The head has another length than its kind allows.
    Length {
        /// The bytes that came.
        found: usize,
    },
    /// No kind has this number.
    Kind(u8),
    /// No code of this kind has this number.
    Code(u8),
    /// A field that is zero in this kind is not.
    NotZero,
    /// A payload where the kind has none.
    Payload {
        /// The bytes that came.
        found: usize,
    },
}

const REQUEST: u8 = 6;
const POST: u8 = 7;
const REPLY: u8 = 8;
const WITHDRAW: u8 = 9;
const ALIVE: u8 = 10;
const GOODBYE: u8 = 11;
const HANDSHAKE: [HandshakeKind; 5] = [
    HandshakeKind::Hello,
    HandshakeKind::Challenge,
    HandshakeKind::Proof,
    HandshakeKind::Welcome,
    HandshakeKind::Refuse,
];

impl Frame {
    /// The head's bytes, the program's header included.
    pub fn encode(&self) -> Vec<u8> {
        let fields = Fields::of(&self.kind);
        let mut head = Vec::with_capacity(HEAD_BYTES + self.header.len());
        head.extend_from_slice(&[fields.kind, fields.code, 0, 0]);
        head.extend_from_slice(&fields.index.to_le_bytes());
        head.extend_from_slice(&fields.generation.to_le_bytes());
        head.extend_from_slice(&[0; 4]);
        head.extend_from_slice(&fields.left_ns.to_le_bytes());
        head.extend_from_slice(&self.released.requests.to_le_bytes());
        head.extend_from_slice(&self.released.replies.to_le_bytes());
        head.extend_from_slice(&self.header);
        head
    }

    /// Reads a head that came with a payload of `payload_bytes`.
    pub fn decode(head: &[u8], payload_bytes: usize) -> Result<Frame, FrameError> {
        let length = FrameError::Length { found: head.len() };
        let (fixed, header) = head.split_first_chunk::<HEAD_BYTES>().ok_or(length)?;
        if header.len() > HEADER_BYTES_MAX {
            return Err(length);
        }
        let fields = Fields {
            kind: fixed[0],
            code: fixed[1],
            index: u32_at(fixed, 4),
            generation: u32_at(fixed, 8),
            left_ns: u64_at(fixed, 16),
        };
        if fixed[2..4] != [0; 2] || fixed[12..16] != [0; 4] {
            return Err(FrameError::NotZero);
        }
        let kind = fields.kind()?;
        if Fields::of(&kind) != fields {
            return Err(FrameError::NotZero);
        }
        if !kind.has_header() && !header.is_empty() {
            return Err(length);
        }
        if !kind.has_payload() && payload_bytes != 0 {
            return Err(FrameError::Payload { found: payload_bytes });
        }
        let released = Released { requests: u64_at(fixed, 24), replies: u64_at(fixed, 32) };
        Ok(Frame { kind, released, header: header.to_vec() })
    }
}

impl FrameKind {
    fn has_header(&self) -> bool {
        matches!(self, FrameKind::Request { .. } | FrameKind::Post | FrameKind::Reply { .. })
    }

    fn has_payload(&self) -> bool {
        self.has_header() || matches!(self, FrameKind::Handshake(_))
    }
}

/// The head's fields before it is clear what they mean.
#[derive(PartialEq, Eq)]
struct Fields {
    kind: u8,
    code: u8,
    index: u32,
    generation: u32,
    left_ns: u64,
}

impl Fields {
    fn of(kind: &FrameKind) -> Fields {
        let plain = |kind| Fields { kind, code: 0, index: 0, generation: 0, left_ns: 0 };
        let with = |kind, call: &CallId| Fields {
            index: call.index,
            generation: call.generation,
            ..plain(kind)
        };
        match kind {
            FrameKind::Handshake(record) => plain(*record as u8),
            FrameKind::Request { call, left_ns } => {
                Fields { left_ns: *left_ns, ..with(REQUEST, call) }
            }
            FrameKind::Post => plain(POST),
            FrameKind::Reply { call, is_refusal } => {
                Fields { code: u8::from(*is_refusal), ..with(REPLY, call) }
            }
            FrameKind::Withdraw { call } => with(WITHDRAW, call),
            FrameKind::Alive => plain(ALIVE),
            FrameKind::Goodbye => plain(GOODBYE),
        }
    }

    /// The kind; fields that it does not have are not looked at.
    fn kind(&self) -> Result<FrameKind, FrameError> {
        let call = CallId { index: self.index, generation: self.generation };
        if self.code > u8::from(self.kind == REPLY) {
            return Err(FrameError::Code(self.code));
        }
        if let Some(record) = HANDSHAKE.into_iter().find(|record| *record as u8 == self.kind) {
            return Ok(FrameKind::Handshake(record));
        }
        match self.kind {
            REQUEST => Ok(FrameKind::Request { call, left_ns: self.left_ns }),
            POST => Ok(FrameKind::Post),
            REPLY => Ok(FrameKind::Reply { call, is_refusal: self.code == 1 }),
            WITHDRAW => Ok(FrameKind::Withdraw { call }),
            ALIVE => Ok(FrameKind::Alive),
            GOODBYE => Ok(FrameKind::Goodbye),
            other => Err(FrameError::Kind(other)),
        }
    }
}

/// Reads a number whose place is within `bytes` by the caller's layout.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

/// As [`u32_at`].
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

#[cfg(test)]
mod tests;
