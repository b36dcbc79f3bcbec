//! Shared listeners: who may take part in one, and who takes which connection.
//!
//! Pure state machines, which the daemon, the balancer's thread and the loops of sockets drive:
//!
//! ```text
//! Listeners   (session, listening socket) -> a worker of a listener, its place, effects
//! Balance     (connection) -> the worker that takes it, or nobody now
//! MemberTurns (connection) -> the member that asks for one and takes it, or who is waited for
//! Choice      the rules, for both
//! ```
//!
//! [`Listeners`] knows sessions, users and limits. [`Balance`] knows the workers of one listener, how
//! loaded each is by its own word and by the kernel's, and the rule. Neither holds a descriptor or a
//! clock.
#![forbid(unsafe_code)]

mod balance;
mod choice;
mod ends;
mod listeners;
mod load;
mod refusal;
mod seat;
mod shares;
mod view;

pub use balance::{Balance, QUEUE_MAX};
pub use choice::{address_bytes, decides, Candidate, Choice, Key, BOUND_NS};
pub use listeners::{
    Effect, Endpoint, Joined, Joining, Limits, Listeners, LINGER_HELD_NS, LINGER_NS,
};
pub use load::Load;
pub use refusal::{Reason, Refusal};
pub use seat::{Seat, Standing};
pub use shares::{Member, MemberTurns, Turn};
pub use view::{ListenerView, WorkerView};

#[cfg(test)]
mod balance_tests;
#[cfg(test)]
mod listeners_tests;
#[cfg(test)]
mod properties;
