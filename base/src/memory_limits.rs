//! Whether this process may map what it likes: limits and locks of its address space.

use crate::sys::{check, raw, Sysno};

const PAGE: usize = 4096;

/// True when a limit on the address space is set (RLIMIT_AS).
pub fn is_limited() -> bool {
    let mut limit = [0u64; 2];
    let args = [0, libc::RLIMIT_AS as usize, 0, std::ptr::from_mut(&mut limit) as usize, 0, 0];
    // SAFETY: sets nothing, and fills two words that outlive the call.
    check(unsafe { raw(Sysno::prlimit64 as usize, args) }).is_ok()
        && limit[0] != libc::RLIM_INFINITY
}

/// True when all memory that is mapped from now on is locked at once (mlockall(2), MCL_FUTURE).
/// The kernel tells nobody: tried with one page, which is then there before it was touched.
pub fn is_locked() -> bool {
    let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let args = [0, PAGE, protection as usize, flags as usize, usize::MAX, 0];
    // SAFETY: without MAP_FIXED the kernel maps only where nothing is mapped.
    let Ok(page) = check(unsafe { raw(Sysno::mmap as usize, args) }) else { return true };
    let mut there = 0u8;
    let args = [page, PAGE, std::ptr::from_mut(&mut there) as usize, 0, 0, 0];
    // SAFETY: the kernel writes one byte for the one page.
    let asked = check(unsafe { raw(Sysno::mincore as usize, args) });
    // SAFETY: the page is our own, and nobody else knows of it.
    let _ = unsafe { raw(Sysno::munmap as usize, [page, PAGE, 0, 0, 0, 0]) };
    asked.is_err() || there & 1 != 0
}

#[cfg(test)]
mod tests {
    #[test]
    fn memory_of_this_process_is_not_locked() {
        assert!(!super::is_locked());
    }
}
