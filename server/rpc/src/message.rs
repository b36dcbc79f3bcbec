//! What the control plane tells the loop of functions, and who may do what with them.

use heliostat_abi::name::ObjectId;

/// A function as the loop has to know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServedFunction {
    /// Its identity.
    pub function: ObjectId,
    /// Whose it is: its messages that wait count against this user's share.
    pub user: u32,
    /// Bytes that a call's payload may have.
    pub request_bytes: u32,
    /// Bytes that a reply may have.
    pub reply_bytes: u32,
    /// Messages sent one way that may wait.
    pub queue: u32,
}

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
}

/// From the server loop; it has nothing to tell yet.
pub enum RpcEvent {}
