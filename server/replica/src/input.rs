//! What comes to the thread.

use heliostat_server_node::{AskId, Outcome, PeerNode};
use heliostat_service_replica::{Action, Alter, Answered, Failed, Fault, Identity, Member};

use crate::request::{Draft, Failure, Limits, NotAltered, Opened};

/// Somebody who waits for something; called once, on the thread, where it must not wait.
pub(crate) type Then<T> = Box<dyn FnOnce(T) + Send>;

/// Who waits until it is said anew who may use a region.
pub(crate) enum Alterer {
    Node(AskId),
    Here(Then<Result<(), NotAltered>>),
}

/// What comes.
pub(crate) enum Input {
    /// Another node asks.
    Asked { from: PeerNode, ask: AskId, header: Vec<u8>, payload: Vec<u8> },
    /// A call has ended.
    Called(Called, Outcome),
    /// The registry has answered.
    Record(u64, Option<(u64, Vec<u8>)>),
    /// This node lives this life.
    Lives(u64),
    /// A node is joined.
    Joined(PeerNode),
    /// It is so no more.
    Lost(PeerNode),
    /// A region is to be made.
    Make(Draft, Then<Result<Opened, Failure>>),
    /// A region is to be found.
    Open(String, Then<Result<Opened, Failure>>),
    /// A region is to be freed.
    Free(Identity, u32, Then<Result<(), Fault>>),
    /// Who may use a region is to be altered.
    Alter(Identity, u32, Alter, Then<Result<(), NotAltered>>),
    /// So much this node gives from now on.
    Limits(Limits),
    /// An operation of a program of this node.
    Submit(Identity, u32, Action, Then<Result<Answered, Failed>>),
    /// It is over.
    End,
}

/// Which call.
#[derive(Clone)]
pub(crate) enum Called {
    /// Entries to a backup.
    Append(Identity, Member, (u64, u64)),
    /// An operation to a primary.
    Operate(Identity, u64),
    /// A record that was to be read, or written.
    Record(Wanted),
    /// A region that was to be freed.
    Free(u64),
    /// A region that was to be altered.
    Alter(u64),
    /// Nobody waits for it.
    Nothing,
}

/// For what a record was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    /// A replica looks.
    Look(Identity, u64),
    /// A replica has proposed one.
    Propose(Identity, u64),
    /// A client looks.
    Client(Identity),
    /// Somebody opens a region.
    Open(u64),
}
