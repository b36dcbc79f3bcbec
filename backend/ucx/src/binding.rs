//! The one place that speaks to UCX: its records, its functions by name, and a worker that is safe to use.
//!
//! All unsafe code of this crate is below here. What UCX calls back pushes values into a queue and
//! does nothing else; what it holds a pointer to lives until it says that it is done with it.

mod abi;
mod callbacks;
mod library;
mod sockaddr;
mod worker;

pub use callbacks::{Announced, Happening, Knock};
pub use library::{load, NoUcx};
pub use worker::Worker;
