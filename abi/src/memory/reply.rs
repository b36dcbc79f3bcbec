//! What the memory service answers: the bodies of its replies. Others are Done and Refused.
//!
//! ```text
//! Granted  0 handle, region                    Arena    0 bytes u64                    [arena]
//!         16 bytes u64                         Page     0 places u64                   [page]
//!         24 epoch u32, rights u32             Session  0 depth u32, handles u32       [rings]
//!         32 flags u32 (1 direct, 2 lasting, 4 on a node)   Listed   0 count u32, next u32, 0 u64
//!         36 from u32, pieces u32, count u32           16 count entries of 100 bytes:
//!         48 count pieces of 24 bytes, or node u64                     region, bytes u64, user u32, handles u32,
//! Asked    0 question u64, region, user u32,              flags u32 (2 lasting), age u32 (seconds),
//!            process u32, rights u32, 0 u32               name
//! Moving   0 stage u32, process u32, done u64, bytes u64, node u64, region
//! ```

use super::limits::{LISTED_PER_REPLY_MAX, PIECES_MAX, PIECES_PER_REPLY_MAX, REGIONS_MAX};
use super::name::{self, MemoryName};
use super::piece::Piece;
use super::request::FIRST;
use super::rights::Rights;
use crate::name::ObjectId;
use crate::session::record::{OwnReply, REPLY_BODY_BYTES};
use crate::snapshot::region_name::NAME_BYTES;
use crate::wire::{Reader, WireError, Writer};

const GRANTED: u16 = FIRST + 128;
const ARENA: u16 = FIRST + 129;
const PAGE: u16 = FIRST + 130;
const LISTED: u16 = FIRST + 131;
const SESSION: u16 = FIRST + 132;
const ASKED: u16 = FIRST + 133;
const MOVING: u16 = FIRST + 140;

const DIRECT: u32 = 1;
const LASTING: u32 = 2;
const ON_NODE: u32 = 4;
const GRANTED_HEAD_BYTES: usize = 48;
const LISTED_HEAD_BYTES: usize = 16;
const LISTED_ENTRY_BYTES: usize = 32 + 4 + NAME_BYTES;
/// `Listed::next` when there are no more.
pub const NO_MORE: u32 = u32::MAX;

const _: () = assert!(GRANTED_HEAD_BYTES + PIECES_PER_REPLY_MAX * Piece::BYTES <= REPLY_BODY_BYTES);
const _: () =
    assert!(LISTED_HEAD_BYTES + LISTED_PER_REPLY_MAX * LISTED_ENTRY_BYTES <= REPLY_BODY_BYTES);

/// A handle, and where the bytes of its region lie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Granted {
    /// The session's handle.
    pub handle: ObjectId,
    /// The region; its index is that of its word in the region page.
    pub region: ObjectId,
    /// Its length as it was asked for.
    pub bytes: u64,
    /// Moves on whenever pieces change.
    pub epoch: u32,
    /// What the handle allows.
    pub rights: Rights,
    /// Whether the session may map arenas. Without it there are no pieces here: all is delegated.
    pub direct: bool,
    /// Whether the region outlives its managers.
    pub lasting: bool,
    /// The node that it is on, where that is another one. Then there are no pieces here.
    pub node: Option<u64>,
    /// Number of the first piece below.
    pub from: u32,
    /// Pieces of the region.
    pub pieces_all: u32,
    /// Some of them, in order.
    pub pieces: Vec<Piece>,
}

/// One region, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its identity.
    pub region: ObjectId,
    /// Its length.
    pub bytes: u64,
    /// Whose it is.
    pub user: u32,
    /// Handles on it, of all sessions.
    pub handles: u32,
    /// Whether it outlives its managers.
    pub lasting: bool,
    /// Seconds since it was allocated.
    pub age_s: u32,
    /// Its name, if it has one.
    pub name: Option<MemoryName>,
}

/// Somebody wants to map a region that the asked session answers for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// Its number, for the answer.
    pub question: u64,
    /// The region.
    pub region: ObjectId,
    /// Who wants it.
    pub user: u32,
    /// By which process.
    pub process: u32,
    /// What it wants.
    pub rights: Rights,
}

/// How the last move of a region stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MoveState {
    /// How far it is.
    pub stage: MoveStage,
    /// Who did not leave, where that is why it was given up; 0 for none of this node's programs.
    pub process: u32,
    /// Bytes that were copied.
    pub done: u64,
    /// Of so many.
    pub bytes: u64,
    /// The node that it goes or went to; 0 for its own.
    pub node: u64,
    /// What it is called there.
    pub region: ObjectId,
}

/// How far a move is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u32)]
pub enum MoveStage {
    /// The region was never moved.
    #[default]
    None = 0,
    /// Whoever is in the region is waited for.
    Leaving = 1,
    /// Bytes are copied.
    Copying = 2,
    /// The region lies elsewhere.
    Done = 3,
    /// Somebody did not leave in time; the region lies where it lay.
    Held = 4,
    /// The bytes could not be copied, for want of memory or of the node; it lies where it lay.
    Failed = 5,
    /// The other node has not said whether it has the region: it serves nobody until that says so.
    Doubt = 7,
}

impl MoveStage {
    /// Whether it goes on.
    pub const fn goes_on(self) -> bool {
        matches!(self, Self::Leaving | Self::Copying | Self::Doubt)
    }

    fn decode(found: u32) -> Result<Self, WireError> {
        let all = [
            Self::None,
            Self::Leaving,
            Self::Copying,
            Self::Done,
            Self::Held,
            Self::Failed,
            Self::Doubt,
        ];
        let known = all.into_iter().find(|stage| *stage as u32 == found);
        known.ok_or(WireError::Field { name: "stage of a move", found: u64::from(found) })
    }
}

/// A reply of the memory service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MemoryReply {
    /// To Allocate, Map, MapRegion, Grow and Locate.
    Granted(Granted),
    /// To Arena [the arena].
    Arena {
        /// Its length.
        bytes: u64,
    },
    /// To RegionPage and Presence [the page].
    Page {
        /// Words in it.
        places: u64,
    },
    /// To List.
    Listed {
        /// Some regions, in order of index.
        regions: Vec<Listed>,
        /// The index to go on from, or [`NO_MORE`].
        next: u32,
    },
    /// To Session [its rings].
    Session {
        /// Operations that may be under way.
        depth: u32,
        /// Handles that its operations may be about.
        handles: u32,
    },
    /// To NextAsked; where nobody asks it is NotFound.
    Asked(Question),
    /// To Move and MoveState.
    Moving(MoveState),
}

impl MemoryReply {
    /// The record.
    pub fn encode(&self) -> OwnReply {
        let mut body = [0; REPLY_BODY_BYTES];
        let mut w = Writer::new(&mut body);
        let number = match self {
            Self::Granted(granted) => {
                granted.encode(&mut w);
                GRANTED
            }
            Self::Arena { bytes } => {
                w.u64(*bytes);
                ARENA
            }
            Self::Page { places } => {
                w.u64(*places);
                PAGE
            }
            Self::Listed { regions, next } => {
                w.u32(regions.len() as u32).u32(*next).u64(0);
                regions.iter().for_each(|region| region.encode(&mut w));
                LISTED
            }
            Self::Session { depth, handles } => {
                w.u32(*depth).u32(*handles);
                SESSION
            }
            Self::Asked(question) => {
                question.encode(&mut w);
                ASKED
            }
            Self::Moving(state) => {
                state.encode(&mut w);
                MOVING
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
            GRANTED => Self::Granted(Granted::decode(&mut r)?),
            ARENA => Self::Arena { bytes: r.u64() },
            PAGE => Self::Page { places: r.u64() },
            LISTED => take_listed(&mut r)?,
            SESSION => Self::Session { depth: r.u32(), handles: r.u32() },
            ASKED => Self::Asked(Question::decode(&mut r)?),
            MOVING => Self::Moving(MoveState::decode(&mut r)?),
            found => return Err(WireError::Kind { found }),
        };
        if !r.rest_is_zero() {
            return Err(WireError::Reserved);
        }
        Ok(reply)
    }
}

impl Granted {
    fn encode(&self, w: &mut Writer<'_>) {
        self.handle.encode(w);
        self.region.encode(w);
        let mut flags = 0;
        if self.direct {
            flags |= DIRECT;
        }
        if self.lasting {
            flags |= LASTING;
        }
        if self.node.is_some() {
            flags |= ON_NODE;
        }
        w.u64(self.bytes).u32(self.epoch).u32(self.rights.bits()).u32(flags);
        w.u32(self.from).u32(self.pieces_all).u32(self.pieces.len() as u32);
        self.pieces.iter().for_each(|piece| piece.encode(w));
        if let Some(node) = self.node {
            w.u64(node);
        }
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let handle = ObjectId::decode(r);
        let region = ObjectId::decode_listed(r, "region index", REGIONS_MAX)?;
        let (bytes, epoch, rights) = (r.u64(), r.u32(), Rights::decode(r)?);
        let flags = take_flags(r, DIRECT | LASTING | ON_NODE)?;
        let (from, pieces_all, count) = (r.u32(), r.u32(), r.u32());
        let wrong = WireError::Field { name: "pieces", found: u64::from(count) };
        let end = from.checked_add(count).ok_or(wrong)?;
        if count as usize > PIECES_PER_REPLY_MAX || end > pieces_all {
            return Err(wrong);
        }
        if pieces_all as usize > PIECES_MAX {
            return Err(WireError::Field { name: "pieces", found: u64::from(pieces_all) });
        }
        let is_elsewhere = flags & ON_NODE != 0;
        if is_elsewhere && (flags & DIRECT != 0 || pieces_all != 0) {
            return Err(wrong);
        }
        let pieces = (0..count).map(|_| Piece::decode(r)).collect::<Result<_, _>>()?;
        let node = is_elsewhere.then(|| r.u64());
        let direct = flags & DIRECT != 0;
        let lasting = flags & LASTING != 0;
        Ok(Self {
            handle,
            region,
            bytes,
            epoch,
            rights,
            direct,
            lasting,
            node,
            from,
            pieces_all,
            pieces,
        })
    }
}

impl Listed {
    fn encode(&self, w: &mut Writer<'_>) {
        self.region.encode(w);
        let flags = if self.lasting { LASTING } else { 0 };
        w.u64(self.bytes).u32(self.user).u32(self.handles).u32(flags).u32(self.age_s);
        name::encode(self.name.as_ref().map_or("", MemoryName::as_str), w);
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let region = ObjectId::decode_listed(r, "region index", REGIONS_MAX)?;
        let (bytes, user, handles) = (r.u64(), r.u32(), r.u32());
        let lasting = take_flags(r, LASTING)? != 0;
        let age_s = r.u32();
        Ok(Self { region, bytes, user, handles, lasting, age_s, name: name::decode(r)? })
    }
}

impl Question {
    fn encode(&self, w: &mut Writer<'_>) {
        w.u64(self.question);
        self.region.encode(w);
        w.u32(self.user).u32(self.process).u32(self.rights.bits());
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let question = r.u64();
        let region = ObjectId::decode_listed(r, "region index", REGIONS_MAX)?;
        let (user, process) = (r.u32(), r.u32());
        Ok(Self { question, region, user, process, rights: Rights::decode(r)? })
    }
}

impl MoveState {
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.stage as u32).u32(self.process).u64(self.done).u64(self.bytes).u64(self.node);
        self.region.encode(w);
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let (stage, process) = (MoveStage::decode(r.u32())?, r.u32());
        let (done, bytes, node) = (r.u64(), r.u64(), r.u64());
        let region = ObjectId::decode_listed(r, "region index", REGIONS_MAX)?;
        Ok(Self { stage, process, done, bytes, node, region })
    }
}

fn take_listed(r: &mut Reader<'_>) -> Result<MemoryReply, WireError> {
    let (count, next, zero) = (r.u32(), r.u32(), r.u64());
    if count as usize > LISTED_PER_REPLY_MAX {
        return Err(WireError::Field { name: "regions", found: u64::from(count) });
    }
    if zero != 0 {
        return Err(WireError::Reserved);
    }
    let regions = (0..count).map(|_| Listed::decode(r)).collect::<Result<_, _>>()?;
    Ok(MemoryReply::Listed { regions, next })
}

fn take_flags(r: &mut Reader<'_>, known: u32) -> Result<u32, WireError> {
    match r.u32() {
        flags if flags & !known == 0 => Ok(flags),
        found => Err(WireError::Field { name: "flags", found: u64::from(found) }),
    }
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
