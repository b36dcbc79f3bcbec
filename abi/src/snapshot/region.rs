//! Snapshot regions in the protocol: what a producer is told of its consumers.

use crate::limits::{ATTACHMENTS_MAX, FDS_PER_REPLY_MAX, REGIONS_MAX};
use crate::name::ObjectId;
use crate::wire::{Reader, WireError, Writer};

pub use crate::snapshot::region_name::{NameError, RegionName, NAME_BYTES, OWN_USER, PREFIX};

/// Whether a consumer is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Presence {
    /// It joined: its page of pins counts from now on.
    Joined,
    /// The same, and it brings an end of its bell behind the page.
    JoinedWithBell,
    /// It left or died: nothing it pinned counts any more.
    Left,
}

/// One consumer that joined or left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// The consumer.
    pub consumer: ObjectId,
    /// Which of both.
    pub state: Presence,
}

impl Change {
    /// Bytes of one entry in a reply.
    pub const BYTES: usize = 16;

    fn encode(&self, w: &mut Writer<'_>) {
        let state = match self.state {
            Presence::Joined => 1,
            Presence::Left => 2,
            Presence::JoinedWithBell => 3,
        };
        w.u32(self.consumer.index).u32(self.consumer.generation).u32(state).u32(0);
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let consumer = ObjectId::decode_listed(r, "consumer index", ATTACHMENTS_MAX)?;
        let (state, reserved) = (r.u32(), r.u32());
        let state = match state {
            1 => Presence::Joined,
            2 => Presence::Left,
            3 => Presence::JoinedWithBell,
            found => {
                return Err(WireError::Field { name: "consumer state", found: u64::from(found) })
            }
        };
        match reserved {
            0 => Ok(Self { consumer, state }),
            _ => Err(WireError::Reserved),
        }
    }
}

pub(crate) fn encode_changes(w: &mut Writer<'_>, region: ObjectId, all: &[Change], more: bool) {
    let kept = all.len().min(FDS_PER_REPLY_MAX);
    w.u32(region.index).u32(region.generation).u32(kept as u32).u32(u32::from(more));
    all[..kept].iter().for_each(|change| change.encode(w));
}

/// The region, its changes, and whether there are more.
pub(crate) fn decode_changes(
    r: &mut Reader<'_>,
) -> Result<(ObjectId, Vec<Change>, bool), WireError> {
    let region = ObjectId::decode_listed(r, "region index", REGIONS_MAX)?;
    let (count, more) = (r.u32() as usize, r.u32());
    if count > FDS_PER_REPLY_MAX {
        return Err(WireError::Field { name: "change count", found: count as u64 });
    }
    if more > 1 {
        return Err(WireError::Field { name: "more", found: u64::from(more) });
    }
    let entries = (0..count).map(|_| Change::decode(r)).collect::<Result<_, _>>()?;
    if !r.rest_is_zero() {
        return Err(WireError::Reserved);
    }
    Ok((region, entries, more == 1))
}
