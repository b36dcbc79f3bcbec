//! This process's session with a server loop: its rings, and its window with what is under way.

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
        Ok(Link { connection, window: Arc::new(window), pages })
    }

    /// Takes pages of the window; `None` where there are none now.
    pub(crate) fn take(&self, bytes: usize) -> Option<PageRun> {
        self.pages().take(bytes)
    }

    /// Gives them back.
    pub(crate) fn give_back(&self, run: PageRun) {
        self.pages().give_back(run);
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
