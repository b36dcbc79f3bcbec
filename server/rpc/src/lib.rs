//! Remote procedure calls on a server loop: matches calls with who serves them, and carries the bytes.
//!
//! ```text
//! Call ---> line of its function --+
//!                                  +--> match --> payload into the receiver's window --> Receive ends
//! Receive -> line of free servers -+                        call is open (token)
//! Reply ----------------------------> payload into the caller's window --> Call ends
//! Send ----> copy in the loop ------> as a call, without a reply
//! ```
//!
//! All sessions of all functions are on one loop: a call concerns two sessions, and on one loop both
//! are at hand without a lock or a message. What an operation's own turn shows is one session, so a
//! turn only puts it in line or copies a part; lines are matched once for each sweep ([`Service::swept`]).
//!
//! Who may serve and call what the control plane says by orders. Nothing else is believed: a token
//! counts for the session that it was given to, once; lengths are those of records that were checked,
//! and of functions as the control plane told them.
//!
//! [`Service::swept`]: heliostat_server_loop::Service::swept
#![forbid(unsafe_code)]

mod answer;
mod between;
mod deliver;
mod ending;
mod far;
mod function;
mod lines;
mod member;
mod message;
mod place;
mod rpcs;
mod serve;
mod served;
mod service;
mod transfer;
mod waiting;

pub use between::{FarAnswered, FarAsked, There};
pub use far::PeerCalls;
pub use message::{Role, RpcEvent, RpcOrder, Who};
pub use rpcs::{Rpcs, STORED_BYTES_MAX};
pub use served::ServedFunction;
