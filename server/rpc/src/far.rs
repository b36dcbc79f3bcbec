//! Calls between nodes: those of this node's sessions to functions elsewhere, and of users elsewhere to
//! functions here.
//!
//! ```text
//! node of the caller                                   node of the server
//! Call -> lane of its function --Call, payload-->      line of the function
//!           '- ends: Leave ----------------->            | match: payload into the server's window
//!         received <---- the answer to that ----         '-> Receive ends
//! window <-------- Reply, a message of its own --        Reply
//! ```
//! A call's message is answered when a server has received it, not when it has replied: until then it
//! is in line, and what ends it early can say so; from then on it occupies nothing between the nodes,
//! however long it runs. The reply is a message in the other direction, which names the call.
//!
//! Payloads are copied at once on both sides; who sends is charged for it as for a transfer.

mod away;
mod hosted;
mod reply;
mod time;
mod users;
mod wake;

pub use hosted::PeerCalls;

pub(crate) use away::{answered, attend_cut, begin, pump};
pub(crate) use reply::reply;
pub(crate) use time::{lose, pass_time};
pub(crate) use users::{accept, connect, end_all_of, grant, wake_sender};
