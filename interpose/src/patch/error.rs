//! Why `install` patched nothing: each condition with the values that decided it.

use crate::cache::CacheError;
use crate::site::BuildId;
use heliostat_base::sys::Errno;
use std::path::PathBuf;
use std::{fmt, io};

/// Why nothing was patched. The program runs on unchanged after each of these.
#[derive(Debug)]
pub enum PatchError {
    /// `install` was called before.
    AlreadyInstalled,
    /// No mapped library holds libc's functions (a static program).
    NoLibc,
    /// The mapped libc has no build-id.
    NoBuildId {
        /// Its path.
        path: PathBuf,
    },
    /// No site list for this libc in any cache directory.
    NoList {
        /// The libc's build-id.
        build_id: BuildId,
        /// The last place looked at, and why it did not serve.
        source: CacheError,
    },
    /// The list's text segment is not the mapped one.
    Segment {
        /// Start and length in the list.
        wanted: (u64, u64),
        /// Start and length as mapped.
        found: (u64, u64),
    },
    /// The text at a site is not what was scanned; something else has patched it.
    TextChanged {
        /// Offset of the site from libc's load address.
        offset: u32,
    },
    /// There are other threads.
    Threads {
        /// How many threads in all.
        found: u64,
    },
    /// The threads cannot be counted.
    ThreadCount(io::Error),
    /// The processor checks return addresses on a shadow stack, with which this is untried.
    ShadowStack,
    /// The dynamic linker does not say when it loads something.
    NoLinker,
    /// The text may be written, or not read.
    Protection,
    /// The processor cannot save all that the code around may keep in registers (no XSAVE).
    NoXsave,
    /// As many files are patched as may be in one program.
    Files {
        /// How many.
        limit: usize,
    },
    /// No free memory within reach of a 32-bit jump.
    NoRoomNear {
        /// Bytes wanted.
        wanted: usize,
    },
    /// The kernel does not let memory be made executable or writable.
    Protect(Errno),
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PatchError::AlreadyInstalled => write!(f, "libc is already patched"),
            PatchError::NoLibc => write!(f, "no libc is mapped"),
            PatchError::NoBuildId { path } => write!(f, "{}: no build-id", path.display()),
            PatchError::NoList { build_id, source } => {
                write!(f, "no site list for libc {build_id}: {source}")
            }
            PatchError::Segment { wanted, found } => {
                write!(f, "libc's text is at {found:x?}, the site list says {wanted:x?}")
            }
            PatchError::TextChanged { offset } => {
                write!(f, "libc's text at {offset:#x} has been changed by something else")
            }
            PatchError::Threads { found } => write!(f, "{found} threads exist, 1 is allowed"),
            PatchError::ThreadCount(source) => write!(f, "/proc/self/task: {source}"),
            PatchError::ShadowStack => write!(f, "a shadow stack is enabled"),
            PatchError::NoLinker => write!(f, "the dynamic linker tells nothing to debuggers"),
            PatchError::Protection => write!(f, "its text may be written, or not read"),
            PatchError::NoXsave => write!(f, "the processor has no XSAVE"),
            PatchError::Files { limit } => write!(f, "{limit} files are patched already"),
            PatchError::NoRoomNear { wanted } => {
                write!(f, "no {wanted} free bytes within 2 GiB of libc")
            }
            PatchError::Protect(source) => write!(f, "memory protection: {source}"),
        }
    }
}

impl std::error::Error for PatchError {}
