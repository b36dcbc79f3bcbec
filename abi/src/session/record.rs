//! The session protocol: what a stub asks the control plane and what it answers.
//!
//! One SEQPACKET message is one record. Requests are `REQUEST_BYTES` long, replies
//! `REPLY_BYTES`; unused bytes are zero. A session may have one request under way.
//!
//! ```text
//! 0      4        6     8         12     16
//! magic  version  kind  sequence  code   body ...      (code: replies only, else zero)
//! ```

mod kind_of;
mod own;
mod parts;
mod reply;
mod table;

use crate::code::{Code, Unmapped};
use crate::limits::{
    ATTACHMENTS_MAX, FDS_PER_REPLY_MAX, LEASES_MAX, PORTS_MAX, REGIONS_MAX, SESSIONS_MAX,
};
use crate::name::{NetAddress, ObjectId};
use crate::session::restriction::{Destination, Services};
use crate::snapshot::region::{self, Change, RegionName};
use crate::snapshot::region_scope::RegionScope;
use crate::wire::{Reader, WireError, Writer};

pub use own::{Own, OwnReply, OwnRequest, FIRST_OWN, REPLY_BODY_BYTES, REQUEST_BODY_BYTES};
use parts::{
    check_header, check_length, header, take_channels, take_delegated, take_members, take_program,
    take_show_file, take_unmapped,
};
pub use parts::{Bound, ChannelEntry, PROGRAM_BYTES};
pub use table::{Asker, RequestKind, Row, Service};

/// First four bytes of every record: "HELI".
pub const MAGIC: u32 = u32::from_le_bytes(*b"HELI");
/// Length of what every record begins with.
pub const HEADER_BYTES: usize = 16;
/// Length of every request.
pub const REQUEST_BYTES: usize = 128;
/// Length of every reply: header, counts and sixteen channel entries.
pub const REPLY_BYTES: usize = HEADER_BYTES + 16 + FDS_PER_REPLY_MAX * ChannelEntry::BYTES;

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
    /// Names a snapshot region [table, pool].
    Publish {
        /// Its name, among those of this session's user.
        name: RegionName,
    },
    /// Joins a region's consumers [own page of pins, perhaps an end of a bell]. The reply brings [table, pool].
    AttachRegion {
        /// Its name.
        name: RegionName,
        /// User among whose names it is; `region::OWN_USER` for the asking one.
        owner: u32,
    },
    /// Asks which consumers joined and left that this session, the producer, was not told of.
    Consumers {
        /// The region.
        region: ObjectId,
    },
    /// Takes a region's name back.
    Unpublish {
        /// The region.
        region: ObjectId,
    },
    /// Leaves a region.
    Detach {
        /// The region.
        region: ObjectId,
        /// What `Reply::Region` called this consumer.
        consumer: ObjectId,
    },
    /// Asks for a read lease on a file [the file, opened for reading].
    Lease,
    /// Gives a lease back.
    EndLease {
        /// The lease.
        lease: ObjectId,
    },
    /// Asks for delegated operations on a window [the window]. The reply brings [rings].
    Delegate {
        /// Processes that may submit on the session, this one among them; 0 for this one alone.
        members: u32,
    },
    /// Ends delegated operations; what is under way is lost.
    EndDelegate,
    /// Opens a file for delegated operations [the file]. The answer comes over the ring.
    ShowFile {
        /// Tag of the completion that tells the file's index.
        tag: u64,
        /// Whether what is aligned goes past every cache.
        direct: bool,
        /// Whether reads never go past the caches. Not with `direct`.
        buffered: bool,
    },
    /// Before `Restrict`: the restricted session may open channels to this destination.
    Allow {
        /// The destination.
        destination: Destination,
    },
    /// Before `Restrict`: the restricted session may publish, or attach to, these regions.
    AllowRegions {
        /// The regions, and which of both.
        scope: RegionScope,
    },
    /// Before `Hello`: from now on this connection may ask no more than is said here.
    Restrict {
        /// What it may use.
        services: Services,
        /// The process that the connection is handed to, as people name it. It decides nothing but
        /// that explaining or revoking this process means this session as well.
        pid: u32,
    },
    /// A request of a service that brings its records itself.
    Own(OwnRequest),
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
    /// Answer to `Publish`.
    Published {
        /// The region; `node::region_word(index)` counts its consumers' coming and going.
        region: ObjectId,
        /// Counts the producers of this name.
        generation: u64,
    },
    /// Answer to `AttachRegion`.
    Region {
        /// The region.
        region: ObjectId,
        /// This consumer.
        consumer: ObjectId,
        /// Counts the producers of this name.
        generation: u64,
    },
    /// Answer to `Consumers`: each entry that joined brings its page of pins, and its bell if it
    /// has one, in order.
    Consumers {
        /// The region.
        region: ObjectId,
        /// At most `FDS_PER_REPLY_MAX` entries, of which `JOINED_PER_REPLY_MAX` may have joined;
        /// those that left come first.
        entries: Vec<Change>,
        /// True when another request would bring more.
        more: bool,
    },
    /// Answer to `Lease`: nobody writes or truncates the file while the lease is active. The reply
    /// brings [the file, opened anew for reading], which is what may be mapped.
    Leased {
        /// The lease; its state word is `node::lease_word(index)`.
        lease: ObjectId,
        /// Bytes in the file as long as the lease is active.
        bytes: u64,
    },
    /// Answer to `Lease`: the file stays the kernel's.
    NotLeased {
        /// Why.
        reason: Unmapped,
    },
    /// Answer to `Delegate`: the server takes operations from now on.
    Delegated {
        /// Operations that may be under way.
        depth: u32,
        /// Files that may be open.
        objects: u32,
        /// The session may read what it was given `direct` by an io_uring of its own.
        lends: bool,
        /// Its files come by `ShowFile` only: names are its program's own to open.
        shows_only: bool,
    },
    /// Not done: why, and the limit or value that decided.
    Refused {
        /// Why.
        code: Code,
        /// The limit in force, or zero.
        limit: u64,
        /// On what, and whose it is.
        bound: Bound,
    },
    /// A reply of a service that brings its records itself.
    Own(Box<OwnReply>),
}

impl Request {
    /// The record's bytes; `sequence` comes back in the reply.
    pub fn encode(&self, sequence: u32) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        let mut w = Writer::new(&mut bytes);
        header(&mut w, self.number(), sequence, Code::Ok);
        match self {
            Self::Hello { program } => {
                let kept = &program.as_bytes()[..program.len().min(PROGRAM_BYTES)];
                w.u32(kept.len() as u32).put(kept);
            }
            Self::Unlisten { port } | Self::Attach { port } => port.encode(&mut w),
            Self::Open { address } => address.encode(&mut w),
            Self::Explain { pid } | Self::Revoke { pid } => {
                w.u32(*pid);
            }
            Self::Publish { name } => name.encode(&mut w),
            Self::AttachRegion { name, owner } => {
                w.u32(*owner);
                name.encode(&mut w);
            }
            Self::Consumers { region } | Self::Unpublish { region } => region.encode(&mut w),
            Self::Detach { region, consumer } => {
                w.u32(region.index).u32(region.generation);
                w.u32(consumer.index).u32(consumer.generation);
            }
            Self::EndLease { lease } => lease.encode(&mut w),
            Self::ShowFile { tag, direct, buffered } => {
                w.u64(*tag).u32(u32::from(*direct)).u32(u32::from(*buffered));
            }
            Self::Allow { destination } => destination.encode(&mut w),
            Self::AllowRegions { scope } => scope.encode(&mut w),
            Self::Restrict { services, pid } => services.encode(&mut w, *pid),
            Self::Own(own) => {
                w.put(&own.body);
            }
            Self::Listen | Self::Status | Self::Metrics | Self::Stop => {}
            Self::Delegate { members } => {
                w.u32(*members);
            }
            Self::Lease | Self::EndDelegate => {}
        }
        bytes
    }

    /// The request and its sequence number, from foreign bytes.
    pub fn decode(bytes: &[u8]) -> Result<(Self, u32), WireError> {
        check_length(bytes, REQUEST_BYTES)?;
        let mut r = Reader::new(bytes);
        let (number, sequence, _) = check_header(&mut r)?;
        if let Some(own) = OwnRequest::decode(number, &mut r) {
            return Ok((Self::Own(own), sequence));
        }
        let kind = RequestKind::from_number(number).ok_or(WireError::Kind { found: number })?;
        let request = match kind {
            RequestKind::Hello => Self::Hello { program: take_program(&mut r)? },
            RequestKind::Listen => Self::Listen,
            RequestKind::Unlisten => Self::Unlisten { port: ObjectId::decode(&mut r) },
            RequestKind::Open => Self::Open { address: NetAddress::decode(&mut r)? },
            RequestKind::Attach => Self::Attach { port: ObjectId::decode(&mut r) },
            RequestKind::Status => Self::Status,
            RequestKind::Explain => Self::Explain { pid: r.u32() },
            RequestKind::Metrics => Self::Metrics,
            RequestKind::Revoke => Self::Revoke { pid: r.u32() },
            RequestKind::Stop => Self::Stop,
            RequestKind::Publish => Self::Publish { name: RegionName::decode(&mut r)? },
            RequestKind::AttachRegion => {
                Self::AttachRegion { owner: r.u32(), name: RegionName::decode(&mut r)? }
            }
            RequestKind::Consumers => Self::Consumers { region: ObjectId::decode(&mut r) },
            RequestKind::Unpublish => Self::Unpublish { region: ObjectId::decode(&mut r) },
            RequestKind::Detach => Self::Detach {
                region: ObjectId::decode(&mut r),
                consumer: ObjectId::decode(&mut r),
            },
            RequestKind::Lease => Self::Lease,
            RequestKind::EndLease => Self::EndLease { lease: ObjectId::decode(&mut r) },
            RequestKind::Delegate => Self::Delegate { members: take_members(&mut r)? },
            RequestKind::ShowFile => take_show_file(&mut r)?,
            RequestKind::EndDelegate => Self::EndDelegate,
            RequestKind::Allow => Self::Allow { destination: Destination::decode(&mut r)? },
            RequestKind::AllowRegions => Self::AllowRegions { scope: RegionScope::decode(&mut r)? },
            RequestKind::Restrict => {
                Self::Restrict { services: Services::decode(&mut r)?, pid: r.u32() }
            }
        };
        if !r.rest_is_zero() {
            return Err(WireError::Reserved);
        }
        Ok((request, sequence))
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
