//! What the kernel knows of sockets: whose a TCP one is, a connection that stands in for another, and what
//! comes along with the bytes of a local one.
//!
//! What a connection is to a stream, and whom an owner's word convinces, is decided elsewhere.
#![warn(missing_docs)]

pub mod along;
pub mod owner;
pub mod twin;
