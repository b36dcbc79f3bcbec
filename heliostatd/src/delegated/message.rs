//! What the control plane and its server loops tell each other.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use heliostat_abi::name::ObjectId;
use heliostat_abi::quota::Holder;
use heliostat_base::mapping::SharedMapping;
use heliostat_ring::{SpscConsumer, SpscProducer};
use heliostat_service_file::delegated::Meter;

use super::engine::{GoesOn, Who};
use super::file::{OpenFile, Vouched};

/// A session's rings and window, ready to be served.
pub struct Link {
    /// Where its operations come from.
    pub submissions: SpscConsumer,
    /// Where they end.
    pub completions: SpscProducer,
    /// The submission ring's control page, for the bell that wakes the server.
    pub bell: Arc<SharedMapping>,
    /// The page with its call, all zero.
    pub call: SharedMapping,
    /// Its memory for data.
    pub window: Arc<SharedMapping>,
    /// How much it may do.
    pub meter: Meter,
    /// Which delegation of its connection this is: none before or after has the number.
    pub serial: u64,
}

/// To a server loop.
pub enum Order {
    /// Serve this session from now on.
    Begin(ObjectId, Box<Link>),
    /// A file that a session asked for, or the errno instead.
    Opened(ObjectId, Asked, Result<Box<OpenFile>, i32>),
    /// Whether the file has a lease again, of which the loop has said that it has none.
    Vouched(ObjectId, ObjectId, Option<Vouched>),
    /// The session has ended; its memory stays until the device is done with it.
    End(ObjectId),
    /// From another loop: it has read, or could not read, a block that these wait for.
    Filled(Vec<Who>, GoesOn),
    /// Nobody needs the loop any more.
    Stop,
}

/// How a file was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// By an Open, which waits for it: the operation. Its tag may be another's by now.
    ByName(ObjectId),
    /// Shown over the control socket, with the tag of the completion that tells of it.
    Shown(u64),
}

/// A file that a session wants by name.
pub struct Wish {
    /// Who.
    pub session: ObjectId,
    /// In which of its delegations: the next has operations by the same names.
    pub serial: u64,
    /// The operation.
    pub operation: ObjectId,
    /// The name as it lay in the window: foreign bytes.
    pub name: Vec<u8>,
    /// `READ`, `WRITE`, `DIRECT`.
    pub access: u64,
}

/// From the server loops and from the opener.
pub enum News {
    /// A session wants a file.
    Wanted(Wish),
    /// The opener has it, or the errno instead.
    Found(Wish, Holder, Result<OwnedFd, i32>),
    /// A session reads a file without a lease that could have one: its name in the loop, and the
    /// control plane's number.
    Unvouched(ObjectId, ObjectId, u64),
    /// A session has closed a file.
    Closed(ObjectId, Box<OpenFile>),
    /// A session broke the protocol; the text says how.
    Broken(ObjectId, &'static str),
    /// A server loop has ended.
    Gone,
}
