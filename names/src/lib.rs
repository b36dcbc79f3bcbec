//! What has a name on a node, as folders and files: listed, opened, read and written by path.
//!
//! ```text
//! /status                       what the control plane tells of itself, as JSON
//! /sessions/PID                 one program
//! /net/ADDRESS                  who listens there
//! /lock/NAME  /rpc/NAME         the state of a lock, of a function
//! /memory/NAME                  a region's bytes
//! /snapshot/NAME/NUMBER         a version's bytes; `current` is the newest
//! /store/NAME                   an area's bytes; of a log or queue `data` and `records`
//! ```
//! `heliostat mount` and `heliostat ls`, `cat`, `cp` are thin on top of this crate. Everything is asked
//! as any program asks it, through the stubs and in this process's one session, so the rights are those
//! of the user who asks. What a file's bytes are is decided when it is looked at: a version, and a text
//! that was made then, never change. `docs/mount.md` tells the whole.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod brief;
mod fault;
mod file;
mod kept;
mod listed;
mod lock;
mod memory;
mod names;
mod net;
mod path;
mod renewed;
mod rpc;
mod sessions;
mod shelf;
mod snapshot;
mod status;
mod store;
mod text;

pub use fault::NameFault;
pub use file::{Access, Bytes, Entry, Facts, File, Found};
pub use names::Names;
pub use path::{is_name, NamePath};
