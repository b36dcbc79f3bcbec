//! What the control plane and the loops tell each other of files.

use heliostat_abi::name::ObjectId;
use heliostat_server_loop::OperationId;
use heliostat_service_grant::Holder;

use super::open_file::{OpenFile, Vouched};
use super::task::{Made, Refusal, Task};

/// To a server loop.
pub enum FileOrder {
    /// A file that a session asked for, or the errno instead.
    Opened(ObjectId, OpenedBy, Result<Box<OpenFile>, i32>),
    /// What an operation without a file of its own has brought for its pieces.
    Done(ObjectId, ObjectId, Vec<u8>),
    /// From another loop: locks were given back, of which it has put down the files.
    Unlocked,
    /// Whether the file has a lease again, of which the loop has said that it has none.
    Vouched(ObjectId, ObjectId, Option<Vouched>),
    /// From another loop: it has read, or could not read, a block that these wait for.
    Filled(Vec<OperationId>, Resume),
}

/// How reads go on that have waited for a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resume {
    /// They look again.
    InCache,
    /// It could not be read: looking again would only have it read again, for ever. The kernel reads,
    /// and what it says is told.
    ByKernel,
}

/// How a file was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenedBy {
    /// By an Open, which waits for it: the operation. Its tag may be another's by now.
    Name(ObjectId),
    /// Shown over the control socket, with the tag of the completion that tells of it.
    Shown(u64),
}

/// Something that a session wants and that may wait for a file system.
pub struct OpenRequest {
    /// Who.
    pub session: ObjectId,
    /// In which of its delegations: the next has operations by the same names.
    pub serial: u64,
    /// The operation.
    pub operation: ObjectId,
    /// What is to be done.
    pub task: Task,
}

/// From the server loops and from the opener.
pub enum FileEvent {
    /// A session wants a file, or something else done to names.
    Wanted(OpenRequest),
    /// What the opener has made of it.
    Found(OpenRequest, Holder, Result<Made, Refusal>),
    /// A session reads a file without a lease that could have one: its name in the loop, and the
    /// control plane's number.
    Unvouched(ObjectId, ObjectId, u64),
    /// A session has closed a file.
    Closed(ObjectId, Box<OpenFile>),
}
