//! Shared listeners: who may take part in one, and who takes which connection.
//!
//! Two pure state machines, which the daemon and the balancer's thread drive:
//!
//! ```text
//! Listeners  (session, listening socket) -> a worker of a listener, its place, effects
//! Balance    (connection) -> the worker that takes it, or nobody now
//! ```
//!
//! [`Listeners`] knows sessions, users and limits. [`Balance`] knows the workers of one listener, how
//! loaded each is by its own word and by the kernel's, and the rule. Neither holds a descriptor or a
//! clock.
#![forbid(unsafe_code)]

mod balance;
mod ends;
mod listeners;
mod load;
mod refusal;
mod seat;
mod view;

pub use balance::{Balance, Key, QUEUE_MAX};
pub use listeners::{Effect, Endpoint, Joined, Joining, Limits, Listeners, LINGER_NS};
pub use load::Load;
pub use refusal::{Reason, Refusal};
pub use seat::{Seat, Standing};
pub use view::{ListenerView, WorkerView};

#[cfg(test)]
mod balance_tests;
#[cfg(test)]
mod listeners_tests;
#[cfg(test)]
mod properties;
