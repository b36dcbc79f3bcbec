//! How much of a file lies in the kernel's page cache.
//!
//! By cachestat(2), which only looks: neither are pages fetched, as by a read that must not wait, nor
//! is the file mapped, as for mincore(2).

use std::os::fd::{AsRawFd, BorrowedFd};

use heliostat_base::mapping::PAGE_BYTES;
use heliostat_base::sys::{check, raw, Errno, Sysno};

/// Returns how many bytes of a range of a file lie in the page cache, in whole pages. A range of no
/// length goes to the file's end. Looks at each page, so that long ranges take long.
///
/// # Errors
/// ENOSYS before Linux 6.5; EPERM where the file is not the caller's and cannot be written by it.
pub fn resident_bytes(fd: BorrowedFd<'_>, range: (u64, u64)) -> Result<u64, Errno> {
    let asked = [range.0, range.1];
    // Pages in the cache, dirty, being written, evicted, evicted lately.
    let mut found = [0u64; 5];
    let places = [asked.as_ptr() as usize, found.as_mut_ptr() as usize];
    let args = [fd.as_raw_fd() as usize, places[0], places[1], 0, 0, 0];
    // SAFETY: the kernel reads two words from `asked` and writes five into `found`, which live until
    // the call has returned.
    check(unsafe { raw(Sysno::cachestat as usize, args) })?;
    Ok(found[0] * PAGE_BYTES as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn what_was_just_written_is_there_and_nothing_is_behind_the_end() {
        let path = std::env::temp_dir().join(format!("heliostat-resident-{}", std::process::id()));
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(&[7; 5 * PAGE_BYTES]).unwrap();
        std::fs::remove_file(&path).unwrap();
        let page = PAGE_BYTES as u64;
        let found = [(0, 0), (page, 2 * page), (5 * page, 0)];
        let found = found.map(|range| resident_bytes(file.as_fd(), range));
        // Kernels before 6.5 know no such call.
        let expected = [5 * page, 2 * page, 0].map(Ok);
        assert!(found == expected || found == [Err(Errno(libc::ENOSYS)); 3], "{found:?}");
    }
}
