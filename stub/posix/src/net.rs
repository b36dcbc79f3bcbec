//! Service net, same-node streams: direct when both ends are ours, the kernel's own otherwise.
//!
//! The kernel's TCP connection stays underneath every direct stream as its *shadow*. It gives
//! the descriptor its number, tells of the peer's death, carries the bell (a byte that wakes
//! whatever kernel wait the sleeper chose) and takes over when the direct path must be left.

pub mod accept;
pub mod channel;
pub mod close;
pub mod connect;
pub mod demote;
pub mod early;
pub mod end;
pub mod hold;
pub mod identity;
pub mod kernel;
pub mod listen;
pub mod option;
pub mod patience;
pub mod ready;
pub mod receive;
pub mod relay;
pub mod report_line;
pub mod requests;
pub mod send;
pub mod shadow;
pub mod side_lock;
pub mod socket;
pub mod switch;
pub mod transfer;
pub mod undecided;
pub mod wait;
