//! The listener of a filter: calls of sealed threads come in, answers go out (seccomp_unotify(2)).

use std::os::fd::{AsRawFd, RawFd};

use super::Placement;
use heliostat_base::fd::OwnedFd;
use heliostat_base::sys::{check, raw, Errno, Sysno};

const RECEIVE: usize = 0xc050_2100;
const SEND: usize = 0xc018_2101;
const IS_VALID: usize = 0x4008_2102;
const ADD_DESCRIPTOR: usize = 0xc018_2103;
const SET_FLAGS: usize = 0x4008_2104;
/// Wakes the other side on the waker's own processor (Linux 6.6).
const SYNCHRONOUS_WAKE: usize = 1;
const CONTINUE: u32 = 1;
const ADD_REPLACES: u32 = 1;

/// A call of a sealed thread that waits for an answer. The bytes behind its pointers are foreign.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notice {
    /// Names the waiting call.
    pub id: u64,
    /// The thread, in this process's pid namespace.
    pub thread: i32,
    /// System-call number.
    pub number: i32,
    /// Audit name of the instruction set (AUDIT_ARCH_*).
    pub arch: u32,
    /// Where the thread goes on.
    pub at: u64,
    /// Arguments.
    pub args: [u64; 6],
}

/// An answer.
#[derive(Debug)]
pub enum Reply {
    /// The call returns this.
    Value(i64),
    /// The call fails.
    Fail(Errno),
    /// The kernel makes the call after all, reading its arguments anew.
    Continue,
    /// The call returns a new descriptor of the target.
    Descriptor {
        /// What it is a copy of.
        fd: OwnedFd,
        /// Whether exec closes the target's.
        closes_on_exec: bool,
    },
}

/// The receiving end; any number of threads may share it.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl Listener {
    /// Takes over what `install` returned, here or in the process that was sealed.
    pub fn new(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Asks the kernel to wake both sides on one processor; false where it cannot.
    pub fn wake_on_one_processor(&self) -> bool {
        self.control(SET_FLAGS, SYNCHRONOUS_WAKE).is_ok()
    }

    /// The next call; blocks. `None` if it was taken back meanwhile, or a signal came.
    ///
    /// # Errors
    /// ENOENT is `None`; what is left means that no further call can come.
    pub fn receive(&self) -> Result<Option<Notice>, Errno> {
        // SAFETY: all-zero bytes are a valid `seccomp_notif`, and what the kernel asks for.
        let mut notice: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        match self.control(RECEIVE, std::ptr::from_mut(&mut notice) as usize) {
            Ok(_) => {}
            Err(Errno(libc::ENOENT | libc::EINTR)) => return Ok(None),
            Err(error) => return Err(error),
        }
        Ok(Some(Notice {
            id: notice.id,
            thread: notice.pid as i32,
            number: notice.data.nr,
            arch: notice.data.arch,
            at: notice.data.instruction_pointer,
            args: notice.data.args,
        }))
    }

    /// Whether no call can come any more: nobody is behind the filter. `receive` then returns
    /// `None` at once.
    pub fn has_ended(&self) -> bool {
        let mut asked = libc::pollfd { fd: self.0.as_raw_fd(), events: 0, revents: 0 };
        let args = [std::ptr::from_mut(&mut asked) as usize, 1, 0, 0, 0, 0];
        // SAFETY: one live pollfd, and no waiting.
        let _ = unsafe { raw(Sysno::poll as usize, args) };
        asked.revents & libc::POLLHUP != 0
    }

    /// Whether the call still waits. What was read of the thread's memory or descriptors before
    /// a yes was that thread's, and not of another with its number.
    pub fn is_waiting(&self, id: u64) -> bool {
        self.control(IS_VALID, std::ptr::from_ref(&id) as usize).is_ok()
    }

    /// As `answer`; where the caller wakes up is left to `placement`.
    pub fn answer_placed(
        &self,
        notice: &Notice,
        reply: Reply,
        placement: &mut Placement,
    ) -> Result<(), Errno> {
        match reply {
            Reply::Descriptor { fd, closes_on_exec } => {
                let added =
                    placement.run(notice.thread, || self.add(notice.id, fd, closes_on_exec));
                self.answer_added(notice.id, added)
            }
            other => self.answer(notice.id, other),
        }
    }

    /// Answers; ENOENT if nobody waits any more.
    pub fn answer(&self, id: u64, reply: Reply) -> Result<(), Errno> {
        let (value, error, flags) = match reply {
            Reply::Value(value) => (value, 0, 0),
            Reply::Fail(Errno(number)) => (0, -number, 0),
            Reply::Continue => (0, 0, CONTINUE),
            Reply::Descriptor { fd, closes_on_exec } => {
                let added = self.add(id, fd, closes_on_exec);
                return self.answer_added(id, added);
            }
        };
        let whole = libc::seccomp_notif_resp { id, val: value, error, flags };
        self.control(SEND, std::ptr::from_ref(&whole) as usize).map(drop)
    }

    /// Puts a descriptor into the target's table; its number there. Our own copy is closed before
    /// the target goes on: else its close would not be the last, and what comes with that (the end
    /// of a pipe, a lock that is released, a program that may be executed) late.
    fn add(&self, id: u64, fd: OwnedFd, closes_on_exec: bool) -> Result<usize, Errno> {
        let whole = libc::seccomp_notif_addfd {
            id,
            flags: 0,
            srcfd: fd.as_raw_fd() as u32,
            newfd: 0,
            newfd_flags: if closes_on_exec { libc::O_CLOEXEC as u32 } else { 0 },
        };
        self.control(ADD_DESCRIPTOR, std::ptr::from_ref(&whole) as usize)
    }

    /// Tells the caller the number of its new descriptor. A full table of its own is its EMFILE.
    fn answer_added(&self, id: u64, added: Result<usize, Errno>) -> Result<(), Errno> {
        match added {
            Ok(number) => self.answer(id, Reply::Value(number as i64)),
            Err(error @ Errno(libc::ENOENT)) => Err(error),
            Err(error) => self.answer(id, Reply::Fail(error)),
        }
    }

    /// Puts a copy of `fd` in the place of the target's descriptor `number`, in one step, while the
    /// call waits on. Errors are those of dup2(2) there; ENOENT if nobody waits any more.
    pub fn replace(
        &self,
        id: u64,
        fd: RawFd,
        number: RawFd,
        closes_on_exec: bool,
    ) -> Result<(), Errno> {
        let whole = libc::seccomp_notif_addfd {
            id,
            flags: ADD_REPLACES,
            srcfd: fd as u32,
            newfd: number as u32,
            newfd_flags: if closes_on_exec { libc::O_CLOEXEC as u32 } else { 0 },
        };
        self.control(ADD_DESCRIPTOR, std::ptr::from_ref(&whole) as usize).map(drop)
    }

    /// A signal ends the wait for the next call and nothing else: an answer that it kept from
    /// being given would leave its caller waiting for ever.
    fn control(&self, request: usize, argument: usize) -> Result<usize, Errno> {
        let args = [self.0.as_raw_fd() as usize, request, argument, 0, 0, 0];
        loop {
            // SAFETY: each caller above passes the structure that its request asks for, alive and
            // exclusively its own, or a word by value.
            match check(unsafe { raw(Sysno::ioctl as usize, args) }) {
                Err(Errno(libc::EINTR)) if request != RECEIVE => {}
                other => return other,
            }
        }
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
