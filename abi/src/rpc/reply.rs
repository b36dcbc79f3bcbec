//! What the service of remote procedure calls answers: the bodies of its replies. Others are Done and
//! Refused.
//!
//! ```text
//! Granted  0 function, user u32, node u32            Session  0 depth u32, functions u32   [rings]
//!         16 request u32, reply u32, queue u32,      Listed   0 count u32, next u32, 0 u64
//!            flags u32 (1 others may call)                   16 count entries of 104 bytes:
//!                                                              function, user u32, servers u32,
//!                                                              callers u32, request u32, reply u32,
//!                                                              age u32 (seconds), flags u32, name
//! ```

use super::limits::{LISTED_PER_REPLY_MAX, PAYLOAD_BYTES_MAX};
use super::name::{self, FunctionName};
use super::request::FIRST;
use crate::name::ObjectId;
use crate::session::record::{OwnReply, REPLY_BODY_BYTES};
use crate::snapshot::region_name::NAME_BYTES;
use crate::wire::{Reader, WireError, Writer};

const GRANTED: u16 = FIRST + 128;
const SESSION: u16 = FIRST + 129;
const LISTED: u16 = FIRST + 130;

const OTHERS: u32 = 1;
const LISTED_HEAD_BYTES: usize = 16;
const LISTED_ENTRY_BYTES: usize = 36 + 4 + NAME_BYTES;
/// `Listed::next` when there are no more.
pub const NO_MORE: u32 = u32::MAX;

const _: () =
    assert!(LISTED_HEAD_BYTES + LISTED_PER_REPLY_MAX * LISTED_ENTRY_BYTES <= REPLY_BODY_BYTES);

/// A function that a session may serve or call, and what it carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FunctionInfo {
    /// Its identity; the next one of its name has another.
    pub function: ObjectId,
    /// Whose it is.
    pub user: u32,
    /// The node that serves it.
    pub node: u32,
    /// Bytes that a call's payload may have.
    pub request_bytes: u32,
    /// Bytes that a reply may have.
    pub reply_bytes: u32,
    /// Messages sent one way that may wait.
    pub queue: u32,
    /// Whether programs of other users may call it.
    pub others: bool,
}

/// One function, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedFunction {
    /// Its identity.
    pub function: ObjectId,
    /// Whose it is.
    pub user: u32,
    /// Sessions that serve it.
    pub servers: u32,
    /// Sessions that have found it.
    pub callers: u32,
    /// Bytes that a call's payload may have.
    pub request_bytes: u32,
    /// Bytes that a reply may have.
    pub reply_bytes: u32,
    /// Seconds since it was published.
    pub age_s: u32,
    /// Whether programs of other users may call it.
    pub others: bool,
    /// Its name.
    pub name: FunctionName,
}

/// A reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RpcReply {
    /// To Publish and Find.
    Granted(FunctionInfo),
    /// To Session [its rings].
    Session {
        /// Operations that may be under way.
        depth: u32,
        /// Functions that the session may serve and call.
        functions: u32,
    },
    /// To List.
    Listed {
        /// Some functions, in order of index.
        functions: Vec<ListedFunction>,
        /// The index to go on from, or [`NO_MORE`].
        next: u32,
    },
}

impl RpcReply {
    /// The record.
    pub fn encode(&self) -> OwnReply {
        let mut body = [0; REPLY_BODY_BYTES];
        let mut w = Writer::new(&mut body);
        let number = match self {
            Self::Granted(info) => {
                info.encode(&mut w);
                GRANTED
            }
            Self::Session { depth, functions } => {
                w.u32(*depth).u32(*functions);
                SESSION
            }
            Self::Listed { functions, next } => {
                w.u32(functions.len() as u32).u32(*next).u64(0);
                functions.iter().for_each(|function| function.encode(&mut w));
                LISTED
            }
        };
        OwnReply { number, body }
    }

    /// The reply in a record's foreign body.
    ///
    /// # Errors
    /// It is none; the value says which field.
    pub fn decode(own: &OwnReply) -> Result<Self, WireError> {
        let mut r = Reader::new(&own.body);
        let reply = match own.number {
            GRANTED => Self::Granted(FunctionInfo::decode(&mut r)?),
            SESSION => Self::Session { depth: r.u32(), functions: r.u32() },
            LISTED => take_listed(&mut r)?,
            found => return Err(WireError::Kind { found }),
        };
        if !r.rest_is_zero() {
            return Err(WireError::Reserved);
        }
        Ok(reply)
    }
}

impl FunctionInfo {
    fn encode(&self, w: &mut Writer<'_>) {
        self.function.encode(w);
        w.u32(self.user).u32(self.node).u32(self.request_bytes).u32(self.reply_bytes);
        w.u32(self.queue).u32(if self.others { OTHERS } else { 0 });
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let function = ObjectId::decode(r);
        let (user, node) = (r.u32(), r.u32());
        let (request_bytes, reply_bytes) = (take_payload(r)?, take_payload(r)?);
        let queue = r.u32();
        Ok(Self { function, user, node, request_bytes, reply_bytes, queue, others: take_flags(r)? })
    }
}

impl ListedFunction {
    fn encode(&self, w: &mut Writer<'_>) {
        self.function.encode(w);
        w.u32(self.user).u32(self.servers).u32(self.callers);
        w.u32(self.request_bytes).u32(self.reply_bytes).u32(self.age_s);
        w.u32(if self.others { OTHERS } else { 0 });
        name::encode(self.name.as_str(), w);
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let function = ObjectId::decode(r);
        let (user, servers, callers) = (r.u32(), r.u32(), r.u32());
        let (request_bytes, reply_bytes) = (take_payload(r)?, take_payload(r)?);
        let age_s = r.u32();
        let others = take_flags(r)?;
        let name = name::decode(r)?;
        let one = Self {
            function,
            user,
            servers,
            callers,
            request_bytes,
            reply_bytes,
            age_s,
            others,
            name,
        };
        Ok(one)
    }
}

/// Whoever makes room for a payload believes no number that is larger than any can be.
fn take_payload(r: &mut Reader<'_>) -> Result<u32, WireError> {
    match r.u32() {
        bytes if bytes <= PAYLOAD_BYTES_MAX => Ok(bytes),
        found => Err(WireError::Field { name: "payload bytes", found: u64::from(found) }),
    }
}

fn take_flags(r: &mut Reader<'_>) -> Result<bool, WireError> {
    match r.u32() {
        0 => Ok(false),
        OTHERS => Ok(true),
        found => Err(WireError::Field { name: "flags", found: u64::from(found) }),
    }
}

fn take_listed(r: &mut Reader<'_>) -> Result<RpcReply, WireError> {
    let (count, next, zero) = (r.u32(), r.u32(), r.u64());
    if count as usize > LISTED_PER_REPLY_MAX {
        return Err(WireError::Field { name: "functions", found: u64::from(count) });
    }
    if zero != 0 {
        return Err(WireError::Reserved);
    }
    let functions = (0..count).map(|_| ListedFunction::decode(r)).collect::<Result<_, _>>()?;
    Ok(RpcReply::Listed { functions, next })
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
