//! Memory of another process: copied once, in one call (process_vm_readv(2)).

use heliostat_base::sys::{check, raw, Errno, Sysno};

const PAGE: usize = 4096;

/// Fills `buffer` from `address` of a thread's memory; EFAULT if not all of it is there.
pub fn read_memory(thread: i32, address: u64, buffer: &mut [u8]) -> Result<(), Errno> {
    let length = buffer.len();
    match read_some(thread, address, buffer)? {
        count if count == length => Ok(()),
        _ => Err(Errno(libc::EFAULT)),
    }
}

/// Copies as much of `buffer.len()` bytes as lies in readable pages from `address` on, and tells how
/// much that is, which may be nothing.
pub fn read_memory_until_fault(
    thread: i32,
    address: u64,
    buffer: &mut [u8],
) -> Result<usize, Errno> {
    match read_some(thread, address, buffer) {
        Err(Errno(libc::EFAULT)) => Ok(0),
        other => other,
    }
}

/// Copies as much of `buffer.len()` bytes as lies in mapped pages from `address` on.
fn read_some(thread: i32, address: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
    if buffer.is_empty() {
        return Ok(0);
    }
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    transfer(Sysno::process_vm_readv, thread, local, address)
}

/// Writes `bytes` to `address` of a thread's memory; EFAULT if that is not all writable.
pub fn write_memory(thread: i32, address: u64, bytes: &[u8]) -> Result<(), Errno> {
    if bytes.is_empty() {
        return Ok(());
    }
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    match transfer(Sysno::process_vm_writev, thread, local, address)? {
        count if count == bytes.len() => Ok(()),
        _ => Err(Errno(libc::EFAULT)),
    }
}

/// The bytes before the first NUL from `address` on, `limit` at most.
///
/// # Errors
/// EFAULT where memory ends before the text, ENAMETOOLONG if there is no NUL within `limit`.
pub fn read_text(thread: i32, address: u64, limit: usize) -> Result<Vec<u8>, Errno> {
    let mut text = Vec::new();
    let mut at = address;
    while text.len() < limit {
        let to_page_end = PAGE - (at as usize % PAGE);
        // Most names are short: a first look at little.
        let most = if text.is_empty() { 256 } else { PAGE };
        let mut part = [0; PAGE];
        let part = &mut part[..to_page_end.min(most).min(limit - text.len())];
        read_memory(thread, at, part)?;
        if let Some(end) = part.iter().position(|byte| *byte == 0) {
            text.extend_from_slice(&part[..end]);
            return Ok(text);
        }
        text.extend_from_slice(part);
        at = at.checked_add(part.len() as u64).ok_or(Errno(libc::EFAULT))?;
    }
    Err(Errno(libc::ENAMETOOLONG))
}

fn transfer(number: Sysno, thread: i32, local: libc::iovec, address: u64) -> Result<usize, Errno> {
    let foreign = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(address as usize),
        iov_len: local.iov_len,
    };
    let (here, there) = (std::ptr::from_ref(&local), std::ptr::from_ref(&foreign));
    let args = [thread as usize, here as usize, 1, there as usize, 1, 0];
    // SAFETY: the local vector describes a live buffer of the caller's, which the kernel fills or
    // reads within its length; the foreign address is the kernel's to judge.
    check(unsafe { raw(number as usize, args) })
}
