//! Why writes cannot be tracked, in words that say what to do about it.

use heliostat_base::sys::Errno;

/// Name of the system call that a sandbox is most likely to refuse.
pub(super) const USERFAULTFD: &str = "userfaultfd";
/// Name of the handshake that a kernel before 6.7 refuses.
pub(super) const HANDSHAKE: &str = "ioctl(UFFDIO_API)";
/// Name of the scan, which came with the same kernel.
pub(super) const SCAN: &str = "ioctl(PAGEMAP_SCAN)";
/// Name of the opening of this process's page map.
pub(super) const OPEN: &str = "open(/proc/self/pagemap)";

/// Why writes could not be tracked or asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrackError {
    /// This kernel or sandbox does not offer it; trying again will not help.
    Unsupported {
        /// System call that was refused.
        call: &'static str,
        /// Its error number.
        errno: Errno,
    },
    /// An end is not a multiple of the page size, or the end lies before the start.
    Misaligned {
        /// Address of the first byte.
        start: usize,
        /// Address behind the last byte.
        end: usize,
    },
    /// Some page is not watched: never, or no more since it was unmapped, remapped or moved.
    /// What was written to the range is not known any more.
    Lost {
        /// First page of the range that was asked about.
        start: usize,
    },
    /// This process is not the one that made the tracker, but a fork of it.
    Forked,
    /// The kernel refused for another reason, such as too many open files.
    System {
        /// System call that failed.
        call: &'static str,
        /// Its error number.
        errno: Errno,
    },
}

impl TrackError {
    /// Sorts a refusal while a tracker is made: `Unsupported` if it is for good.
    pub(super) fn refused(call: &'static str, errno: Errno) -> TrackError {
        match errno.0 {
            libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EAGAIN | libc::EINTR => {
                TrackError::System { call, errno }
            }
            _ => TrackError::Unsupported { call, errno },
        }
    }
}

/// What the reader can do where `call` is refused for good.
fn remedy(call: &str, errno: Errno) -> &'static str {
    match (call, errno.0) {
        (USERFAULTFD, libc::EPERM | libc::EACCES) => {
            "a sandbox forbids it; allow userfaultfd in the seccomp profile or security module"
        }
        (USERFAULTFD, libc::ENOSYS) => {
            "the kernel is built without CONFIG_USERFAULTFD, or a seccomp profile hides it"
        }
        (USERFAULTFD | HANDSHAKE | SCAN, libc::EINVAL | libc::ENOTTY) => {
            "the kernel is older than 6.7, or built without CONFIG_PTE_MARKER_UFFD_WP"
        }
        (OPEN, _) => "/proc must be mounted, and the process dumpable (prctl PR_SET_DUMPABLE)",
        _ => "Linux 6.7 or later and a sandbox that allows userfaultfd are needed",
    }
}

impl std::fmt::Display for TrackError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TrackError::Unsupported { call, errno } => {
                write!(f, "{call}: {errno}: {}", remedy(call, *errno))
            }
            TrackError::Misaligned { start, end } => {
                write!(f, "[{start:#x}, {end:#x}) is not a range of whole pages")
            }
            TrackError::Lost { start } => write!(
                f,
                "pages from {start:#x} are not watched (unmapped or mapped anew): \
                 watch them again and take all of them for written"
            ),
            TrackError::Forked => {
                f.write_str("the tracker belongs to the parent process: make one after fork")
            }
            TrackError::System { call, errno } => write!(f, "{call}: {errno}"),
        }
    }
}
impl std::error::Error for TrackError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_says_what_to_do() {
        let text = |call, errno| TrackError::refused(call, Errno(errno)).to_string();
        assert!(text(USERFAULTFD, libc::EPERM).contains("seccomp profile"));
        assert!(text(USERFAULTFD, libc::ENOSYS).contains("CONFIG_USERFAULTFD"));
        assert!(text(HANDSHAKE, libc::EINVAL).contains("older than 6.7"));
        assert!(text(SCAN, libc::ENOTTY).contains("older than 6.7"));
        assert!(text(OPEN, libc::EACCES).contains("dumpable"));
        assert!(text(SCAN, libc::EPERM).contains("6.7 or later"));
    }

    #[test]
    fn a_full_table_of_descriptors_is_not_called_a_missing_feature() {
        let error = TrackError::refused(USERFAULTFD, Errno(libc::EMFILE));
        assert!(matches!(error, TrackError::System { .. }));
    }
}
