//! Delegated streams: a connection to a remote peer, whose socket a loop of the network service has.
//!
//! ```text
//!   descriptor: near end of a local pair  = the shadow        hidden number: the TCP socket
//!       | bells, who is gone                                      | names, options, the way back
//!   far end --+-- loop --+-- copy of the TCP socket ---- remote peer
//!             +== lanes ==+
//! ```
//! To everything above, such a stream is a direct one: the slot is Proven from its beginning, and the
//! loop is its acceptor, whichever side called connect(2). What differs is told here: how it begins
//! (`begin`), and how the socket comes back to the descriptor (`back`), also when the loop is killed,
//! or a child of vfork takes it (`door`).
//! Whether a connection is one of these is asked of `carried`.

mod back;
mod begin;
mod carriers;
mod door;
mod duplicate;
mod habit;
mod hidden;

pub use back::{is_lost_at_close, take_back, TakenBack};
pub use begin::{accepted, completed, connected, may_carry};
pub use carriers::{configure, forget_link, reason_of};
pub use door::{follow_child, is_due, note_left, open as open_door};
pub use duplicate::{child_made, end_before_close, note_given};
pub use hidden::{close_hidden, drop_hidden, owned, put};

/// In the child of a fork: what the parent has is not for connections of ours.
pub fn reset_in_forked_child() {
    carriers::reset_in_forked_child();
    door::reset_in_forked_child();
}
