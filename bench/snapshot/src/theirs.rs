//! What snapshots are compared with: copying everything under a lock, and fork.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::memory::{check, Memory, PAGE};
use crate::Failure;

/// A copy in shared memory under a lock that other processes may take.
pub struct LockedCopy {
    fd: OwnedFd,
    memory: Memory,
    len: usize,
}

impl LockedCopy {
    /// For `len` bytes. The lock lies in the page behind them.
    pub fn new(len: usize) -> Result<Self, Failure> {
        // SAFETY: the name is a C string with static lifetime.
        let fd = check(unsafe { libc::memfd_create(c"bench-copy".as_ptr(), libc::MFD_CLOEXEC) })?;
        // SAFETY: the kernel has just opened it for us.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: changes the length of a file that is ours alone.
        check(unsafe { libc::ftruncate(fd.as_raw_fd(), (len + PAGE) as i64) })?;
        let memory = Memory::shared(fd.as_raw_fd(), len + PAGE, true)?;
        let copy = Self { fd, memory, len };
        copy.make_lock()?;
        Ok(copy)
    }

    fn lock(&self) -> *mut libc::pthread_mutex_t {
        self.memory.start().wrapping_add(self.len).cast()
    }

    fn make_lock(&self) -> Result<(), Failure> {
        let mut kind = std::mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        // SAFETY: `kind` is initialised by the first call before the others use it; the mutex has
        // a page of its own that is zero and stays mapped as long as `self`.
        let answers = unsafe {
            [
                libc::pthread_mutexattr_init(kind.as_mut_ptr()),
                libc::pthread_mutexattr_setpshared(kind.as_mut_ptr(), libc::PTHREAD_PROCESS_SHARED),
                libc::pthread_mutex_init(self.lock(), kind.as_ptr()),
            ]
        };
        match answers {
            [0, 0, 0] => Ok(()),
            _ => Err("no lock between processes".into()),
        }
    }

    /// Copies all of `from` while holding the lock.
    pub fn take(&self, from: &Memory) {
        assert!(from.len() <= self.len, "the copy is smaller than the memory");
        // SAFETY: the mutex was initialised by `new`; both ranges are valid for the length, the
        // target is written by nobody else, and they are different mappings.
        unsafe {
            libc::pthread_mutex_lock(self.lock());
            std::ptr::copy_nonoverlapping(from.start(), self.memory.start(), from.len());
            libc::pthread_mutex_unlock(self.lock());
        }
    }

    /// Maps the copy anew, as a consumer does, and takes the lock once.
    pub fn attach(&self) -> Result<Memory, Failure> {
        let memory = Memory::shared(self.fd.as_raw_fd(), self.len, false)?;
        // SAFETY: the mutex was initialised by `new`, and nobody else holds it for long.
        unsafe {
            libc::pthread_mutex_lock(self.lock());
            libc::pthread_mutex_unlock(self.lock());
        }
        Ok(memory)
    }
}

/// How long a forked child keeps its snapshot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Child {
    /// It ends at once: the least that fork can cost.
    EndsAtOnce,
    /// It lives until the parent has written its pages: what a reader of the snapshot needs.
    LivesOn,
}

/// Forks, lets the parent `write`, and waits for the child.
pub fn fork(child: Child, write: impl FnOnce()) -> Result<(), Failure> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors into the array.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: both were just opened for us.
    let [from, to] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    // SAFETY: this process has one thread; the child makes system calls only, then ends.
    let pid = check(unsafe { libc::fork() })?;
    if pid == 0 {
        // SAFETY: system calls on descriptors of the child's own. The read ends when the parent
        // closes its end of the pipe, since this process closes its own first.
        unsafe {
            libc::close(to.as_raw_fd());
            if child == Child::LivesOn {
                let mut byte = 0u8;
                libc::read(from.as_raw_fd(), (&raw mut byte).cast(), 1);
            }
            libc::_exit(0)
        }
    }
    write();
    drop(to);
    // SAFETY: waits for the child made above; no status is asked for.
    check(unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) })?;
    Ok(())
}

/// Page faults of this process so far that needed no disk.
pub fn page_faults() -> u64 {
    let mut facts = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills `facts`, which is valid as zeros too.
    unsafe {
        libc::getrusage(libc::RUSAGE_SELF, facts.as_mut_ptr());
        facts.assume_init().ru_minflt as u64
    }
}
