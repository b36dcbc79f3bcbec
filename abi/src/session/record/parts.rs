//! What several records are made of: the header, a channel's entry, a limit.

use super::{Reply, Request, MAGIC};
use crate::code::{Code, Side, Thing, Unmapped};
use crate::file::delegated::joint::MEMBERS_MAX;
use crate::limits::{CHANNELS_MAX, FDS_PER_REPLY_MAX, PORTS_MAX, SESSIONS_MAX};
use crate::name::ObjectId;
use crate::wire::{Reader, WireError, Writer};
use crate::VERSION;

/// Longest program name that travels with a greeting; longer ones are cut.
pub const PROGRAM_BYTES: usize = 64;

/// A channel as the control plane hands it out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChannelEntry {
    /// The channel's identity; its state word is `node::channel_word(index)`.
    pub id: ObjectId,
    /// Session of the connecting side.
    pub client: ObjectId,
    /// User of the side that is not asking.
    pub peer_uid: u32,
    /// Streams in the channel.
    pub slots: u32,
    /// Bytes of one direction's ring.
    pub ring_bytes: u32,
}

impl ChannelEntry {
    /// Bytes of one entry in a reply.
    pub const BYTES: usize = 32;

    pub(crate) fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.id.index).u32(self.id.generation);
        w.u32(self.client.index).u32(self.client.generation);
        w.u32(self.peer_uid).u32(self.slots).u32(self.ring_bytes).u32(0);
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let id = ObjectId::decode_listed(r, "channel index", CHANNELS_MAX)?;
        let client = ObjectId::decode_listed(r, "client index", SESSIONS_MAX)?;
        let entry = Self { id, client, peer_uid: r.u32(), slots: r.u32(), ring_bytes: r.u32() };
        r.u32();
        Ok(entry)
    }
}

/// What a limit is on, and whose it is; both None where something is refused for another reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// On what.
    pub thing: Thing,
    /// Whose.
    pub side: Side,
}

impl Bound {
    /// No limit is reached.
    pub const NONE: Self = Self::new(Thing::None, Side::None);

    /// A limit on a thing.
    pub const fn new(thing: Thing, side: Side) -> Self {
        Self { thing, side }
    }

    pub(crate) fn encode(self, w: &mut Writer<'_>) {
        w.u16(self.thing as u16).u16(self.side as u16);
    }

    /// Numbers of a later control plane are shown as none; they decide nothing.
    pub(crate) fn decode(r: &mut Reader<'_>) -> Self {
        let thing = Thing::from_number(r.u16()).unwrap_or(Thing::None);
        let side = Side::from_number(r.u16()).unwrap_or(Side::None);
        Self { thing, side }
    }
}

pub(crate) fn header(w: &mut Writer<'_>, kind: u16, sequence: u32, code: Code) {
    w.u32(MAGIC).u16(VERSION).u16(kind).u32(sequence).u16(code as u16).u16(0);
}

/// Kind, sequence and code of a record whose length, mark and version are right.
pub(crate) fn check_header(r: &mut Reader<'_>) -> Result<(u16, u32, u16), WireError> {
    let magic = r.u32();
    if magic != MAGIC {
        return Err(WireError::Magic { found: magic });
    }
    let version = r.u16();
    if version != VERSION {
        return Err(WireError::Version { found: version });
    }
    let (kind, sequence, code) = (r.u16(), r.u32(), r.u16());
    r.u16();
    Ok((kind, sequence, code))
}

pub(crate) fn check_length(bytes: &[u8], wanted: usize) -> Result<(), WireError> {
    if bytes.len() != wanted {
        return Err(WireError::Length { wanted, found: bytes.len() });
    }
    Ok(())
}

/// A program's name: its length, then the text; bytes that are no text are replaced.
pub(super) fn take_program(r: &mut Reader<'_>) -> Result<String, WireError> {
    let length = r.u32() as usize;
    if length > PROGRAM_BYTES {
        return Err(WireError::Field { name: "program length", found: length as u64 });
    }
    let name: [u8; PROGRAM_BYTES] = r.take();
    if name[length..].iter().any(|byte| *byte != 0) {
        return Err(WireError::Reserved);
    }
    Ok(String::from_utf8_lossy(&name[..length]).into_owned())
}

/// Four bytes that say yes or no, and nothing else.
pub(super) fn take_bool(r: &mut Reader<'_>) -> Result<bool, WireError> {
    match r.u32() {
        found @ 0..=1 => Ok(found == 1),
        found => Err(WireError::Field { name: "yes or no", found: u64::from(found) }),
    }
}

/// How many processes a session is for.
pub(super) fn take_members(r: &mut Reader<'_>) -> Result<u32, WireError> {
    let found = r.u32();
    let fits = (found <= MEMBERS_MAX).then_some(found);
    fits.ok_or(WireError::Field { name: "members", found: u64::from(found) })
}

/// A file that is shown for delegated operations.
pub(super) fn take_show_file(r: &mut Reader<'_>) -> Result<Request, WireError> {
    let (tag, direct, buffered) = (r.u64(), take_bool(r)?, take_bool(r)?);
    match direct && buffered {
        true => Err(WireError::Field { name: "buffered, and direct", found: 1 }),
        false => Ok(Request::ShowFile { tag, direct, buffered }),
    }
}

/// The answer to `Delegate`.
pub(super) fn take_delegated(r: &mut Reader<'_>) -> Result<Reply, WireError> {
    let (depth, objects) = (r.u32(), r.u32());
    Ok(Reply::Delegated { depth, objects, lends: take_bool(r)?, shows_only: take_bool(r)? })
}

pub(super) fn take_unmapped(r: &mut Reader<'_>) -> Result<Unmapped, WireError> {
    let found = r.u32();
    let reason = u8::try_from(found).ok().and_then(Unmapped::from_number);
    reason.ok_or(WireError::Field { name: "reason", found: u64::from(found) })
}

pub(super) fn take_channels(r: &mut Reader<'_>) -> Result<Reply, WireError> {
    let port = ObjectId::decode_listed(r, "port index", PORTS_MAX)?;
    let count = r.u32() as usize;
    let more = r.u32() != 0;
    if count > FDS_PER_REPLY_MAX {
        return Err(WireError::Field { name: "channel count", found: count as u64 });
    }
    let entries = (0..count).map(|_| ChannelEntry::decode(r)).collect::<Result<_, _>>()?;
    Ok(Reply::Channels { port, entries, more })
}
