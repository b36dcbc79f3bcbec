//! Rings a worker's rings for it: for processors that can look and store, and make no system call.
//!
//! Such a worker never rings the server loop, which sleeps after a while without operations. This
//! thread looks at the bells of its rings, and rings for one that is set: every 50 us while operations
//! came lately, then ever more seldom, up to a millisecond. That is what a processor without a bell
//! costs on the host; one that can make a futex(2) call needs none of it.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use heliostat_base::fd::OwnedFd;
use heliostat_base::futex::wake;
use heliostat_base::mapping::{Access, SharedMapping};
use heliostat_base::sync::{AtomicBool, Ordering};

use super::Fault;

/// Where the consumer's bell stands in a ring, and the producer's position.
const BELL_AT: usize = 0x180;
const HEAD_AT: usize = 0x080;
const SHORTEST: Duration = Duration::from_micros(50);
const LONGEST: Duration = Duration::from_millis(1);

/// The thread. Dropped, it ends.
pub(super) struct Watcher {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Watches some rings' submissions.
    ///
    /// # Errors
    /// They cannot be mapped, or there is no thread.
    pub fn start(rings: &[&OwnedFd]) -> Result<Watcher, Fault> {
        let map = |fd: &&OwnedFd| SharedMapping::map(fd.as_raw_fd(), 0, 4096, Access::ReadWrite);
        let pages: Result<Vec<_>, _> = rings.iter().map(map).collect();
        let pages = pages.map_err(|error| Fault::Word(error.to_string()))?;
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let thread = std::thread::Builder::new().name("lean-watch".into());
        let thread = thread.spawn(move || watch(&pages, &ends));
        let thread = thread.map_err(|error| Fault::System("a watcher", error))?;
        Ok(Watcher { is_over, thread: Some(thread) })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn watch(pages: &[SharedMapping], is_over: &AtomicBool) {
    let mut heads = vec![0; pages.len()];
    let mut pause = SHORTEST;
    while !is_over.load(Ordering::Relaxed) {
        let mut has_moved = false;
        for (page, known) in pages.iter().zip(&mut heads) {
            let head = page.atomic_u64(HEAD_AT).load(Ordering::SeqCst);
            if head == *known {
                continue;
            }
            (*known, has_moved) = (head, true);
            let bell = page.atomic_u32(BELL_AT);
            // The loop looks at its ring after it has set its bell, so one that is set after this
            // exchange is of a loop that has seen the head.
            if bell.swap(0, Ordering::SeqCst) != 0 {
                wake(bell, u32::MAX);
            }
        }
        pause = if has_moved { SHORTEST } else { (pause * 2).min(LONGEST) };
        std::thread::sleep(pause);
    }
}
