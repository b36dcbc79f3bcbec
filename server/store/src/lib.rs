//! Areas of a store on the server loops: for programs that are not trusted with the device.
//!
//! ```text
//! operation -> handle (whose, which area, rights) -> bounds -> Line (whose turn, rate)
//!           -> parts, one for each extent -> the loop's device -> completion
//!              in the window where it is aligned, else by a bounce buffer
//! ```
//!
//! The control plane decides who holds what, and where areas lie; what it says of it comes here as
//! orders. An operation is checked when it is taken and each of its parts when it begins, so that an area
//! that becomes smaller is left by what has not begun. What the device has is waited for before a handle
//! is let go, or bytes that an area loses are said to be quiet.
//!
//! *Warm* (an operation): no allocation after the tables have grown, nothing waits.
#![forbid(unsafe_code)]

mod areas;
mod bounce;
mod disk;
mod flight;
mod flushes;
mod job;
mod line;
mod message;
mod orders;
mod part;
mod serve;
mod service;

pub use areas::Areas;
pub use disk::NoDevice;
pub use message::{StoreEvent, StoreOrder};
pub use service::Doubts;
