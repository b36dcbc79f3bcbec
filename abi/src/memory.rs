//! Memory that processes share by name: its requests, its pages, its operations.
//!
//! A *region* is so many bytes of one user, made of *pieces* of a few *arenas*, which are sealed memory
//! files. Who has a *handle* on it reads and writes it: a session of the same user maps the arenas and
//! looks at the region's word in the *region page* (direct), every other one has the server loop do it
//! (delegated). `docs/memory.md` tells the whole.

pub mod limits;
pub mod name;
mod needs;
pub mod page;
pub mod peer;
pub mod piece;
pub mod presence;
pub mod replicated;
pub mod reply;
pub mod request;
pub mod rights;
pub mod spread;

pub use crate::file::delegated::region_operation as operation;
pub use name::MemoryName;
pub use piece::Piece;
pub use reply::{Granted, Listed, MemoryReply, MoveStage, MoveState, Question};
pub use request::{Allocation, MemoryRequest};
pub use rights::Rights;
