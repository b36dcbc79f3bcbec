//! The session protocol: what a stub asks the control plane and what it answers.
//!
//! One SEQPACKET message is one record. Requests are `REQUEST_BYTES` long, replies
//! `REPLY_BYTES`; unused bytes are zero. A session may have one request under way.
//!
//! ```text
//! 0      4        6     8         12     16
//! magic  version  kind  sequence  code   body ...      (code: replies only, else zero)
//! ```

use crate::code::Code;
use crate::limits::{CHANNELS_MAX, FDS_PER_REPLY_MAX, PORTS_MAX, SESSIONS_MAX};
use crate::name::{NetAddress, ObjectId};
use crate::wire::{Reader, WireError, Writer};
use crate::VERSION;

/// First four bytes of every record: "HELI".
pub const MAGIC: u32 = u32::from_le_bytes(*b"HELI");
/// Length of every request.
pub const REQUEST_BYTES: usize = 128;
/// Length of every reply: header, counts and sixteen channel entries.
pub const REPLY_BYTES: usize = 16 + 16 + FDS_PER_REPLY_MAX * ChannelEntry::BYTES;
/// Longest program name that travels with a greeting; longer ones are cut.
pub const PROGRAM_BYTES: usize = 64;

/// What a stub or the command line asks. Descriptors that travel along are named in brackets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// First record of a session. The reply brings [node page, report page].
    Hello {
        /// Name of the program, for people; never used for a decision.
        program: String,
    },
    /// Registers a listening socket [the socket itself, as proof] under its bound address.
    Listen,
    /// Takes this session's registration of a listening address back.
    Unlisten {
        /// The address object, from `Reply::Listening`.
        port: ObjectId,
    },
    /// Asks for a channel to whoever listens on `address`. The reply brings [channel memory].
    Open {
        /// Destination as given to connect(2).
        address: NetAddress,
    },
    /// Asks for the channels of a listening address that this session does not have yet.
    Attach {
        /// The address object.
        port: ObjectId,
    },
    /// Asks for the state of the whole control plane as JSON [memory file].
    Status,
    /// Asks for one process's connections as JSON [memory file].
    Explain {
        /// Process id in the control plane's pid namespace.
        pid: u32,
    },
    /// Asks for the metrics in Prometheus text form [memory file].
    Metrics,
    /// Revokes every channel of a session (the owner of the control plane only).
    Revoke {
        /// Process id whose grants end.
        pid: u32,
    },
    /// Asks the control plane to end (the owner of the control plane only).
    Stop,
}

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

    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.id.index).u32(self.id.generation);
        w.u32(self.client.index).u32(self.client.generation);
        w.u32(self.peer_uid).u32(self.slots).u32(self.ring_bytes).u32(0);
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let id = take_listed(r, "channel index", CHANNELS_MAX)?;
        let client = take_listed(r, "client index", SESSIONS_MAX)?;
        let entry = Self { id, client, peer_uid: r.u32(), slots: r.u32(), ring_bytes: r.u32() };
        r.u32();
        Ok(entry)
    }
}

/// What the control plane answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// Answer to `Hello`.
    Welcome {
        /// This session; its state word is `node::session_word(index)`.
        session: ObjectId,
        /// Random number of this run of the control plane.
        boot: u64,
    },
    /// Answer to `Listen`.
    Listening {
        /// The address object; `node::port_word(index)` counts its changes.
        port: ObjectId,
        /// The address the control plane read from the socket.
        address: NetAddress,
    },
    /// Answer to `Open` and `Attach`: each entry brings one descriptor, in order.
    Channels {
        /// The address object they belong to.
        port: ObjectId,
        /// At most `FDS_PER_REPLY_MAX` entries.
        entries: Vec<ChannelEntry>,
        /// True when another request would bring more.
        more: bool,
    },
    /// Answer to `Status`, `Explain`, `Metrics`: length of the text in the descriptor.
    Text {
        /// Bytes of text.
        bytes: u64,
    },
    /// Done, nothing to say.
    Done,
    /// Not done: why, and the limit or value that decided.
    Refused {
        /// Why.
        code: Code,
        /// The limit in force, or zero.
        limit: u64,
    },
}

fn take_id(r: &mut Reader<'_>) -> ObjectId {
    ObjectId { index: r.u32(), generation: r.u32() }
}

/// An object whose word a stub will look up in the node page: there is none beyond its table.
fn take_listed(
    r: &mut Reader<'_>,
    name: &'static str,
    limit: usize,
) -> Result<ObjectId, WireError> {
    let id = take_id(r);
    if id.index as usize >= limit {
        return Err(WireError::Field { name, found: u64::from(id.index) });
    }
    Ok(id)
}

fn put_address(w: &mut Writer<'_>, address: NetAddress) {
    let (family, bytes) = address.to_parts();
    w.u8(family).u8(0).u16(address.port).put(&bytes);
}

fn take_address(r: &mut Reader<'_>) -> Result<NetAddress, WireError> {
    let family = r.u8();
    r.u8();
    let port = r.u16();
    NetAddress::from_parts(family, r.take(), port)
        .ok_or(WireError::Field { name: "family", found: u64::from(family) })
}

fn header(w: &mut Writer<'_>, kind: u16, sequence: u32, code: Code) {
    w.u32(MAGIC).u16(VERSION).u16(kind).u32(sequence).u16(code as u16).u16(0);
}

/// Kind, sequence and code of a record whose length, mark and version are right.
fn check_header(r: &mut Reader<'_>) -> Result<(u16, u32, u16), WireError> {
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

fn check_length(bytes: &[u8], wanted: usize) -> Result<(), WireError> {
    if bytes.len() != wanted {
        return Err(WireError::Length { wanted, found: bytes.len() });
    }
    Ok(())
}

impl Request {
    /// The record's bytes; `sequence` comes back in the reply.
    pub fn encode(&self, sequence: u32) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        let mut w = Writer::new(&mut bytes);
        header(&mut w, self.kind(), sequence, Code::Ok);
        match self {
            Self::Hello { program } => {
                let name = program.as_bytes();
                let kept = name.len().min(PROGRAM_BYTES);
                w.u32(kept as u32).put(&name[..kept]);
            }
            Self::Unlisten { port } | Self::Attach { port } => {
                w.u32(port.index).u32(port.generation);
            }
            Self::Open { address } => put_address(&mut w, *address),
            Self::Explain { pid } | Self::Revoke { pid } => {
                w.u32(*pid);
            }
            Self::Listen | Self::Status | Self::Metrics | Self::Stop => {}
        }
        bytes
    }

    /// The request and its sequence number, from foreign bytes.
    pub fn decode(bytes: &[u8]) -> Result<(Self, u32), WireError> {
        check_length(bytes, REQUEST_BYTES)?;
        let mut r = Reader::new(bytes);
        let (kind, sequence, _) = check_header(&mut r)?;
        let request = match kind {
            1 => Self::Hello { program: take_program(&mut r)? },
            2 => Self::Listen,
            3 => Self::Unlisten { port: take_id(&mut r) },
            4 => Self::Open { address: take_address(&mut r)? },
            5 => Self::Attach { port: take_id(&mut r) },
            6 => Self::Status,
            7 => Self::Explain { pid: r.u32() },
            8 => Self::Metrics,
            9 => Self::Revoke { pid: r.u32() },
            10 => Self::Stop,
            found => return Err(WireError::Kind { found }),
        };
        if !r.rest_is_zero() {
            return Err(WireError::Reserved);
        }
        Ok((request, sequence))
    }

    fn kind(&self) -> u16 {
        match self {
            Self::Hello { .. } => 1,
            Self::Listen => 2,
            Self::Unlisten { .. } => 3,
            Self::Open { .. } => 4,
            Self::Attach { .. } => 5,
            Self::Status => 6,
            Self::Explain { .. } => 7,
            Self::Metrics => 8,
            Self::Revoke { .. } => 9,
            Self::Stop => 10,
        }
    }
}

fn take_program(r: &mut Reader<'_>) -> Result<String, WireError> {
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

impl Reply {
    /// The record's bytes, answering the request numbered `sequence`.
    pub fn encode(&self, sequence: u32) -> [u8; REPLY_BYTES] {
        let mut bytes = [0; REPLY_BYTES];
        let mut w = Writer::new(&mut bytes);
        let code = if let Self::Refused { code, .. } = self { *code } else { Code::Ok };
        header(&mut w, self.kind(), sequence, code);
        match self {
            Self::Welcome { session, boot } => {
                w.u32(session.index).u32(session.generation).u64(*boot);
            }
            Self::Listening { port, address } => {
                w.u32(port.index).u32(port.generation);
                put_address(&mut w, *address);
            }
            Self::Channels { port, entries, more } => {
                let kept = entries.len().min(FDS_PER_REPLY_MAX);
                w.u32(port.index).u32(port.generation).u32(kept as u32).u32(u32::from(*more));
                entries[..kept].iter().for_each(|entry| entry.encode(&mut w));
            }
            Self::Text { bytes } => {
                w.u64(*bytes);
            }
            Self::Done => {}
            Self::Refused { limit, .. } => {
                w.u64(*limit);
            }
        }
        bytes
    }

    /// The reply and the sequence number it answers, from foreign bytes.
    pub fn decode(bytes: &[u8]) -> Result<(Self, u32), WireError> {
        check_length(bytes, REPLY_BYTES)?;
        let mut r = Reader::new(bytes);
        let (kind, sequence, code) = check_header(&mut r)?;
        let reply = match kind {
            101 => Self::Welcome {
                session: take_listed(&mut r, "session index", SESSIONS_MAX)?,
                boot: r.u64(),
            },
            102 => Self::Listening {
                port: take_listed(&mut r, "port index", PORTS_MAX)?,
                address: take_address(&mut r)?,
            },
            103 => take_channels(&mut r)?,
            104 => Self::Text { bytes: r.u64() },
            105 => Self::Done,
            106 => Self::Refused {
                code: Code::from_number(code)
                    .ok_or(WireError::Field { name: "code", found: u64::from(code) })?,
                limit: r.u64(),
            },
            found => return Err(WireError::Kind { found }),
        };
        Ok((reply, sequence))
    }

    fn kind(&self) -> u16 {
        match self {
            Self::Welcome { .. } => 101,
            Self::Listening { .. } => 102,
            Self::Channels { .. } => 103,
            Self::Text { .. } => 104,
            Self::Done => 105,
            Self::Refused { .. } => 106,
        }
    }
}

fn take_channels(r: &mut Reader<'_>) -> Result<Reply, WireError> {
    let port = take_listed(r, "port index", PORTS_MAX)?;
    let count = r.u32() as usize;
    let more = r.u32() != 0;
    if count > FDS_PER_REPLY_MAX {
        return Err(WireError::Field { name: "channel count", found: count as u64 });
    }
    let entries = (0..count).map(|_| ChannelEntry::decode(r)).collect::<Result<_, _>>()?;
    Ok(Reply::Channels { port, entries, more })
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
