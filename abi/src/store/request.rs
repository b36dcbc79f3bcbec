//! What is asked of the store service: the bodies of its records.
//!
//! ```text
//!  0 Create     bytes u64, kind u32, others u32, rights u32, way u32, alone u32, name
//!  1 Open       user u32, rights u32, way u32, alone u32, name
//!  2 Close      handle
//!  3 Resize     handle, bytes u64
//!  4 Appoint    handle, others u32
//!  5 Delete     handle
//!  6 SetRate    handle, bytes in a second u64
//!  7 List       user u32, from u32, beginning
//!  8 Pieces     handle, from u32
//!  9 Session    -                                  [window]
//! 10 EndSession -
//! 11 Store      -
//! 12 Attach     -                                  [the file or disk]
//! 13 Detach     -
//! 14 Outcome    -
//! ```
//! A handle is an object id (8 bytes), a name 68 bytes: its length u32 and 64 bytes.

use super::alone::Alone;
use super::name::{self, AreaName};
use super::way::WayWanted;
use super::{AreaKind, AreaRights};
use crate::name::ObjectId;
use crate::session::record::{OwnRequest, REQUEST_BODY_BYTES};
use crate::wire::{Reader, WireError, Writer};

/// The number of the service in the protocol.
pub const SERVICE: u16 = 11;
/// The number of its first request.
pub const FIRST: u16 = SERVICE << 8;

/// The numbers of requests, each given once.
pub mod number {
    use super::FIRST;

    /// Of Create.
    pub const CREATE: u16 = FIRST;
    /// Of Open.
    pub const OPEN: u16 = FIRST + 1;
    /// Of Close.
    pub const CLOSE: u16 = FIRST + 2;
    /// Of Resize.
    pub const RESIZE: u16 = FIRST + 3;
    /// Of Appoint.
    pub const APPOINT: u16 = FIRST + 4;
    /// Of Delete.
    pub const DELETE: u16 = FIRST + 5;
    /// Of SetRate.
    pub const SET_RATE: u16 = FIRST + 6;
    /// Of List.
    pub const LIST: u16 = FIRST + 7;
    /// Of Pieces.
    pub const PIECES: u16 = FIRST + 8;
    /// Of Session.
    pub const SESSION: u16 = FIRST + 9;
    /// Of EndSession.
    pub const END_SESSION: u16 = FIRST + 10;
    /// Of Store.
    pub const STORE: u16 = FIRST + 11;
    /// Of Attach.
    pub const ATTACH: u16 = FIRST + 12;
    /// Of Detach.
    pub const DETACH: u16 = FIRST + 13;
    /// Of Outcome.
    pub const OUTCOME: u16 = FIRST + 14;
}

/// What an area is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Creation {
    /// Its name, among those of the asker's user.
    pub name: AreaName,
    /// Its size, a multiple of the store's grain.
    pub bytes: u64,
    /// What it is for.
    pub kind: AreaKind,
    /// What other users may.
    pub others: AreaRights,
    /// What the handle allows that the answer brings.
    pub rights: AreaRights,
    /// By which way.
    pub way: WayWanted,
    /// Whether no other session may write it.
    pub alone: Alone,
}

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreRequest {
    /// Makes an area and opens it.
    Create(Creation),
    /// Gives the session a handle on an area.
    Open {
        /// Among whose names: a user, or [`name::OWN_USER`].
        user: u32,
        /// Which.
        name: AreaName,
        /// What the handle is to allow.
        rights: AreaRights,
        /// By which way.
        way: WayWanted,
        /// Whether no other session may write it.
        alone: Alone,
    },
    /// Gives a handle back.
    Close {
        /// Which.
        handle: ObjectId,
    },
    /// Gives an area another size.
    Resize {
        /// A handle that allows to manage it.
        handle: ObjectId,
        /// The size, a multiple of the grain.
        bytes: u64,
    },
    /// Says what other users may.
    Appoint {
        /// A handle that allows to manage it.
        handle: ObjectId,
        /// What they may.
        others: AreaRights,
    },
    /// Ends an area, and all handles on it.
    Delete {
        /// A handle that allows to manage it.
        handle: ObjectId,
    },
    /// Says how fast an area may be read and written, by all together.
    SetRate {
        /// A handle that allows to manage it; only the owner of the control plane and root may ask.
        handle: ObjectId,
        /// Bytes in a second; 0 is no limit.
        bytes_per_second: u64,
    },
    /// Which areas there are.
    List {
        /// Of one user, or of all that the asker may see ([`name::OWN_USER`]).
        user: u32,
        /// The first index that is looked at.
        from: u32,
        /// What their names begin with; empty for all.
        beginning: String,
    },
    /// Where an area's bytes lie: for who holds it directly.
    Pieces {
        /// A direct handle.
        handle: ObjectId,
        /// The first piece that is told.
        from: u32,
    },
    /// Operations will be delegated: brings [window], the reply brings [rings].
    Session,
    /// The session delegates no more.
    EndSession,
    /// What the store is.
    Store,
    /// Takes a store in: brings [the file or disk, open for reading and writing]. For the owner of the
    /// control plane and root.
    Attach,
    /// Lets go of the store, on whose areas nobody has a handle. For the same.
    Detach,
    /// How the session's change has ended that was answered with `Later`: as it would have been.
    Outcome,
}

impl StoreRequest {
    /// Its number in the protocol.
    pub fn number(&self) -> u16 {
        match self {
            Self::Create(_) => number::CREATE,
            Self::Open { .. } => number::OPEN,
            Self::Close { .. } => number::CLOSE,
            Self::Resize { .. } => number::RESIZE,
            Self::Appoint { .. } => number::APPOINT,
            Self::Delete { .. } => number::DELETE,
            Self::SetRate { .. } => number::SET_RATE,
            Self::List { .. } => number::LIST,
            Self::Pieces { .. } => number::PIECES,
            Self::Session => number::SESSION,
            Self::EndSession => number::END_SESSION,
            Self::Store => number::STORE,
            Self::Attach => number::ATTACH,
            Self::Detach => number::DETACH,
            Self::Outcome => number::OUTCOME,
        }
    }

    /// The record.
    pub fn encode(&self) -> OwnRequest {
        let mut body = [0; REQUEST_BODY_BYTES];
        let mut w = Writer::new(&mut body);
        match self {
            Self::Create(Creation { name, bytes, kind, others, rights, way, alone }) => {
                w.u64(*bytes).u32(*kind as u32).u32(others.bits()).u32(rights.bits());
                w.u32(*way as u32).u32(*alone as u32);
                name::encode(name.as_str(), &mut w);
            }
            Self::Open { user, name, rights, way, alone } => {
                w.u32(*user).u32(rights.bits()).u32(*way as u32).u32(*alone as u32);
                name::encode(name.as_str(), &mut w);
            }
            Self::Close { handle } | Self::Delete { handle } => handle.encode(&mut w),
            Self::Resize { handle, bytes } => {
                handle.encode(&mut w);
                w.u64(*bytes);
            }
            Self::Appoint { handle, others } => {
                handle.encode(&mut w);
                w.u32(others.bits());
            }
            Self::SetRate { handle, bytes_per_second } => {
                handle.encode(&mut w);
                w.u64(*bytes_per_second);
            }
            Self::List { user, from, beginning } => {
                w.u32(*user).u32(*from);
                name::encode(beginning, &mut w);
            }
            Self::Pieces { handle, from } => {
                handle.encode(&mut w);
                w.u32(*from);
            }
            Self::Session | Self::EndSession | Self::Store => {}
            Self::Attach | Self::Detach | Self::Outcome => {}
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
            number::CREATE => Self::Create(take_creation(&mut r)?),
            number::OPEN => take_open(&mut r)?,
            number::CLOSE => Self::Close { handle: ObjectId::decode(&mut r) },
            number::RESIZE => Self::Resize { handle: ObjectId::decode(&mut r), bytes: r.u64() },
            number::APPOINT => {
                Self::Appoint { handle: ObjectId::decode(&mut r), others: take_rights(&mut r)? }
            }
            number::DELETE => Self::Delete { handle: ObjectId::decode(&mut r) },
            number::SET_RATE => {
                Self::SetRate { handle: ObjectId::decode(&mut r), bytes_per_second: r.u64() }
            }
            number::LIST => {
                let (user, from) = (r.u32(), r.u32());
                Self::List { user, from, beginning: name::decode_text(&mut r)? }
            }
            number::PIECES => Self::Pieces { handle: ObjectId::decode(&mut r), from: r.u32() },
            number::SESSION => Self::Session,
            number::END_SESSION => Self::EndSession,
            number::STORE => Self::Store,
            number::ATTACH => Self::Attach,
            number::DETACH => Self::Detach,
            number::OUTCOME => Self::Outcome,
            found => return Err(WireError::Kind { found }),
        };
        if !r.rest_is_zero() {
            return Err(WireError::Reserved);
        }
        Ok(request)
    }
}

fn take_creation(r: &mut Reader<'_>) -> Result<Creation, WireError> {
    let bytes = r.u64();
    let kind = take_kind(r)?;
    let (others, rights) = (take_rights(r)?, take_rights(r)?);
    let (way, alone) = (take_way(r)?, take_alone(r)?);
    Ok(Creation { name: name::decode(r)?, bytes, kind, others, rights, way, alone })
}

fn take_open(r: &mut Reader<'_>) -> Result<StoreRequest, WireError> {
    let user = r.u32();
    let rights = take_rights(r)?;
    let (way, alone) = (take_way(r)?, take_alone(r)?);
    Ok(StoreRequest::Open { user, name: name::decode(r)?, rights, way, alone })
}

pub(super) fn take_kind(r: &mut Reader<'_>) -> Result<AreaKind, WireError> {
    let number = r.u32();
    let wrong = WireError::Field { name: "kind of an area", found: u64::from(number) };
    u8::try_from(number).ok().and_then(AreaKind::from_number).ok_or(wrong)
}

pub(super) fn take_rights(r: &mut Reader<'_>) -> Result<AreaRights, WireError> {
    let bits = r.u32();
    let wrong = WireError::Field { name: "rights on an area", found: u64::from(bits) };
    AreaRights::from_bits(bits).ok_or(wrong)
}

fn take_way(r: &mut Reader<'_>) -> Result<WayWanted, WireError> {
    let number = r.u32();
    let wrong = WireError::Field { name: "way to an area", found: u64::from(number) };
    WayWanted::from_number(number).ok_or(wrong)
}

fn take_alone(r: &mut Reader<'_>) -> Result<Alone, WireError> {
    let number = r.u32();
    let wrong = WireError::Field { name: "alone", found: u64::from(number) };
    Alone::from_number(number).ok_or(wrong)
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
