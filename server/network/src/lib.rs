//! The loops of the network service: sockets to remote peers on one side, lanes on the other.
//!
//! ```text
//! remote peer <--TCP--> socket | loop |=== lanes of a slot ===> program
//!                              |      |--- shadow: bells, who is gone
//! ```
//! A program hands a connection over by one message: the socket, and one end of a local pair whose
//! other end it has under the connection's number. From then on the loop is the acceptor of an
//! ordinary slot that is Proven. It receives straight into the lane's memory and publishes after
//! that, and consumes what it has sent: so whoever finds it killed knows from the kernel's own
//! numbers how far each direction has come (`heliostat_backend_tcp`).
//!
//! A loop never waits for a program or a peer, and believes no word of a channel unchecked. What it
//! refuses it closes, and the program goes on natively where it was; what its user has no share left for
//! it gives back at once, and says so.
#![forbid(unsafe_code)]

mod carrier;
mod channel;
mod connection;
mod counts;
mod ending;
mod events;
mod loops;
mod share;
mod waiting;

pub use counts::Counts;
pub use loops::{CarrierState, NetworkLoops, NewChannel, NoLoop, Order, Settings};
pub use share::{CarriedShare, RefusedShare};
