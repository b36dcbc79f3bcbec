//! Which sockets a session may have, and whose turn it is at a shared listener.
//!
//! ```text
//! Reach, Folder, Confine --> Confined: what a session that is handed on may still name
//! Accept, close          --> Shares: which of a listener's members gets the next connection
//! ```
//! Pure: (state, input) -> answer. No descriptor, no clock, no thread.
#![forbid(unsafe_code)]

mod confined;
mod shares;

pub use confined::{Confined, Folder, TooMany, Within};
pub use shares::{Member, Rule, Shares};
