//! What is foreign, which this thread never closes: close(2) of it may wait as long as its owner
//! pleases. A socket lingers, an unread message has such a socket in it; and whoever has the same open
//! file may turn it into that at any moment, so that looking first is of no use.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use heliostat_service_grant::{Holder, Used};

/// Closes beside, in threads that may wait, and changes nothing about what others have as well.
pub trait Closer: Send + Sync {
    /// Closes it soon.
    fn close(&self, fd: OwnedFd);

    /// How many are not closed yet.
    fn waiting(&self) -> Used;
}

/// Whose a listener is, and who closes what is its.
#[derive(Clone)]
pub struct Owner {
    /// Whose share its connections count against.
    pub holder: Holder,
    /// Who closes.
    pub closer: Arc<dyn Closer>,
}

/// A foreign descriptor. However it is let go of, it is closed beside.
pub struct Foreign {
    /// There until the value is taken apart.
    fd: Option<OwnedFd>,
    closer: Arc<dyn Closer>,
}

impl Owner {
    /// What is this owner's.
    pub fn own(&self, fd: OwnedFd) -> Foreign {
        Foreign { fd: Some(fd), closer: self.closer.clone() }
    }
}

impl AsFd for Foreign {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("only the end takes it").as_fd()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.fd.take().into_iter().for_each(|fd| self.closer.close(fd));
    }
}
