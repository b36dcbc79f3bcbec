//! The server loop: takes operations from sessions' rings, has a service carry them out, completes.
//!
//! ```text
//! ring -> Operations (limits, order, deadlines) -> Fair (whose turn) -> Meter (how much)
//!      -> Service::serve (cache, device, kernel) -> completion ring
//! ```
//!
//! Everything that is the same for every service lies here: rings, parking, turns, rates, deadlines,
//! cancellation, sleeping, counters. What an operation means, and what it works on, a [`Service`]
//! brings: its objects, its orders from the control plane, and how an operation begins and goes on.
//! A loop is compiled for one service, so that a call into it costs what a local call costs.
//!
//! A loop never waits for a session, and decides nothing but turns. What has to wait, opening by
//! name for example, has threads of its own ([`pool`]).
#![forbid(unsafe_code)]

mod awaited;
mod bell;
mod call_line;
mod completions;
mod counts;
mod engine;
mod fair;
mod flights;
mod intake;
mod loops;
mod message;
mod new_session;
mod operations;
mod parts;
mod payload;
pub mod pool;
pub mod pool_lines;
mod server;
mod service;
mod session;
mod sessions;
mod turn;
mod turns;

pub use awaited::Awaited;
pub use bell::Bell;
pub use completions::Completions;
pub use counts::Counts;
pub use engine::{DeviceShares, Engine, OperationId, Token};
pub use fair::{Fair, COST_MIN, QUANTUM};
pub use loops::{LoopState, Loops, Settings};
pub use message::{Event, Events, Gate, Order};
pub use new_session::{map_window, NewSession, WindowError};
pub use operations::{Cancelled, Entry, Operations};
pub use parts::{Object, Parts, PerSession};
pub use payload::{copy_part, Border, Sample};
pub use server::{Inbox, Server};
pub use service::Service;
pub use session::Session;
pub use sessions::Sessions;
pub use turn::{Step, Turn};

/// Memory in pieces, and whether it may be used: what a service of memory works with.
pub use heliostat_ring::{area::Area, presence, region_page::RegionPage};

#[cfg(test)]
mod properties;
