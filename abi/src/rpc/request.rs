//! What is asked of the service of remote procedure calls: the bodies of its records.
//!
//! ```text
//! 0 Publish  others u32, request u32, reply u32, queue u32, name
//! 1 Find     user u32, node u32, name
//! 2 Leave    function, roles u32 (1 serves, 2 calls)
//! 3 Session  -                                  [window]
//! 4 List     user u32, from u32, beginning
//! 5 ListOn   node u32, user u32, from u32, beginning
//! ```
//! A function is an object id (8 bytes), a name 68 bytes: its length u32 and 64 bytes.

use super::limits::{PAYLOAD_BYTES_MAX, QUEUE_MAX};
use super::name::{self, FunctionName};
use crate::name::ObjectId;
use crate::session::record::{OwnRequest, REQUEST_BODY_BYTES};
use crate::wire::{Reader, WireError, Writer};

/// The number of the service in the protocol.
pub const SERVICE: u16 = 8;
/// The number of its first request.
pub const FIRST: u16 = SERVICE << 8;

const SERVES: u32 = 1;
const CALLS: u32 = 2;

/// The numbers of requests, each given once.
pub mod number {
    use super::FIRST;

    /// Of Publish.
    pub const PUBLISH: u16 = FIRST;
    /// Of Find.
    pub const FIND: u16 = FIRST + 1;
    /// Of Leave.
    pub const LEAVE: u16 = FIRST + 2;
    /// Of Session.
    pub const SESSION: u16 = FIRST + 3;
    /// Of List.
    pub const LIST: u16 = FIRST + 4;
    /// Of ListOn.
    pub const LIST_ON: u16 = FIRST + 5;
}

/// What a function is to be. Who serves one that is there already gets it as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Publication {
    /// Its name, among those of the publisher's user.
    pub name: FunctionName,
    /// Whether programs of other users may call it, as far as rules allow it.
    pub others: bool,
    /// Bytes that a call's payload may have.
    pub request_bytes: u32,
    /// Bytes that a reply may have.
    pub reply_bytes: u32,
    /// Messages sent one way that may wait; at least one.
    pub queue: u32,
}

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RpcRequest {
    /// The session serves a function from now on.
    Publish(Publication),
    /// The session wants to call the function of a name.
    Find {
        /// Among whose names: a user, or [`name::OWN_USER`].
        user: u32,
        /// On which node of the cluster, or [`name::THIS_NODE`].
        node: u32,
        /// Which.
        name: FunctionName,
    },
    /// The session does not serve, or not call, a function any more.
    Leave {
        /// Which.
        function: ObjectId,
        /// It serves it no more.
        serves: bool,
        /// It calls it no more.
        calls: bool,
    },
    /// Operations will be delegated: brings [window], the reply brings [rings].
    Session,
    /// Which functions there are.
    List {
        /// Of one user, or of all that the asker may see ([`name::OWN_USER`]).
        user: u32,
        /// The first index that is looked at.
        from: u32,
        /// What their names begin with; empty for all.
        beginning: String,
    },
    /// Which functions there are on another node.
    ListOn {
        /// On which.
        node: u32,
        /// As for List.
        user: u32,
        /// The first index that is looked at.
        from: u32,
        /// What their names begin with; empty for all.
        beginning: String,
    },
}

impl RpcRequest {
    /// Its number in the protocol.
    pub fn number(&self) -> u16 {
        match self {
            Self::Publish(_) => number::PUBLISH,
            Self::Find { .. } => number::FIND,
            Self::Leave { .. } => number::LEAVE,
            Self::Session => number::SESSION,
            Self::List { .. } => number::LIST,
            Self::ListOn { .. } => number::LIST_ON,
        }
    }

    /// The record.
    pub fn encode(&self) -> OwnRequest {
        let mut body = [0; REQUEST_BODY_BYTES];
        let mut w = Writer::new(&mut body);
        match self {
            Self::Publish(Publication { name, others, request_bytes, reply_bytes, queue }) => {
                w.u32(u32::from(*others)).u32(*request_bytes).u32(*reply_bytes).u32(*queue);
                name::encode(name.as_str(), &mut w);
            }
            Self::Find { user, node, name } => {
                w.u32(*user).u32(*node);
                name::encode(name.as_str(), &mut w);
            }
            Self::Leave { function, serves, calls } => {
                function.encode(&mut w);
                let bit = |is: bool, role| if is { role } else { 0 };
                w.u32(bit(*serves, SERVES) | bit(*calls, CALLS));
            }
            Self::Session => {}
            Self::List { user, from, beginning } => {
                w.u32(*user).u32(*from);
                name::encode(beginning, &mut w);
            }
            Self::ListOn { node, user, from, beginning } => {
                w.u32(*node).u32(*user).u32(*from);
                name::encode(beginning, &mut w);
            }
        }
        OwnRequest { number: self.number(), body }
    }

    /// The request in a record's foreign body.
    ///
    /// # Errors
    /// It is none; the value says which field.
    pub fn decode(own: &OwnRequest) -> Result<Self, WireError> {
        let mut r = Reader::new(&own.body);
        let request = match own.number {
            number::PUBLISH => Self::Publish(take_publication(&mut r)?),
            number::FIND => {
                let (user, node) = (r.u32(), r.u32());
                Self::Find { user, node, name: name::decode(&mut r)? }
            }
            number::LEAVE => take_leave(&mut r)?,
            number::SESSION => Self::Session,
            number::LIST => {
                let (user, from) = (r.u32(), r.u32());
                Self::List { user, from, beginning: name::decode_text(&mut r)? }
            }
            number::LIST_ON => {
                let (node, user, from) = (r.u32(), r.u32(), r.u32());
                Self::ListOn { node, user, from, beginning: name::decode_text(&mut r)? }
            }
            found => return Err(WireError::Kind { found }),
        };
        if !r.rest_is_zero() {
            return Err(WireError::Reserved);
        }
        Ok(request)
    }
}

fn take_leave(r: &mut Reader<'_>) -> Result<RpcRequest, WireError> {
    let function = ObjectId::decode(r);
    match r.u32() {
        roles if (1..=SERVES | CALLS).contains(&roles) => {
            let (serves, calls) = (roles & SERVES != 0, roles & CALLS != 0);
            Ok(RpcRequest::Leave { function, serves, calls })
        }
        found => Err(WireError::Field { name: "roles", found: u64::from(found) }),
    }
}

fn take_publication(r: &mut Reader<'_>) -> Result<Publication, WireError> {
    let others = match r.u32() {
        0 => false,
        1 => true,
        found => return Err(WireError::Field { name: "others", found: u64::from(found) }),
    };
    let request_bytes = take_at_most(r, "request bytes", PAYLOAD_BYTES_MAX)?;
    let reply_bytes = take_at_most(r, "reply bytes", PAYLOAD_BYTES_MAX)?;
    let queue = take_at_most(r, "queue", QUEUE_MAX)?;
    if queue == 0 {
        return Err(WireError::Field { name: "queue", found: 0 });
    }
    Ok(Publication { name: name::decode(r)?, others, request_bytes, reply_bytes, queue })
}

fn take_at_most(r: &mut Reader<'_>, name: &'static str, most: u32) -> Result<u32, WireError> {
    match r.u32() {
        value if value <= most => Ok(value),
        found => Err(WireError::Field { name, found: u64::from(found) }),
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
