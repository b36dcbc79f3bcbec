//! A name that is open: its handle, which is given back with the value.

use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_abi::lock::LockRequest;
use heliostat_abi::name::ObjectId;

use crate::ask::AskLock;
use crate::shared::Shared;

/// How long a call waits.
#[derive(Clone, Copy)]
pub(crate) enum Patience {
    /// Not at all.
    Never,
    /// So long at most.
    Within(Duration),
    /// For ever.
    Always,
}

impl Patience {
    /// When it ends. A time that no clock reaches is never.
    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Self::Never => Some(Instant::now()),
            Self::Within(limit) => Instant::now().checked_add(limit),
            Self::Always => None,
        }
    }
}

pub(crate) struct Opened {
    pub(crate) shared: Arc<Shared>,
    pub(crate) handle: ObjectId,
    pub(crate) lock: ObjectId,
    /// Where it is; none for this node.
    pub(crate) node: Option<u64>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.shared.control.is_own() {
            // Where it cannot be said, the session has ended, and the handle with it.
            let _ = self.shared.control.tell(&LockRequest::Close { handle: self.handle }, &[]);
        }
    }
}
