//! What a file that sessions read is read ahead by, for those that come to it.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use super::open_file::{OpenFile, Vouched};

/// A file as the last session had it open that began it. Keeps it open for nobody.
#[derive(Clone)]
pub struct Source {
    /// Under which it may be kept.
    pub lease: Vouched,
    file: Option<Weak<OwnedFd>>,
}

impl Source {
    /// Of a file under a lease. One whose name has a rate is never read ahead: who comes to it pays
    /// that rate, and nobody else.
    pub fn of(file: &OpenFile, lease: Vouched) -> Source {
        let is_free = file.meter.is_none();
        Source { lease, file: is_free.then(|| Arc::downgrade(&file.buffered)) }
    }

    /// Its descriptor, while somebody has it open.
    pub fn file(&self) -> Option<Arc<OwnedFd>> {
        self.file.as_ref().and_then(Weak::upgrade)
    }
}
