//! A direct connection under one of its descriptors, as what moves or ends it hands it on.

use super::{at, Socket, Stream};

/// A connection that has a stream.
#[derive(Clone, Copy)]
pub struct Connection<'a> {
    /// The descriptor, which is its shadow's.
    pub fd: i32,
    /// Its place in the table.
    pub index: u32,
    /// What lies there.
    pub socket: &'static Socket,
    /// Its stream.
    pub stream: &'a Stream,
}

impl<'a> Connection<'a> {
    /// The one at `index`, by `fd`.
    pub fn new(fd: i32, index: u32, stream: &'a Stream) -> Self {
        Self { fd, index, socket: at(index), stream }
    }
}
