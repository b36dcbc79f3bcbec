//! What the control plane tells the loop of functions, and who may do what with them.

use heliostat_abi::name::ObjectId;
use heliostat_server_node::{Caller, PeerNode};

use super::between::{FarAnswered, FarAsked, There};
use super::served::ServedFunction;

/// What a session may do with a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Role {
    /// Receive its calls and answer them.
    pub serves: bool,
    /// Call it and send to it.
    pub calls: bool,
}

/// Who a session is, as servers are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Who {
    /// Its user.
    pub user: u32,
    /// Its process.
    pub process: u32,
}

/// To the server loop.
pub enum RpcOrder {
    /// A function is served from now on.
    Serve(ServedFunction),
    /// Nobody serves it any more: what waits for it ends, what was delivered may still be answered.
    Gone {
        /// Which.
        function: ObjectId,
    },
    /// A session may do this with a function from now on, and nothing where the role is empty. What it
    /// was first said to be it stays; before that it may do nothing.
    Grant {
        /// Whose.
        session: ObjectId,
        /// Who that is; none where it has ended.
        who: Option<Who>,
        /// Which function.
        function: ObjectId,
        /// What.
        role: Role,
    },
    /// A node is joined: calls go there by this caller, which is for nothing else.
    Joined {
        /// Which, by which link.
        peer: PeerNode,
        /// The way.
        caller: Caller,
    },
    /// A node is lost on this link.
    Lost(PeerNode),
    /// A session may call a function of another node from now on, or may not any more.
    GrantThere {
        /// Whose.
        session: ObjectId,
        /// Who that is; none where it has ended.
        who: Option<Who>,
        /// Its name for the function.
        function: ObjectId,
        /// Where it leads; none where it leads nowhere any more.
        there: Option<There>,
    },
    /// A user of another node may call a function of this one from now on, or may not any more.
    GrantUser {
        /// What that user is here.
        session: ObjectId,
        /// Whose user, by which link.
        peer: PeerNode,
        /// Who, by that node's word.
        user: u32,
        /// Which function.
        function: ObjectId,
        /// Whether it may.
        may_call: bool,
    },
    /// Another node's loop tells this one something.
    Asked(Box<FarAsked>),
    /// Another node has answered a message of this loop, or will not.
    Answered(Box<FarAnswered>),
}

/// From the server loop; it has nothing to tell yet.
pub enum RpcEvent {}
