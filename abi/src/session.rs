//! The session: its protocol, what it may ask, and the pages on which both sides tell of it.

pub mod node;
pub mod record;
pub mod report;
pub mod restriction;
