//! Error numbers of the kernel's, as this project has them.

use heliostat_base::sys::Errno;

/// The error number that rustix reports, as this project's.
pub fn errno(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}
