//! What is asked of the lock service: the bodies of its records.
//!
//! ```text
//! 0 Open     user u32, kind u32, count u32, flags u32, name
//! 1 Close    handle                        5 Next    -
//! 2 Acquire  handle, claim, wait u32       6 Arrive  handle
//! 3 Release  ticket, untouched u32         7 Reset   handle
//! 4 Cancel   ticket                        8 Bell    -                     [bell]
//!                                          9 List    user u32, from u32, beginning
//!                                         10 On      node u64, number u32, body
//! ```
//! A handle or ticket is an object id (8 bytes), a claim two u32 (which, permits), a name 68 bytes: its
//! length u32 and 64 bytes.

use super::name::{self, LockName};
use super::shape::{Claim, Shape};
use crate::name::ObjectId;
use crate::name_record::encode as put_text;
use crate::session::record::{OwnRequest, REQUEST_BODY_BYTES};
use crate::wire::{Reader, WireError, Writer};

/// The number of the service in the protocol.
pub const SERVICE: u16 = 7;
/// The number of its first request.
pub const FIRST: u16 = SERVICE << 8;

/// The numbers of requests, each given once.
pub mod number {
    use super::FIRST;

    /// Of Open.
    pub const OPEN: u16 = FIRST;
    /// Of Close.
    pub const CLOSE: u16 = FIRST + 1;
    /// Of Acquire.
    pub const ACQUIRE: u16 = FIRST + 2;
    /// Of Release.
    pub const RELEASE: u16 = FIRST + 3;
    /// Of Cancel.
    pub const CANCEL: u16 = FIRST + 4;
    /// Of Next.
    pub const NEXT: u16 = FIRST + 5;
    /// Of Arrive.
    pub const ARRIVE: u16 = FIRST + 6;
    /// Of Reset.
    pub const RESET: u16 = FIRST + 7;
    /// Of Bell.
    pub const BELL: u16 = FIRST + 8;
    /// Of List.
    pub const LIST: u16 = FIRST + 9;
    /// Of On.
    pub const ON: u16 = FIRST + 10;
}

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LockRequest {
    /// A handle on the lock of a name, which is made if there is none.
    Open {
        /// Among whose names: a user, or [`name::OWN_USER`].
        user: u32,
        /// Which.
        name: LockName,
        /// What it is.
        shape: Shape,
    },
    /// A handle is given back, with all that was acquired by it.
    Close {
        /// Which.
        handle: ObjectId,
    },
    /// A ticket for what is claimed.
    Acquire {
        /// By which handle.
        handle: ObjectId,
        /// What.
        claim: Claim,
        /// Whether it waits where it must; else the answer is `Busy`.
        wait: bool,
    },
    /// What a ticket holds is given back.
    Release {
        /// Which.
        ticket: ObjectId,
        /// Whether its holder has done nothing under it, so that a death before it is told further.
        untouched: bool,
    },
    /// A ticket does not wait any more. Where it has what it waited for that is the answer.
    Cancel {
        /// Which.
        ticket: ObjectId,
    },
    /// What became of tickets since this was asked last.
    Next,
    /// A participant is at a barrier.
    Arrive {
        /// By which handle.
        handle: ObjectId,
    },
    /// Whoever waits at a barrier is told that it is broken, and it is whole again.
    Reset {
        /// By which handle.
        handle: ObjectId,
    },
    /// Rings when there is something for `Next`: brings [bell], an end of a connected pair of unix
    /// sockets, since only those can be rung without waiting. A second one takes the place of the first.
    Bell,
    /// Which locks there are.
    List {
        /// Of one user, or of all that the asker may see ([`name::OWN_USER`]).
        user: u32,
        /// The first index that is looked at.
        from: u32,
        /// What their names begin with; empty for all.
        beginning: String,
    },
    /// Open or List, on another node, whose control plane decides.
    On {
        /// Which.
        node: u64,
        /// What.
        request: Box<LockRequest>,
    },
}

impl LockRequest {
    /// Its number in the protocol.
    pub fn number(&self) -> u16 {
        match self {
            Self::Open { .. } => number::OPEN,
            Self::Close { .. } => number::CLOSE,
            Self::Acquire { .. } => number::ACQUIRE,
            Self::Release { .. } => number::RELEASE,
            Self::Cancel { .. } => number::CANCEL,
            Self::Next => number::NEXT,
            Self::Arrive { .. } => number::ARRIVE,
            Self::Reset { .. } => number::RESET,
            Self::Bell => number::BELL,
            Self::List { .. } => number::LIST,
            Self::On { .. } => number::ON,
        }
    }

    /// The record.
    pub fn encode(&self) -> OwnRequest {
        let mut body = [0; REQUEST_BODY_BYTES];
        self.put(&mut Writer::new(&mut body));
        OwnRequest { number: self.number(), body }
    }

    fn put(&self, w: &mut Writer<'_>) {
        match self {
            Self::Open { user, name, shape } => {
                w.u32(*user);
                put_text(name.as_str(), shape.encode(w));
            }
            Self::Acquire { handle, claim, wait } => {
                handle.encode(w);
                claim.encode(w).u32(u32::from(*wait));
            }
            Self::Release { ticket, untouched } => {
                ticket.encode(w);
                w.u32(u32::from(*untouched));
            }
            Self::List { user, from, beginning } => {
                put_text(beginning, w.u32(*user).u32(*from));
            }
            Self::Close { handle: id }
            | Self::Cancel { ticket: id }
            | Self::Arrive { handle: id }
            | Self::Reset { handle: id } => id.encode(w),
            Self::On { node, request } => {
                w.u64(*node).u32(u32::from(request.number()));
                request.put(w);
            }
            Self::Next | Self::Bell => {}
        }
    }

    /// The request in a record's foreign body.
    ///
    /// # Errors
    /// It is none; the value says which field.
    pub fn decode(own: &OwnRequest) -> Result<Self, WireError> {
        let mut r = Reader::new(&own.body);
        let request = Self::take(own.number, &mut r)?;
        if !r.rest_is_zero() {
            return Err(WireError::Reserved);
        }
        Ok(request)
    }

    fn take(found: u16, r: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(match found {
            number::OPEN => {
                let (user, shape) = (r.u32(), Shape::decode(r)?);
                Self::Open { user, shape, name: name::decode(r)? }
            }
            number::CLOSE => Self::Close { handle: ObjectId::decode(r) },
            number::ACQUIRE => {
                let (handle, claim) = (ObjectId::decode(r), Claim::decode(r)?);
                Self::Acquire { handle, claim, wait: take_flag("wait", r)? }
            }
            number::RELEASE => {
                let ticket = ObjectId::decode(r);
                Self::Release { ticket, untouched: take_flag("untouched", r)? }
            }
            number::CANCEL => Self::Cancel { ticket: ObjectId::decode(r) },
            number::NEXT => Self::Next,
            number::ARRIVE => Self::Arrive { handle: ObjectId::decode(r) },
            number::RESET => Self::Reset { handle: ObjectId::decode(r) },
            number::BELL => Self::Bell,
            number::LIST => {
                let (user, from) = (r.u32(), r.u32());
                Self::List { user, from, beginning: name::decode_text(r)? }
            }
            number::ON => take_on(r)?,
            _ => return Err(WireError::Kind { found }),
        })
    }
}

fn take_on(r: &mut Reader<'_>) -> Result<LockRequest, WireError> {
    let (node, found) = (r.u64(), r.u32());
    let wrong = WireError::Field { name: "request on a node", found: u64::from(found) };
    let known = [number::OPEN, number::LIST];
    let number = known.into_iter().find(|it| u32::from(*it) == found).ok_or(wrong)?;
    Ok(LockRequest::On { node, request: Box::new(LockRequest::take(number, r)?) })
}

fn take_flag(name: &'static str, r: &mut Reader<'_>) -> Result<bool, WireError> {
    match r.u32() {
        0 => Ok(false),
        1 => Ok(true),
        found => Err(WireError::Field { name, found: u64::from(found) }),
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
