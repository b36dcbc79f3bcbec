//! Descriptors that are kept back for when there are no others.
//!
//! Without any, a request that shows something could not be taken in, nor thrown away: the kernel
//! would close what it brings in the event loop (`packet`). With these it is taken, and refused.

use std::os::fd::OwnedFd;

use heliostat_abi::limits::FDS_PER_REPLY_MAX;
use rustix::event::{eventfd, EventfdFlags};

/// As many as one message may bring, while they can be had.
pub struct Spare(Vec<OwnedFd>);

impl Spare {
    /// All, while there are others.
    pub fn new() -> Spare {
        let mut spare = Spare(Vec::with_capacity(FDS_PER_REPLY_MAX));
        spare.refill();
        spare
    }

    /// Keeps as many as there should be, or as there are.
    pub fn refill(&mut self) {
        while self.0.len() < FDS_PER_REPLY_MAX {
            let Ok(one) = eventfd(0, EventfdFlags::CLOEXEC) else { return };
            self.0.push(one);
        }
    }

    /// Makes room for others.
    pub fn lend(&mut self) {
        self.0.clear();
    }
}
