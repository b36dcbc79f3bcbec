//! A connection under one of its descriptors, as what reads, waits, moves or ends it hands it on.

use super::{index_of, Socket, Stream};

/// A connection that has a stream.
#[derive(Clone, Copy)]
pub struct Connection<'a> {
    /// The descriptor, which is its shadow's.
    pub fd: i32,
    /// What lies at its place in the table.
    pub socket: &'a Socket,
    /// Its stream.
    pub stream: &'a Stream,
}

impl<'a> Connection<'a> {
    /// The one of `socket`, by `fd`.
    #[inline]
    pub fn new(fd: i32, socket: &'a Socket, stream: &'a Stream) -> Self {
        Self { fd, socket, stream }
    }

    /// Its place in the table.
    pub fn index(&self) -> u32 {
        index_of(self.socket)
    }
}
