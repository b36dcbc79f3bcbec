//! Bytes of another process, straight into shared memory.

use heliostat_base::mapping::{OutOfRange, SharedMapping};
use heliostat_base::sys::{check, raw, Errno, Sysno};

use super::Tracee;

/// How far a copy came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copied {
    /// All of it.
    All,
    /// So many bytes; the page behind them cannot be read.
    Until(usize),
    /// The process has ended.
    Gone,
}

impl Tracee {
    /// Copies `len` bytes at `address` of the process to `at` in `target`
    /// (process_vm_readv(2)), as they are while they are copied.
    ///
    /// # Errors
    /// The range lies outside `target`.
    pub fn copy_to(
        &self,
        address: usize,
        target: &SharedMapping,
        at: usize,
        len: usize,
    ) -> Result<Copied, OutOfRange> {
        let into = target.writable_at(at, len)? as usize;
        let mut done = 0;
        while done < len {
            // SAFETY: `into` is valid for `len` writable bytes, of which `done` are behind.
            match unsafe { read(self.pid, address + done, into + done, len - done) } {
                Ok(0) | Err(Errno(libc::EFAULT)) => return Ok(Copied::Until(done)),
                Ok(bytes) => done += bytes,
                Err(_) => return Ok(Copied::Gone),
            }
        }
        Ok(Copied::All)
    }
}

/// # Safety
/// `into` is the address of `len` writable bytes that nobody has a reference to.
unsafe fn read(pid: i32, from: usize, into: usize, len: usize) -> Result<usize, Errno> {
    let local = [into, len];
    let remote = [from, len];
    let (local_at, remote_at) = (local.as_ptr() as usize, remote.as_ptr() as usize);
    // SAFETY: both arrays are one iovec each (address, length); the kernel writes to the local one
    // only, as the caller promises, and checks the remote one itself.
    check(unsafe {
        raw(Sysno::process_vm_readv as usize, [pid as usize, local_at, 1, remote_at, 1, 0])
    })
}
