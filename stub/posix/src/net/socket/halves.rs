//! The two halves of a connection, each behind a lock of its own, and who relies on bells.

use std::sync::Arc;

use heliostat_ring::stream::WriteCache;

use super::Stream;
use crate::flush::Unflushed;
use crate::net::undecided::Undecided;
use crate::report::Line;

/// The reading half.
pub struct Receiver {
    /// The stream, while this half is direct.
    pub stream: Option<Stream>,
    /// What it was before the connection became the kernel's: its slot is still to be given back.
    pub left: Option<Stream>,
    /// Payload bytes received so far.
    pub received: u64,
    /// Its line in the report.
    pub line: Option<Arc<Line>>,
    /// What is known of an accepted connection whose offer may still come.
    pub undecided: Option<Box<Undecided>>,
}

/// The writing half.
pub struct Sender {
    /// The stream, while this half is direct.
    pub stream: Option<Stream>,
    /// What is remembered of the reader.
    pub cache: WriteCache,
    /// What of `cache`'s unpublished bytes waits for which flush.
    pub unflushed: Unflushed,
    /// Bytes of one segment of the shadow; 0 until it was asked.
    pub segment: u64,
    /// Payload bytes sent so far.
    pub sent: u64,
    /// Its line in the report.
    pub line: Option<Arc<Line>>,
}

impl Receiver {
    pub(super) const fn empty() -> Self {
        Self { stream: None, left: None, received: 0, line: None, undecided: None }
    }
}

impl Receiver {
    /// Nothing comes by the ring any more.
    pub fn leave(&mut self) {
        self.left = self.stream.take().or(self.left.take());
    }
}

impl Sender {
    /// Counts payload, for the report.
    pub fn count_sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
        self.line.iter().for_each(|line| line.sent(self.sent));
    }

    pub(super) const fn empty() -> Self {
        Self {
            stream: None,
            cache: WriteCache::new(),
            unflushed: Unflushed::new(),
            segment: 0,
            sent: 0,
            line: None,
        }
    }
}
