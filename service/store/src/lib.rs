//! The store service's control side: which areas there are, whose they are, and who has a handle.
//!
//! A pure state machine: (state, input) -> answer and effects. It holds no device and touches no byte
//! of an area. Two others act for it: the *store* makes, resizes and ends areas on the disk and answers
//! each order with `done`; the *server loops* read and write them, and say with `let_go` and `quiet`
//! when nothing of theirs is under way any more.
//!
//! ```text
//!        create            done                        done
//! nothing ----> Making -----------> Live <--------------------------- Ordered: resize, appoint
//!                                    | |  resize, appoint                ^
//!                                    | `--------------------------------'
//!                                    |    smaller -> Shrinking -- quiet -'
//!                                    | delete
//!                                    v          the last handle is let go            done
//!                                  Ending ----------------------------> Ordered: end ----> nothing
//! ```
//!
//! An area outlives its sessions, so it counts against its user, not against a session. One change of
//! an area is under way at a time. An area is ended, and bytes are cut off it, only when no loop has an
//! operation on them under way: the store zeroes them next. Nor while a session has it *directly*: it
//! drives the device itself, and nobody could tell it to stop.
#![forbid(unsafe_code)]

mod areas;
mod change;
mod done;
mod handles;
mod opening;
mod refusal;
mod view;

pub use areas::{Answered, Areas, Asker, Effect, Key, Limits, Order, Question, Stored, Wanted};
pub use done::{Done, Failed};
pub use opening::Opening;
pub use refusal::{Reason, Refusal};
pub use view::{AreaView, HandleView, Holding};

#[cfg(test)]
mod areas_tests;
#[cfg(test)]
mod properties;
