//! What the control plane and the loops tell each other of files.

use std::os::fd::OwnedFd;

use heliostat_abi::name::ObjectId;
use heliostat_server_loop::OperationId;
use heliostat_service_grant::Holder;

use super::files::Resume;
use super::open_file::{OpenFile, Vouched};

/// To a server loop.
pub enum FileOrder {
    /// A file that a session asked for, or the errno instead.
    Opened(ObjectId, OpenedBy, Result<Box<OpenFile>, i32>),
    /// Whether the file has a lease again, of which the loop has said that it has none.
    Vouched(ObjectId, ObjectId, Option<Vouched>),
    /// From another loop: it has read, or could not read, a block that these wait for.
    Filled(Vec<OperationId>, Resume),
}

/// How a file was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenedBy {
    /// By an Open, which waits for it: the operation. Its tag may be another's by now.
    Name(ObjectId),
    /// Shown over the control socket, with the tag of the completion that tells of it.
    Shown(u64),
}

/// A file that a session wants by name.
pub struct OpenRequest {
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
pub enum FileEvent {
    /// A session wants a file.
    Wanted(OpenRequest),
    /// The opener has it, or the errno instead.
    Found(OpenRequest, Holder, Result<OwnedFd, i32>),
    /// A session reads a file without a lease that could have one: its name in the loop, and the
    /// control plane's number.
    Unvouched(ObjectId, ObjectId, u64),
    /// A session has closed a file.
    Closed(ObjectId, Box<OpenFile>),
}
