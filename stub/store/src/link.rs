//! This process's session with a server loop: its rings, and its window with what is under way.

use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heliostat_abi::store::{StoreReply, StoreRequest};
use heliostat_base::mapping::SharedMapping;
use heliostat_client::OwnSession;
use heliostat_stub_link::SharedConnection;

use crate::ask::{when_left, AskStore};
use crate::pages::{PageRun, Pages, PAGE};
use crate::StoreError;

/// Bytes of the window: 32 of the longest operations. Pages that were never used are no memory.
const WINDOW_BYTES: usize = 8 << 20;

/// The session, for all areas of this process that are used by it.
pub(crate) struct Link {
    pub(crate) connection: SharedConnection,
    pub(crate) window: Arc<SharedMapping>,
    pages: Mutex<Pages>,
    /// Operations that nobody waits for any more, and the pages that they may still read or write.
    abandoned: Mutex<HashMap<u64, Vec<PageRun>>>,
}

impl Link {
    /// Asks the control plane to have a loop serve a window.
    pub(crate) fn begin(control: &OwnSession) -> Result<Link, StoreError> {
        let made = SharedMapping::create(c"heliostat-store-window", WINDOW_BYTES);
        let (fd, window) = made.map_err(StoreError::Mapping)?;
        let shown = [fd.as_raw_fd()];
        let (reply, fds) = when_left(|| control.ask_store(&StoreRequest::Session, &shown))?;
        let (StoreReply::Session { .. }, [rings]) = (reply, fds.as_slice()) else {
            return Err(StoreError::Corrupt);
        };
        let connection = SharedConnection::attach(control.standing().clone(), rings)?;
        let pages = Mutex::new(Pages::new(WINDOW_BYTES / PAGE));
        let abandoned = Mutex::default();
        Ok(Link { connection, window: Arc::new(window), pages, abandoned })
    }

    /// Takes pages of the window; `None` where there are none now.
    pub(crate) fn take(&self, bytes: usize) -> Option<PageRun> {
        self.reclaim();
        self.pages().take(bytes)
    }

    /// Keeps the pages that some bytes of the window lie in, whoever else has them, until they are given back.
    pub(crate) fn keep(&self, at: usize, bytes: usize) -> PageRun {
        let run = PageRun::around(at, bytes);
        self.pages().keep(run);
        run
    }

    /// Nobody waits for an operation any more, whose pages are given back when it has ended.
    pub(crate) fn abandon(&self, tag: u64, runs: Vec<PageRun>) {
        self.abandoned().insert(tag, runs);
    }

    /// Gives back the pages of abandoned operations that have ended.
    fn reclaim(&self) {
        let mut abandoned = self.abandoned();
        while !abandoned.is_empty() {
            let found = self.connection.take_any(&|tag| abandoned.contains_key(&tag));
            // Of a session that has ended the window is of no use any more.
            let Ok(Some(ended)) = found else { return };
            let runs = abandoned.remove(&ended.tag).unwrap_or_default();
            runs.into_iter().for_each(|run| self.give_back(run));
        }
    }

    /// Gives them back.
    pub(crate) fn give_back(&self, run: PageRun) {
        self.pages().give_back(run);
    }

    fn abandoned(&self) -> MutexGuard<'_, HashMap<u64, Vec<PageRun>>> {
        self.abandoned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
