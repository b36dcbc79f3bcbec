//! The kernel's side of remapped memory: ranges of addresses and what they show.

use heliostat_abi::snapshot::memory::CHUNK_BYTES;

use super::RemapError;
use heliostat_base::sys::{check, raw, Sysno};

/// A range of `len` bytes, aligned to a chunk, in which nothing is mapped that could be used.
pub(super) fn reserve(len: usize) -> Result<usize, RemapError> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let args = [0, len + CHUNK_BYTES, libc::PROT_NONE as usize, flags as usize, usize::MAX, 0];
    // No address is asked for, so no existing mapping is touched.
    let whole = call("mmap", Sysno::mmap, args)?;
    let start = whole.next_multiple_of(CHUNK_BYTES);
    unmap(whole, start - whole);
    unmap(start + len, whole + CHUNK_BYTES - start);
    Ok(start)
}

/// Lets the range at `to`, which is the caller's, show what lies at `from`, both at once: a second
/// mapping of the same pages, made from the first one, since a sealed file allows no other.
pub(super) fn show(from: usize, to: usize, len: usize) -> Result<(), RemapError> {
    let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize;
    call("mremap", Sysno::mremap, [from, 0, len, flags, to, 0]).map(drop)
}

/// Takes the right to write away from a range, or gives it back.
pub(super) fn protect(at: usize, len: usize, may_write: bool) -> Result<(), RemapError> {
    let access = libc::PROT_READ | if may_write { libc::PROT_WRITE } else { 0 };
    call("mprotect", Sysno::mprotect, [at, len, access as usize, 0, 0, 0]).map(drop)
}

/// madvise(2).
pub(super) fn advise(at: usize, len: usize, advice: i32) -> Result<(), RemapError> {
    call("madvise", Sysno::madvise, [at, len, advice as usize, 0, 0, 0]).map(drop)
}

/// Ends what a range of the caller's shows.
pub(super) fn unmap(at: usize, len: usize) {
    if len > 0 {
        let _ = call("munmap", Sysno::munmap, [at, len, 0, 0, 0, 0]);
    }
}

/// Every range that this module is given belongs to one memory, which nobody refers to but by
/// pointers that its owner handed out: `super::Remapped` says how long they are good.
fn call(name: &'static str, number: Sysno, args: [usize; 6]) -> Result<usize, RemapError> {
    // SAFETY: the calls used here take addresses of such ranges and no pointers to data.
    let answer = check(unsafe { raw(number as usize, args) });
    answer.map_err(|errno| RemapError::System { call: name, errno })
}
