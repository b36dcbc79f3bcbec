//! What sessions have open by delegated operations.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use heliostat_abi::name::ObjectId;
use heliostat_server_file::{Device, FileStats};
use heliostat_service_grant::Holder;

use super::why::Why;

/// What one session has open, and who serves it.
pub struct Held {
    /// The server loop that has it, from its beginning to its end.
    pub loop_number: usize,
    /// Which delegation of its connection this is.
    pub serial: u64,
    /// It was told that it may have an io_uring of its own.
    pub lends: bool,
    /// Whose share it counts against.
    pub holder: Holder,
    /// Its files, by serial number.
    pub files: HashMap<u64, KnownFile>,
}

impl Held {
    /// Nothing, for a session of the loop with this number.
    pub fn on(loop_number: usize, serial: u64, lends: bool, holder: Holder) -> Held {
        Held { loop_number, serial, lends, holder, files: HashMap::new() }
    }
}

/// An open file, as the event loop knows it.
pub struct KnownFile {
    /// Its path.
    pub path: String,
    /// For reads through the kernel's page cache.
    pub buffered: Arc<OwnedFd>,
    /// Under which its blocks may be cached.
    pub lease: Option<ObjectId>,
    /// Whether they are, and why not.
    pub why: Why,
    /// It was opened never to be read past the caches.
    pub is_buffered: bool,
    /// The device that it lies on; a directory's is nobody's business.
    pub device: Option<Arc<Device>>,
    /// What was done with it.
    pub stats: Arc<FileStats>,
}
