//! What the loop keeps of other nodes: the way to each, calls that are there, users and calls of theirs
//! here. What is done with it is `far`'s.

mod call;
mod lanes;
mod link;
mod user;

pub use call::{FarAnswered, FarAsked, There};

pub(crate) use call::{Away, AwayCall, FarLine, NoAnswer, What};
pub(crate) use lanes::Lined;
pub(crate) use link::{Link, Tell, AWAY_PER_NODE_MAX, MESSAGE_COST, STALL_NS};
pub(crate) use user::{Named, User};
