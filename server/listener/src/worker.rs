//! One worker: its queue, the page by which it tells its load, and what the kernel counts.

use std::collections::HashSet;
use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use heliostat_abi::listener::page;
use heliostat_base::mapping::SharedMapping;
use heliostat_base::sync::Ordering::Relaxed;

use crate::audit::Audit;
use crate::closing::Owner;
use crate::queue::Queue;

const NAME: &CStr = c"heliostat-listener-worker";

/// What a worker is to the thread.
pub struct Worker {
    /// Where its connections are put.
    pub queue: Queue,
    /// What the kernel counts; none where it has no set.
    pub audit: Option<Arc<Audit>>,
    page: SharedMapping,
    /// Numbers of connections that were its and were taken back: its set has them still.
    pub ghosts: HashSet<u64>,
    /// When its connections are counted next; 0: not before the next one.
    pub audit_at_ns: u64,
    /// Not before this: counting many takes its time.
    pub audit_not_before_ns: u64,
    /// Whether the thread hears that it has taken something.
    pub is_watched: bool,
}

impl Worker {
    /// A new one, with its end of the queue and its page.
    pub fn create(owner: &Owner) -> std::io::Result<(Worker, OwnedFd, OwnedFd)> {
        let (queue, theirs) = Queue::create(owner)?;
        let (fd, page) = SharedMapping::create(NAME, page::BYTES).map_err(std::io::Error::other)?;
        page.atomic_u32(0).store(page::MAGIC, Relaxed);
        page.atomic_u32(page::AT_VERSION).store(page::VERSION, Relaxed);
        let audit = Audit::create().ok().map(Arc::new);
        let ghosts = HashSet::new();
        let worker = Worker {
            queue,
            audit,
            page,
            ghosts,
            audit_at_ns: 0,
            audit_not_before_ns: 0,
            is_watched: false,
        };
        Ok((worker, theirs, fd.into()))
    }

    /// What its page says: connections that have ended, and load beside.
    pub fn told(&self) -> (u64, u32) {
        let closed = self.page.atomic_u64(page::AT_CLOSED).load(Relaxed);
        (closed, self.page.atomic_u32(page::AT_WEIGHT).load(Relaxed))
    }
}
