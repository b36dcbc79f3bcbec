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
    let Some(found) = stat(fd) else { return Kind::Other(None) };
    let is_still = || stat(fd).is_some_and(|again| again.st_dev == found.st_dev);
    match found.st_mode & libc::S_IFMT {
        libc::S_IFREG if devices::is_of_kernel(found.st_dev, fd, is_still) => Kind::OfKernel,
        libc::S_IFREG => Kind::File,
        other => Kind::Other(Some(other)),
    }
}

/// Returns what fstat(2) says.
pub fn stat(fd: u64) -> Option<libc::stat> {
    let mut found = std::mem::MaybeUninit::<libc::stat>::zeroed();
    let answer = call(Sysno::fstat, [fd, found.as_mut_ptr() as u64, 0, 0, 0, 0]);
    // SAFETY: numbers, zero until the kernel has written them.
    (answer == 0).then(|| unsafe { found.assume_init() })
}
