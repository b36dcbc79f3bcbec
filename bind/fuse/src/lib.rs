//! The names of a node as a file system: what the kernel asks by FUSE, asked of `heliostat-names`.
//!
//! ```text
//! mount   root: mount(2)                 others: fusermount3
//! serve   some threads that answer the kernel until the mount is taken away
//! guard   a process that takes a mount away whose server has died
//! ```
//! What never changes (a version, a text) is a file of its own to the kernel, which may keep its bytes:
//! a name that stands for another one later, as `current`, is looked up each time. What may change is
//! read and written past the kernel's cache. `docs/mount.md` tells the whole.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod attributes;
mod device;
mod error;
mod filesystem;
mod guard;
mod helper;
mod nodes;
mod open;

use std::sync::Arc;

use fuser::{Config, Session, SessionACL};
use heliostat_names::Names;

pub use device::{mount, unmount, Mounted};
pub use error::MountError;
pub use guard::guard;
pub use helper::find as find_helper;

use filesystem::NameFiles;

/// What `mount` and `df` show.
const SOURCE: &str = "heliostat";
/// Threads that answer the kernel. One may wait for the control plane, half a second at most; the others
/// go on meanwhile.
const THREADS: usize = 8;

/// Serves a mount until it is taken away.
///
/// # Errors
/// The kernel speaks no FUSE that this does, or the machine gives no threads.
pub fn serve(mounted: Mounted, names: Arc<Names>) -> Result<(), MountError> {
    let mut config = Config::default();
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    let acl = if mounted.is_for_all { SessionACL::All } else { SessionACL::Owner };
    let files = NameFiles::new(names, mounted.is_for_all);
    let session =
        Session::from_fd(files, mounted.device, acl, config).map_err(MountError::Serve)?;
    session.run().map_err(MountError::Serve)
}
