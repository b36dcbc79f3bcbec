//! How many descriptors and bytes of answers wait in sockets, and whose.

use heliostat_service_grant::{Exceeded, Holder, Quota, Shares};

/// What waits in all sockets together.
pub struct Unread {
    descriptors: Quota,
    bytes: Quota,
}

/// What waits in one socket.
#[derive(Clone, Copy, Default)]
pub struct Backlog {
    /// Descriptors.
    pub descriptors: u64,
    /// Bytes of texts.
    pub bytes: u64,
    /// Since when something does.
    pub since_ns: u64,
}

impl Unread {
    /// Nothing waits.
    pub fn new((descriptors, bytes): (Shares, Shares)) -> Unread {
        Unread { descriptors: Quota::new(descriptors), bytes: Quota::new(bytes) }
    }

    /// Takes new limits over.
    pub fn set_shares(&mut self, (descriptors, bytes): (Shares, Shares)) {
        self.descriptors.set_shares(descriptors);
        self.bytes.set_shares(bytes);
    }

    /// Who has how many descriptors there.
    pub fn quota(&self) -> &Quota {
        &self.descriptors
    }

    /// Whether so many descriptors more may wait. What a text will have is not known beforehand: the
    /// last one may be too long.
    pub fn check(&self, holder: Holder, descriptors: u64) -> Result<(), Exceeded> {
        self.descriptors.check(holder, descriptors).and_then(|()| self.bytes.check(holder, 1))
    }

    /// An answer waits.
    pub fn take(&mut self, holder: Holder, more: Backlog) {
        self.descriptors.take_anyway(holder, more.descriptors);
        self.bytes.take_anyway(holder, more.bytes);
    }

    /// A connection's answers were read, or it has ended.
    pub fn give_back(&mut self, holder: Holder, backlog: Backlog) {
        self.descriptors.give_back(holder, backlog.descriptors);
        self.bytes.give_back(holder, backlog.bytes);
    }
}

impl Backlog {
    /// Adds an answer.
    pub fn add(&mut self, more: Backlog) {
        if self.descriptors == 0 {
            self.since_ns = more.since_ns;
        }
        self.descriptors += more.descriptors;
        self.bytes += more.bytes;
    }
}
