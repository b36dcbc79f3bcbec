//! What is asked of the memory service: the bodies of its records.
//!
//! ```text
//! 0 Allocate   bytes u64, lasting u32, others u32, name     11 List      user u32, from u32, beginning
//! 1 Map        user u32, rights u32, name                   12 Move      handle, node u64
//! 2 Locate     handle, from u32                             13 Session   -                [window]
//! 3 Arena      arena                                        14 AskMe     handle           [bell]
//! 4 RegionPage -                                            15 NextAsked -
//! 5 Unmap      handle                                       16 Answer    question u64, rights u32
//! 6 Free       handle                                       17 MapRegion region, rights u32
//! 7 Grow       handle, bytes u64
//! 8 Name       handle, others u32, name
//! 9 Appoint    handle, user u32, rights u32
//! 10 Lasting   handle, lasting u32                          18 On        node u64, number u32, body
//!                                                           20 EndSession -
//!                                                           24 Presence  fenced u32
//!                                                           25 MoveState handle
//!                                                           26 Stage     as Allocate
//!                                                           27 Adopt     handle, others u32,
//!                                                                        lasting u32, name
//!                                                           30 Replicate as replicated.rs says
//!                                                           40 Class     handle, class u32
//! ```
//! A handle, arena or region is an object id (8 bytes), a name 68 bytes: its length u32, perhaps 0,
//! and 64 bytes. On carries one of Allocate, Map, MapRegion and List to another node: its number and
//! the beginning of its body, of which the rest is zero.

mod allocation;
pub mod number;

use super::name::{self, MemoryName};
use super::replicated::Replication;
use super::rights::Rights;
use crate::cluster::Class;
use crate::name::ObjectId;
use crate::session::record::{OwnRequest, FIRST_OWN, REQUEST_BODY_BYTES};
use crate::snapshot::region_name::NAME_BYTES;
use crate::wire::{Reader, WireError, Writer};

pub use allocation::Allocation;

/// The number of the service in the protocol.
pub const SERVICE: u16 = 5;
/// The number of its first request.
pub const FIRST: u16 = SERVICE << 8;
const _: () = assert!(FIRST == FIRST_OWN);
/// Bytes of the body of a request that On carries.
const ON_BODY_BYTES: usize = REQUEST_BODY_BYTES - 12;
/// What the longest of them has: Allocate.
const _: () = assert!(8 + 4 + 4 + 4 + NAME_BYTES <= ON_BODY_BYTES);

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MemoryRequest {
    /// A region; the session gets a handle with every right.
    Allocate(Allocation),
    /// A region that lives on several nodes; the session gets a handle with every right.
    Replicate(Replication),
    /// A handle on the region of a name.
    Map {
        /// Among whose names: a user, or [`name::OWN_USER`].
        user: u32,
        /// Which.
        name: MemoryName,
        /// What it should allow; all of it or nothing is granted.
        rights: Rights,
    },
    /// Where the bytes of a region lie, from a piece on.
    Locate {
        /// A handle.
        handle: ObjectId,
        /// The first piece that is told.
        from: u32,
    },
    /// An arena; the reply brings [the arena].
    Arena {
        /// Which.
        arena: ObjectId,
    },
    /// The region page; the reply brings [the page].
    RegionPage,
    /// A handle is given back.
    Unmap {
        /// Which.
        handle: ObjectId,
    },
    /// The region of a handle ends; the handle too.
    Free {
        /// A handle with MANAGE.
        handle: ObjectId,
    },
    /// The region becomes longer. The pieces that it has stay.
    Grow {
        /// A handle with MANAGE.
        handle: ObjectId,
        /// Its new length.
        bytes: u64,
    },
    /// The region gets a name, or loses it.
    Name {
        /// A handle with SHARE.
        handle: ObjectId,
        /// The name, or none.
        name: Option<MemoryName>,
        /// What other users may, who know its name.
        others: Rights,
    },
    /// A user may map the region with these rights, whatever others may.
    Appoint {
        /// A handle with MANAGE.
        handle: ObjectId,
        /// Who.
        user: u32,
        /// What; nothing takes it back.
        rights: Rights,
    },
    /// Whether the region outlives its managers.
    Lasting {
        /// A handle with MANAGE.
        handle: ObjectId,
        /// Whether.
        lasting: bool,
    },
    /// How urgent what is done by a handle on another node is to be: no more than the rules say.
    Class {
        /// The handle.
        handle: ObjectId,
        /// How urgent.
        class: Class,
    },
    /// Which regions there are.
    List {
        /// Of one user, or of all that the asker may see ([`name::OWN_USER`]).
        user: u32,
        /// The first index that is looked at.
        from: u32,
        /// What their names begin with; empty for all, those without a name among them.
        beginning: String,
    },
    /// The region's bytes go elsewhere. The answer is how that stands; it has begun, or was refused.
    Move {
        /// A handle with MANAGE.
        handle: ObjectId,
        /// To another node; 0, or the node that it is on: to other pieces there.
        node: u64,
    },
    /// How the last move of the region stands.
    MoveState {
        /// A handle.
        handle: ObjectId,
    },
    /// Another node only: a region for the bytes of one that it moves here. Nobody sees it before Adopt.
    Stage(Allocation),
    /// Another node only: such a region is what that one was, from now on.
    Adopt {
        /// The handle that Stage gave.
        handle: ObjectId,
        /// What other users may, who know its name.
        others: Rights,
        /// Whether it outlives its managers.
        lasting: bool,
        /// Its name, if it has one.
        name: Option<MemoryName>,
    },
    /// The page of this session in which it says where it is; the reply brings [the page].
    Presence {
        /// Whether fences that the control plane has the kernel make reach the program's threads.
        fenced: bool,
    },
    /// Operations will be delegated: brings [window], the reply brings [rings].
    Session,
    /// Operations are delegated no more. Handles stay, and another Session may follow.
    EndSession,
    /// Who wants to map the region and may not by the rules is asked about: brings [bell], an end of a
    /// connected pair of unix sockets, since only those can be rung without waiting.
    AskMe {
        /// A handle with SHARE.
        handle: ObjectId,
    },
    /// The oldest question that this session has not answered.
    NextAsked,
    /// The answer to one.
    Answer {
        /// Its number.
        question: u64,
        /// What may be done; nothing is a no.
        rights: Rights,
    },
    /// A handle on a region by its identity, for its owner and who was appointed.
    MapRegion {
        /// Which.
        region: ObjectId,
        /// What it should allow.
        rights: Rights,
    },
    /// The same on another node: Allocate, Map, MapRegion or List. A handle that it brings is used as
    /// any other, and the answer says which node it is on.
    On {
        /// Which node; the control plane's own number is as if it were not said.
        node: u64,
        /// What is asked there.
        request: Box<MemoryRequest>,
    },
}

impl MemoryRequest {
    /// Its number in the protocol.
    pub fn number(&self) -> u16 {
        match self {
            Self::Allocate(_) => number::ALLOCATE,
            Self::Replicate(_) => number::REPLICATE,
            Self::Map { .. } => number::MAP,
            Self::Locate { .. } => number::LOCATE,
            Self::Arena { .. } => number::ARENA,
            Self::RegionPage => number::REGION_PAGE,
            Self::Unmap { .. } => number::UNMAP,
            Self::Free { .. } => number::FREE,
            Self::Grow { .. } => number::GROW,
            Self::Name { .. } => number::NAME,
            Self::Appoint { .. } => number::APPOINT,
            Self::Lasting { .. } => number::LASTING,
            Self::Class { .. } => number::CLASS,
            Self::List { .. } => number::LIST,
            Self::Move { .. } => number::MOVE,
            Self::MoveState { .. } => number::MOVE_STATE,
            Self::Stage(_) => number::STAGE,
            Self::Adopt { .. } => number::ADOPT,
            Self::Presence { .. } => number::PRESENCE,
            Self::Session => number::SESSION,
            Self::EndSession => number::END_SESSION,
            Self::AskMe { .. } => number::ASK_ME,
            Self::NextAsked => number::NEXT_ASKED,
            Self::Answer { .. } => number::ANSWER,
            Self::MapRegion { .. } => number::MAP_REGION,
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
            Self::Adopt { handle, others, lasting, name } => {
                put_handle(*handle, w).u32(others.bits()).u32(u32::from(*lasting));
                put_name(name.as_ref(), w)
            }
            Self::Allocate(Allocation { bytes, lasting, name, others })
            | Self::Stage(Allocation { bytes, lasting, name, others }) => {
                w.u64(*bytes).u32(u32::from(*lasting)).u32(others.bits());
                put_name(name.as_ref(), w)
            }
            Self::Replicate(wanted) => {
                wanted.put(w);
                w
            }
            Self::Map { user, name, rights } => {
                w.u32(*user).u32(rights.bits());
                put_name(Some(name), w)
            }
            Self::Locate { handle, from } => put_handle(*handle, w).u32(*from),
            Self::Grow { handle, bytes } => put_handle(*handle, w).u64(*bytes),
            Self::Move { handle, node } => put_handle(*handle, w).u64(*node),
            Self::Name { handle, name, others } => {
                put_handle(*handle, w).u32(others.bits());
                put_name(name.as_ref(), w)
            }
            Self::Appoint { handle, user, rights } => {
                put_handle(*handle, w).u32(*user).u32(rights.bits())
            }
            Self::Class { handle, class } => put_handle(*handle, w).u32(class.number().into()),
            Self::Lasting { handle, lasting } => put_handle(*handle, w).u32(u32::from(*lasting)),
            Self::List { user, from, beginning } => {
                w.u32(*user).u32(*from);
                name::encode(beginning, w)
            }
            Self::Answer { question, rights } => w.u64(*question).u32(rights.bits()),
            Self::MapRegion { region, rights } => put_handle(*region, w).u32(rights.bits()),
            Self::Arena { arena: id }
            | Self::Unmap { handle: id }
            | Self::Free { handle: id }
            | Self::MoveState { handle: id }
            | Self::AskMe { handle: id } => put_handle(*id, w),
            Self::On { node, request } => {
                let own = request.encode();
                // What may be asked so is shorter.
                w.u64(*node).u32(u32::from(own.number)).put(&own.body[..ON_BODY_BYTES])
            }
            Self::RegionPage | Self::Session | Self::EndSession | Self::NextAsked => w,
            Self::Presence { fenced } => w.u32(u32::from(*fenced)),
        };
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
            number::ALLOCATE => Self::Allocate(Allocation::take(r)?),
            number::REPLICATE => Self::Replicate(Replication::take(r)?),
            number::MAP => {
                let (user, rights) = (r.u32(), Rights::decode(r)?);
                let name = name::decode(r)?;
                let name = name.ok_or(WireError::Field { name: "memory name", found: 0 })?;
                Self::Map { user, name, rights }
            }
            number::LOCATE => Self::Locate { handle: ObjectId::decode(r), from: r.u32() },
            number::ARENA => Self::Arena { arena: ObjectId::decode(r) },
            number::REGION_PAGE => Self::RegionPage,
            number::UNMAP => Self::Unmap { handle: ObjectId::decode(r) },
            number::FREE => Self::Free { handle: ObjectId::decode(r) },
            number::GROW => Self::Grow { handle: ObjectId::decode(r), bytes: r.u64() },
            number::NAME => {
                let (handle, others) = (ObjectId::decode(r), Rights::decode(r)?);
                Self::Name { handle, others, name: name::decode(r)? }
            }
            number::APPOINT => {
                let (handle, user) = (ObjectId::decode(r), r.u32());
                Self::Appoint { handle, user, rights: Rights::decode(r)? }
            }
            number::LASTING => {
                let handle = ObjectId::decode(r);
                Self::Lasting { handle, lasting: take_flag(r, "lasting")? }
            }
            number::CLASS => Self::Class { handle: ObjectId::decode(r), class: Class::decode(r)? },
            number::LIST => {
                let (user, from) = (r.u32(), r.u32());
                Self::List { user, from, beginning: name::decode_text(r)? }
            }
            number::MOVE => Self::Move { handle: ObjectId::decode(r), node: r.u64() },
            number::STAGE => Self::Stage(Allocation::take(r)?),
            number::ADOPT => {
                let (handle, others) = (ObjectId::decode(r), Rights::decode(r)?);
                let lasting = take_flag(r, "lasting")?;
                Self::Adopt { handle, others, lasting, name: name::decode(r)? }
            }
            number::MOVE_STATE => Self::MoveState { handle: ObjectId::decode(r) },
            number::PRESENCE => Self::Presence { fenced: take_flag(r, "fenced")? },
            number::SESSION => Self::Session,
            number::END_SESSION => Self::EndSession,
            number::ASK_ME => Self::AskMe { handle: ObjectId::decode(r) },
            number::NEXT_ASKED => Self::NextAsked,
            number::ANSWER => Self::Answer { question: r.u64(), rights: Rights::decode(r)? },
            number::MAP_REGION => {
                let region = ObjectId::decode(r);
                Self::MapRegion { region, rights: Rights::decode(r)? }
            }
            number::ON => take_on(r)?,
            _ => return Err(WireError::Kind { found }),
        })
    }
}

fn put_handle<'w, 'a>(id: ObjectId, w: &'w mut Writer<'a>) -> &'w mut Writer<'a> {
    w.u32(id.index).u32(id.generation)
}

fn put_name<'w, 'a>(name: Option<&MemoryName>, w: &'w mut Writer<'a>) -> &'w mut Writer<'a> {
    name::encode(name.map_or("", MemoryName::as_str), w)
}

fn take_on(r: &mut Reader<'_>) -> Result<MemoryRequest, WireError> {
    let (node, found) = (r.u64(), r.u32());
    let wrong = WireError::Field { name: "request on a node", found: u64::from(found) };
    let known = [number::ALLOCATE, number::MAP, number::MAP_REGION, number::LIST];
    let number = known.into_iter().find(|it| u32::from(*it) == found).ok_or(wrong)?;
    let mut body = [0; REQUEST_BODY_BYTES];
    body[..ON_BODY_BYTES].copy_from_slice(&r.take::<ON_BODY_BYTES>());
    let request = Box::new(MemoryRequest::decode(&OwnRequest { number, body })?);
    Ok(MemoryRequest::On { node, request })
}

fn take_flag(r: &mut Reader<'_>, name: &'static str) -> Result<bool, WireError> {
    match r.u32() {
        0 => Ok(false),
        1 => Ok(true),
        found => Err(WireError::Field { name, found: u64::from(found) }),
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
