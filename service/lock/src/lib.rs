//! The lock service's control side: which locks, semaphores and barriers there are, who holds them, who waits.
//!
//! A pure state machine: (state, input) -> answer and effects. It knows a holder as a session's id and
//! nothing else, so that sessions of other nodes may be holders as well; it holds no descriptor, looks
//! at no clock and decides no right by rules.
//!
//! ```text
//! Open --> handle --Acquire--> ticket: Held, at once, if it is free and nobody waits
//!                                      Waiting --its turn--> Held --Release--> nothing
//!                                         |--Cancel, Close, the session's end--> nothing
//!        --Arrive---> ticket: Waiting --the last arrives--> told that all passed --> nothing
//!                                         '--a participant dies or gives up--> told: broken
//! ```
//!
//! - **First come, first served.** Each lock has one line. Whoever is at its front gets what it claims
//!   as soon as there is so much, and nobody before it: so readers that come after a waiting writer
//!   wait, and who claims many permits is not overtaken by those who claim few.
//! - **No wake-up is lost.** What becomes of a ticket is kept until its session has been told, and its
//!   session is rung for each such event.
//! - **Tokens** grow over all locks, so that they grow for a name also when its lock vanished meanwhile.
//! - A session's end ends all its tickets, and the next holder is told that one has died, if that one
//!   had been told that it held.
#![forbid(unsafe_code)]

mod acquire;
mod asker;
mod barrier;
mod ending;
mod foreign;
mod key;
mod locks;
mod news;
mod object;
mod open;
mod refusal;
mod remote;
mod ticket;
mod view;

pub use asker::Asker;
pub use foreign::{Foreign, ForeignSessions};
pub use key::Key;
pub use locks::{Effect, Limits, Locks};
pub use refusal::{Reason, Refusal};
pub use remote::{fits, RemoteHandle, RemoteLocks, RemoteTicket, Standing};
pub use view::Holding;

#[cfg(test)]
mod barrier_tests;
#[cfg(test)]
mod lock_tests;
#[cfg(test)]
mod nodes_tests;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod world;

/// Schedules of each property; HELIOSTAT_SCHEDULES has more of them.
#[cfg(test)]
fn schedules() -> u32 {
    std::env::var("HELIOSTAT_SCHEDULES").ok().and_then(|it| it.parse().ok()).unwrap_or(400)
}
