//! The control side of remote procedure calls: which functions there are, who serves and who calls them.
//!
//! A pure state machine: (state, input) -> answer and effects. It sees no call: those travel between
//! sessions and the server loop, which is told here who may do what.
//!
//! ```text
//!          publish                    publish               its last server leaves, or ends
//! nothing ---------> one server ------------> more servers --------------------------------> gone
//!                        ^ find | leave: callers                 (its callers have nothing either)
//! ```
#![forbid(unsafe_code)]

mod refusal;
mod remote;
mod rpc;
mod uses;
mod view;

pub use refusal::{Reason, Refusal};
pub use remote::{Remote, Remotes};
pub use rpc::{Asker, Effect, Key, Limits, Role, Rpc};
pub use uses::Uses;
pub use view::Holding;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod rpc_tests;
