//! One area in a list, for people.
//!
//! ```text
//!  0 area, generation u64, bytes u64, bytes in a second u64
//! 32 user u32, kind u32, others u32, handles u32, direct u32, pieces u32, flags u32 (1 changing, 2 alone),
//!    the process that has it alone u32
//! 64 name
//! ```

use super::name::{self, AreaName};
use super::request::{take_kind, take_rights};
use super::{AreaKind, AreaRights};
use crate::name::ObjectId;
use crate::snapshot::region_name::NAME_BYTES;
use crate::wire::{Reader, WireError, Writer};

const CHANGING: u32 = 1;
const ALONE: u32 = 2;

/// One area.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedArea {
    /// Its number, until the control plane ends.
    pub area: ObjectId,
    /// What names it in the store, for ever.
    pub generation: u64,
    /// Its size.
    pub bytes: u64,
    /// How fast it may be read and written; 0 is no limit.
    pub bytes_per_second: u64,
    /// Whose it is.
    pub user: u32,
    /// What it is for.
    pub kind: AreaKind,
    /// What other users may.
    pub others: AreaRights,
    /// Handles on it.
    pub handles: u32,
    /// Those of them that are direct.
    pub direct: u32,
    /// Pieces that it lies in.
    pub pieces: u32,
    /// Whether a change is under way.
    pub is_changing: bool,
    /// Whether a session has it alone, and which process that is, or 0.
    pub alone: Option<u32>,
    /// Its name.
    pub name: AreaName,
}

impl ListedArea {
    pub(super) const BYTES: usize = 64 + 4 + NAME_BYTES;

    pub(super) fn encode(&self, w: &mut Writer<'_>) {
        self.area.encode(w);
        w.u64(self.generation).u64(self.bytes).u64(self.bytes_per_second).u32(self.user);
        w.u32(self.kind as u32).u32(self.others.bits()).u32(self.handles).u32(self.direct);
        let alone = if self.alone.is_some() { ALONE } else { 0 };
        let changing = if self.is_changing { CHANGING } else { 0 };
        w.u32(self.pieces).u32(alone | changing).u32(self.alone.unwrap_or(0));
        name::encode(self.name.as_str(), w);
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let area = ObjectId::decode(r);
        let (generation, bytes, bytes_per_second) = (r.u64(), r.u64(), r.u64());
        let user = r.u32();
        let (kind, others) = (take_kind(r)?, take_rights(r)?);
        let (handles, direct, pieces) = (r.u32(), r.u32(), r.u32());
        let (flags, holder) = (r.u32(), r.u32());
        let alone = (flags & ALONE != 0).then_some(holder);
        if flags & !(CHANGING | ALONE) != 0 || (alone.is_none() && holder != 0) {
            return Err(WireError::Field { name: "flags", found: u64::from(flags) });
        }
        let name = name::decode(r)?;
        Ok(Self {
            area,
            generation,
            bytes,
            bytes_per_second,
            user,
            kind,
            others,
            handles,
            direct,
            pieces,
            is_changing: flags & CHANGING != 0,
            alone,
            name,
        })
    }
}
