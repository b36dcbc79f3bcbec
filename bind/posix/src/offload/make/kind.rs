//! What is open under a number, as far as it matters to who makes a call for another thread.

use heliostat_base::sys::Sysno;

use super::{call, devices};

/// What is open under a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A regular file with contents: it waits for a disk at most, and means nobody.
    File,
    /// A file that the kernel makes up, of proc, sysfs and the like: what is written there may mean the
    /// thread that writes, and what is read may be waited for.
    OfKernel,
    /// Anything else, by its file type; none for a number that is none.
    Other(Option<u32>),
}

/// Returns what is open under `fd`.
pub fn kind(fd: u64) -> Kind {
    let mut found = std::mem::MaybeUninit::<libc::stat>::zeroed();
    let at = found.as_mut_ptr() as u64;
    let answer = call(Sysno::fstat, [fd, at, 0, 0, 0, 0]);
    // SAFETY: numbers, zero until the kernel has written them.
    let found = unsafe { found.assume_init() };
    let mode = (answer == 0).then_some(found.st_mode & libc::S_IFMT);
    match mode {
        Some(libc::S_IFREG) if devices::is_of_kernel(found.st_dev, fd) => Kind::OfKernel,
        Some(libc::S_IFREG) => Kind::File,
        other => Kind::Other(other),
    }
}
