//! Service net, same-node streams: direct when both ends are ours, the kernel's own otherwise.
//!
//! The kernel's TCP connection stays underneath every direct stream as its *shadow*. It gives
//! the descriptor its number, tells of the peer's death, carries the bell (a byte that wakes
//! whatever kernel wait the sleeper chose) and takes over when the direct path must be left.
//!
//! In layers, of which each uses its own and those above it:
//!
//! - what is asked, shared and moved: `channel`, `requests`, `kernel`, `identity`, `transfer`,
//!   `rest`
//! - a connection's state and locks: `undecided`, `socket`, `patience`, `side_lock`
//! - what is seen of it: `carried`, `end`, `shadow`, `ready`, `early`
//! - who is told of it: `report_line`, and epoll sets: `watch`
//! - the way off the rings: `relay`, `switch`; with it sets are left and entered: `shared_set`,
//!   `handover`
//! - a loop of the network service as its other end: `delegated`
//! - its beginning: `listen`, `connecting`, `connect`, `accept`; who may ask it to leave: `demote`,
//!   `along`
//! - the program's calls: `wait`, `hold`, `option`, `send`, `receive`, `close`

pub mod accept;
pub mod along;
pub mod carried;
pub mod channel;
pub mod close;
pub mod commit;
pub mod connect;
pub mod connecting;
pub mod delegated;
pub mod demote;
pub mod early;
pub mod end;
pub mod handover;
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
pub mod rest;
pub mod returned;
pub mod send;
pub mod shadow;
pub mod shared;
pub mod shared_set;
pub mod side_lock;
pub mod socket;
pub mod switch;
pub mod transfer;
pub mod undecided;
pub mod unflushed;
pub mod wait;
pub mod watch;
