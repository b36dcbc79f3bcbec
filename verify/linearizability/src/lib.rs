//! Decides whether a recorded history is linearizable: whether there is one order of all its calls in
//! which each takes effect at once, between its invocation and its response, and in which a sequential
//! model answers what was answered.
//!
//! ```text
//! real processes --> (process, invoked, responded, operation, answer) --> check(model) --> Ok
//!                                                                              '--> NotLinearizable:
//!                                                          the longest order that was found, and
//!                                                          the calls that none of its next steps allows
//! ```
//! The search is that of Wing and Gong, with Lowe's memory: a set of calls that were ordered, together
//! with the model's state after them, is tried once. A call without a response (its process was killed,
//! or it was told that it may have been done or not) may take effect at any time after its invocation,
//! or never.
//!
//! Histories of independent objects are checked one by one: a history is linearizable if and only if
//! that of each object is ([`History::by_object`]).
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod calls;
mod history;
pub mod model;
mod search;

pub use history::{Call, History, Malformed};
pub use model::Model;
pub use search::{check, NotLinearizable};
