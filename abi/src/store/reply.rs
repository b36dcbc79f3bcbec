//! What the store service answers: the bodies of its replies. Others are Done and Refused.
//!
//! ```text
//! Opened   0 handle, area, generation u64, bytes u64          [the device, if the way is direct]
//!         32 kind u32, rights u32, way u32, durable by u32, grain u32, sector u32, alignment u32,
//!            pieces u32
//! Changed  0 bytes u64
//! Pieces   0 bytes u64, count u32, next u32; 16 count times: offset u64, bytes u64
//! Session  0 depth u32, handles u32                           [rings]
//! Listed   0 count u32, next u32, 0 u64; 16 count entries of 132 bytes, see `ListedArea`
//! Store    see `info.rs`
//! NotDone  see `not_done.rs`
//! ```

use super::durability::{take_durable_by, take_unit, DurableBy};
use super::info::StoreInfo;
use super::limits::{LISTED_PER_REPLY_MAX, PIECES_PER_REPLY_MAX};
use super::listed::ListedArea;
use super::not_done::NotDone;
use super::request::{take_kind, take_rights, FIRST};
use super::way::Way;
use super::{AreaKind, AreaRights};
use crate::name::ObjectId;
use crate::session::record::{OwnReply, REPLY_BODY_BYTES};
use crate::wire::{Reader, WireError, Writer};

const OPENED: u16 = FIRST + 128;
const CHANGED: u16 = FIRST + 129;
const PIECES: u16 = FIRST + 130;
const SESSION: u16 = FIRST + 131;
const LISTED: u16 = FIRST + 132;
const STORE: u16 = FIRST + 133;
const NOT_DONE: u16 = FIRST + 134;

const HEAD_BYTES: usize = 16;
/// `next` when there are no more.
pub const NO_MORE: u32 = u32::MAX;

const _: () = assert!(HEAD_BYTES + LISTED_PER_REPLY_MAX * ListedArea::BYTES <= REPLY_BODY_BYTES);
const _: () = assert!(HEAD_BYTES + PIECES_PER_REPLY_MAX * Piece::BYTES <= REPLY_BODY_BYTES);

/// Some bytes of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Piece {
    /// The first.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
}

impl Piece {
    const BYTES: usize = 16;
}

/// A handle on an area, and what the area is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenedArea {
    /// The handle.
    pub handle: ObjectId,
    /// The area, until the control plane ends.
    pub area: ObjectId,
    /// What names it in the store, for ever.
    pub generation: u64,
    /// Its size.
    pub bytes: u64,
    /// What it is for.
    pub kind: AreaKind,
    /// What the handle allows.
    pub rights: AreaRights,
    /// By which way, and why.
    pub way: Way,
    /// How writes are made durable on the device.
    pub durable_by: DurableBy,
    /// What sizes are multiples of.
    pub grain_bytes: u32,
    /// What offsets and lengths of reads and writes are multiples of.
    pub sector_bytes: u32,
    /// What memory is aligned to that the device reads and writes.
    pub memory_alignment: u32,
    /// Pieces that it lies in.
    pub pieces: u32,
}

/// A reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreReply {
    /// To Create and Open.
    Opened(OpenedArea),
    /// To Resize.
    Changed {
        /// The size.
        bytes: u64,
    },
    /// To Pieces.
    Pieces {
        /// Bytes of the area.
        bytes: u64,
        /// Some of its pieces, in the order of its bytes.
        pieces: Vec<Piece>,
        /// The piece to go on from, or [`NO_MORE`].
        next: u32,
    },
    /// To Session [its rings].
    Session {
        /// Operations that may be under way.
        depth: u32,
        /// Handles that the session may have.
        handles: u32,
    },
    /// To List.
    Listed {
        /// Some areas, in order of index.
        areas: Vec<ListedArea>,
        /// The index to go on from, or [`NO_MORE`].
        next: u32,
    },
    /// To Store and Attach.
    Store(StoreInfo),
    /// An ordinary no.
    NotDone(NotDone),
}

impl From<NotDone> for StoreReply {
    fn from(not_done: NotDone) -> StoreReply {
        StoreReply::NotDone(not_done)
    }
}

impl StoreReply {
    /// The record.
    pub fn encode(&self) -> OwnReply {
        let mut body = [0; REPLY_BODY_BYTES];
        let mut w = Writer::new(&mut body);
        let number = match self {
            Self::Opened(opened) => {
                opened.encode(&mut w);
                OPENED
            }
            Self::Changed { bytes } => {
                w.u64(*bytes);
                CHANGED
            }
            Self::Pieces { bytes, pieces, next } => {
                w.u64(*bytes).u32(pieces.len() as u32).u32(*next);
                pieces.iter().for_each(|piece| {
                    w.u64(piece.offset).u64(piece.bytes);
                });
                PIECES
            }
            Self::Session { depth, handles } => {
                w.u32(*depth).u32(*handles);
                SESSION
            }
            Self::Listed { areas, next } => {
                w.u32(areas.len() as u32).u32(*next).u64(0);
                areas.iter().for_each(|area| area.encode(&mut w));
                LISTED
            }
            Self::Store(info) => {
                info.encode(&mut w);
                STORE
            }
            Self::NotDone(not_done) => {
                not_done.encode(&mut w);
                NOT_DONE
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
            OPENED => Self::Opened(OpenedArea::decode(&mut r)?),
            CHANGED => Self::Changed { bytes: r.u64() },
            PIECES => take_pieces(&mut r)?,
            SESSION => Self::Session { depth: r.u32(), handles: r.u32() },
            LISTED => take_listed(&mut r)?,
            STORE => Self::Store(StoreInfo::decode(&mut r)?),
            NOT_DONE => Self::NotDone(NotDone::decode(&mut r)?),
            found => return Err(WireError::Kind { found }),
        };
        if !r.rest_is_zero() {
            return Err(WireError::Reserved);
        }
        Ok(reply)
    }
}

impl OpenedArea {
    fn encode(&self, w: &mut Writer<'_>) {
        self.handle.encode(w);
        self.area.encode(w);
        w.u64(self.generation).u64(self.bytes).u32(self.kind as u32).u32(self.rights.bits());
        w.u32(self.way.number()).u32(self.durable_by as u32).u32(self.grain_bytes);
        w.u32(self.sector_bytes).u32(self.memory_alignment).u32(self.pieces);
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let (handle, area) = (ObjectId::decode(r), ObjectId::decode(r));
        let (generation, bytes) = (r.u64(), r.u64());
        let (kind, rights) = (take_kind(r)?, take_rights(r)?);
        let way = r.u32();
        let wrong = WireError::Field { name: "way to an area", found: u64::from(way) };
        Ok(Self {
            handle,
            area,
            generation,
            bytes,
            kind,
            rights,
            way: Way::from_number(way).ok_or(wrong)?,
            durable_by: take_durable_by(r)?,
            grain_bytes: take_unit(r, "grain")?,
            sector_bytes: take_unit(r, "sector")?,
            memory_alignment: take_unit(r, "alignment")?,
            pieces: r.u32(),
        })
    }
}

fn take_pieces(r: &mut Reader<'_>) -> Result<StoreReply, WireError> {
    let (bytes, count, next) = (r.u64(), r.u32(), r.u32());
    if count as usize > PIECES_PER_REPLY_MAX {
        return Err(WireError::Field { name: "pieces", found: u64::from(count) });
    }
    let pieces = (0..count).map(|_| Piece { offset: r.u64(), bytes: r.u64() }).collect();
    Ok(StoreReply::Pieces { bytes, pieces, next })
}

fn take_listed(r: &mut Reader<'_>) -> Result<StoreReply, WireError> {
    let (count, next, zero) = (r.u32(), r.u32(), r.u64());
    if count as usize > LISTED_PER_REPLY_MAX {
        return Err(WireError::Field { name: "areas", found: u64::from(count) });
    }
    if zero != 0 {
        return Err(WireError::Reserved);
    }
    let areas = (0..count).map(|_| ListedArea::decode(r)).collect::<Result<_, _>>()?;
    Ok(StoreReply::Listed { areas, next })
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
