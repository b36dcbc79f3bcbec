//! What this process keeps of its epoll sets: which streams are in them, and what is asked of each.
//!
//! The kernel's epoll descriptor stays what the program sleeps in. A direct stream is in it
//! through its shadow, edge-triggered, under event data of ours (`mark`) that no program is ever
//! given. All other descriptors are in it as the program put them.
//!
//! The calls themselves (epoll_ctl, epoll_wait) are in `event`, above streams; here is what a stream
//! changes when it begins, leaves or closes.
//!
//! - `sets`: the table of sets; `set`: the interests of one; `interest`, `order`, `mark`: its parts
//! - `enter`: an interest enters a set, or changes
//! - `early`: sockets that are put in before connect(2)
//! - `life`: what becomes of the sets when descriptors, connections and processes go
//! - `polled`: a poll on the set itself
//! - `family`: sets that a fork left to several processes

pub mod early;
pub mod enter;
pub mod family;
pub mod interest;
pub mod life;
pub mod mark;
pub mod order;
pub mod polled;
pub mod set;
pub mod sets;
