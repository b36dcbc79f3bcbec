//! Which sockets a session may have that is handed on.
//!
//! ```text
//! Reach, Folder, Confine --> Confined: what a session that is handed on may still name
//! ```
//! Pure: (state, input) -> answer. No descriptor, no clock, no thread.
#![forbid(unsafe_code)]

mod confined;

pub use confined::{Confined, Folder, Place, TooMany, Within};
