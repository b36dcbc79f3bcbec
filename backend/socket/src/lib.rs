//! What the kernel knows of TCP sockets: whose one is, and a connection that stands in for another.
//!
//! What a connection is to a stream, and whom an owner's word convinces, is decided elsewhere.
#![warn(missing_docs)]

pub mod owner;
pub mod twin;
