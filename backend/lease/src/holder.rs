//! The kernel's read leases on files, and how their holder hears that one is being broken.
//!
//! A read lease is granted only while nobody has the file open for writing or mapped writable; on
//! overlay a mapping counts for the file beneath only.
//! Whoever then opens it for writing or truncates it waits in the kernel until the lease is given
//! back, at most `/proc/sys/fs/lease-break-time` seconds (source: fcntl(2), "Leases").
//!
//! ```text
//! none -- take --> held -- writer --> being broken -- give_back --> none, the writer goes on
//!                   |                  signal with the descriptor        ^
//!                   +------------------- give_back ----------------------+
//! ```

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use heliostat_base::call::fcntl;
use heliostat_base::fd::OwnedFd;
use heliostat_base::sys::{check, raw, Errno, Sysno};

/// Which real-time signal tells of a break; the first few are libc's and debuggers'.
const SIGNAL: i32 = 34 + 5;
/// Names the signal of a break (source: asm-generic/fcntl.h).
const F_SETSIG: i32 = 10;
/// Told instead when the queue of real-time signals is full (source: send_sigio_to_task).
const OVERFLOW: i32 = libc::SIGIO;

/// Takes a read lease for the open file description of `fd`, which must be open for reading. Does
/// not wait.
///
/// A [`Breaks`] must have been made before, or the signal of a break ends the process.
///
/// # Errors
/// EAGAIN: somebody has the file open for writing. EACCES: it belongs to another user, and there
/// is no CAP_LEASE. EINVAL: its file system has none, or it is no regular file.
pub fn take(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    let fd = fd.as_raw_fd();
    // Before the lease: a break between the two would be told by SIGIO alone. Giving a lease back
    // forgets both.
    fcntl(fd, F_SETSIG, SIGNAL as usize)?;
    fcntl(fd, libc::F_SETOWN, heliostat_base::process::pid() as usize)?;
    fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK as usize).map(drop)
}

/// Gives a lease back; whoever waits to write goes on. Without a lease nothing happens.
pub fn give_back(fd: BorrowedFd<'_>) {
    // It fails only where there is no lease any more.
    let _ = fcntl(fd.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK as usize);
}

/// True while the description of `fd` has its lease and nobody waits for its end.
pub fn is_held(fd: BorrowedFd<'_>) -> bool {
    fcntl(fd.as_raw_fd(), libc::F_GETLEASE, 0) == Ok(libc::F_RDLCK as usize)
}

/// What was heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// Perhaps the lease of the description that had this number when it was taken: anybody who may
    /// send this process signals can say so, and the number may have been used again. Ask
    /// [`is_held`].
    Perhaps(RawFd),
    /// Some lease: too many were broken at once. Look at all.
    Any,
}

/// Breaks of this process's leases, as a descriptor to wait for.
pub struct Breaks(OwnedFd);

impl Breaks {
    /// Blocks the two signals in the calling thread and all that it starts from now on, so it has to
    /// be called before there are others.
    ///
    /// # Errors
    /// The kernel's; the signals may then be blocked.
    pub fn catch() -> Result<Breaks, Errno> {
        let set: u64 = 1 << (SIGNAL - 1) | 1 << (OVERFLOW - 1);
        let at = &set as *const u64 as usize;
        let args = [libc::SIG_BLOCK as usize, at, 0, 8, 0, 0];
        // SAFETY: `set` is a live word of eight bytes; nothing is written.
        check(unsafe { raw(Sysno::rt_sigprocmask as usize, args) })?;
        let flags = (libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) as usize;
        // SAFETY: as above; -1 asks for a new descriptor.
        let fd =
            check(unsafe { raw(Sysno::signalfd4 as usize, [usize::MAX, at, 8, flags, 0, 0]) })?;
        // SAFETY: the kernel has just opened it for us.
        Ok(Breaks(unsafe { OwnedFd::adopt(fd as RawFd) }))
    }

    /// The next break, if there is one. Does not wait.
    pub fn next(&self) -> Option<Heard> {
        const BYTES: usize = std::mem::size_of::<libc::signalfd_siginfo>();
        // SAFETY: all-zero bytes are a value of this record of integers.
        let mut heard: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let at = &mut heard as *mut libc::signalfd_siginfo as usize;
        let args = [self.0.as_raw_fd() as usize, at, BYTES, 0, 0, 0];
        // SAFETY: `heard` is writable for its whole length, and any bytes are a value of it.
        match check(unsafe { raw(Sysno::read as usize, args) }) {
            Ok(BYTES) if heard.ssi_signo == OVERFLOW as u32 => Some(Heard::Any),
            Ok(BYTES) => Some(Heard::Perhaps(heard.ssi_fd)),
            _ => None,
        }
    }
}

impl std::os::fd::AsFd for Breaks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, OpenOptions};
    use std::os::fd::AsFd;

    #[test]
    fn a_writer_waits_until_the_lease_is_given_back() {
        // The signal goes to the process, and other threads do not have it blocked: a process of
        // its own, with one thread.
        // SAFETY: the child leaves by exit_now, and glibc keeps malloc whole over a fork.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let outcome = std::panic::catch_unwind(break_one);
            heliostat_base::process::exit_now(i32::from(outcome.is_err()));
        }
        let mut status = -1;
        // SAFETY: our own child, and a live word for its status.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(status, 0);
    }

    fn break_one() {
        let path = std::env::temp_dir().join(format!("heliostat-lease-{}", std::process::id()));
        std::fs::write(&path, b"bytes").unwrap();
        let file = File::open(&path).unwrap();
        let breaks = Breaks::catch().unwrap();
        assert!(!is_held(file.as_fd()));
        let writer = OpenOptions::new().write(true).open(&path).unwrap();
        assert_eq!(take(file.as_fd()), Err(Errno(libc::EAGAIN)));
        drop(writer);
        take(file.as_fd()).unwrap();
        assert!(is_held(file.as_fd()));
        assert_eq!(breaks.next(), None);
        let other = path.clone();
        let writer = std::thread::spawn(move || OpenOptions::new().write(true).open(other));
        let heard = loop {
            heliostat_base::process::poll_readable(breaks.as_fd().as_raw_fd(), 10_000).unwrap();
            if let Some(heard) = breaks.next() {
                break heard;
            }
        };
        assert_eq!(heard, Heard::Perhaps(file.as_raw_fd()));
        assert!(!is_held(file.as_fd()) && !writer.is_finished());
        give_back(file.as_fd());
        writer.join().unwrap().unwrap();
        let _ = std::fs::remove_file(&path);
    }
}
