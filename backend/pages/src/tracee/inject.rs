//! One system call in another process's name: userfaultfd, which works on its caller's memory.
//!
//! A thread is stopped, its registers and signal mask are kept, and it is sent to a `syscall`
//! instruction that is there already (the vdso has one); no byte of the program changes, and no
//! instruction but that one runs. Before the thread gets its registers back it is stopped once
//! more on its way out of the kernel, for only there does the kernel start interrupted calls again.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use super::error::TraceError;
use super::trace::{self, State};
use super::x86_64::{Registers, CALL};
use super::{maps, seize};
use crate::track::FOREIGN_FLAGS;
use heliostat_base::clock;
use heliostat_base::fd::OwnedFd;
use heliostat_base::process::PidFd;
use heliostat_base::spin;
use heliostat_base::sys::{check, raw, Errno, Sysno};

const PATIENCE_NS: u64 = 2_000_000_000;
/// The same for a thread that has our registers: let go before it has its own again it would run
/// wild, so that nothing but its end is given up for.
const OWED_NS: u64 = 600_000_000_000;
/// Tries to find a thread where a call can be made, and the pause between two of them.
const ATTEMPTS: usize = 200;
const PAUSE_NS: u64 = 2_000_000;
/// A filter of system calls may answer a call with SIGSYS, and a thread that blocks it would lose
/// its handler for it (force_sig): it is taken out of the thread's hands instead.
const ALL_BUT_SIGSYS: u64 = !(1 << (libc::SIGSYS - 1));
/// Offset in a thread's `struct rseq` of the sequence it is in, 0 for none (source: rseq(2)).
const SEQUENCE: u64 = 8;

const UNFETCHED: &str = "its userfaultfd could not be fetched: pidfd_getfd is refused here, as \
                         the default system-call filters (seccomp) of containers do";

/// Makes a userfaultfd of process `pid`. To be run in a thread of its own, whose end lets go.
pub(super) fn userfaultfd(pid: i32, pidfd: &PidFd, memory: &File) -> Result<OwnedFd, TraceError> {
    let instruction = vdso_call(pid, memory)?;
    for attempt in 0..ATTEMPTS {
        let threads = seize::threads_of(pid)?;
        let tid = threads[attempt % threads.len().max(1)];
        if let Some(thread) = Borrowed::take(pid, tid, instruction, memory)? {
            return thread.userfaultfd(pidfd);
        }
        spin::sleep_ns(PAUSE_NS);
    }
    Err(TraceError::NoCall { why: "its threads are never at a place where one could be made" })
}

/// A thread that makes calls for us.
struct Borrowed {
    tid: i32,
    instruction: u64,
    own: Registers,
    blocked: u64,
    /// SIGSTOP came meanwhile; nothing can block it.
    is_stopped: bool,
}

impl Borrowed {
    /// Stops a thread; `None` when it is not at a place where its registers may be borrowed.
    fn take(
        pid: i32,
        tid: i32,
        instruction: u64,
        memory: &File,
    ) -> Result<Option<Self>, TraceError> {
        if !seize::seize(pid, tid)? {
            return Ok(None);
        }
        let _ = trace::interrupt(tid);
        match seize::wait(tid, clock::monotonic_ns() + PATIENCE_NS) {
            State::Stands(0) => {}
            State::JobStop => return Err(TraceError::JobStopped),
            State::Running => return Err(TraceError::Stuck { tid }),
            State::Ended => return Ok(None),
            State::AtCall => return Ok(None),
            State::Stands(signal) => {
                mend_and_detach(tid, signal);
                return Ok(None);
            }
        }
        let own = trace::registers(tid).map_err(gone)?;
        if trace::dispatches_calls(tid) {
            mend_and_detach(tid, 0);
            return Err(TraceError::NoCall { why: "it handles its system calls itself" });
        }
        if !own.is_64_bit() || !(own.is_in_call() || is_between_sequences(tid, memory)) {
            mend_and_detach(tid, 0);
            return Ok(None);
        }
        let blocked = trace::blocked(tid).map_err(gone)?;
        trace::set_blocked(tid, ALL_BUT_SIGSYS).map_err(gone)?;
        Ok(Some(Self { tid, instruction, own, blocked, is_stopped: false }))
    }

    fn userfaultfd(mut self, pidfd: &PidFd) -> Result<OwnedFd, TraceError> {
        if !fetches() {
            self.give_back()?;
            return Err(TraceError::NoCall { why: UNFETCHED });
        }
        let made = self.call(Sysno::userfaultfd, FOREIGN_FLAGS as u64)?;
        let made = check(made).map_err(|errno| TraceError::Call { call: "userfaultfd", errno });
        let fetched = made.and_then(|number| self.fetch(pidfd, number));
        self.give_back()?;
        fetched
    }

    /// Fetches the descriptor that a call has answered, and closes it over there.
    fn fetch(&mut self, pidfd: &PidFd, number: usize) -> Result<OwnedFd, TraceError> {
        let fetched = fetch(pidfd, number);
        let is_made = match &fetched {
            Ok(fd) => is_userfaultfd(fd),
            Err(errno) => *errno != Errno(libc::EBADF),
        };
        if is_made {
            self.call(Sysno::close, number as u64)?;
            return fetched.map_err(|errno| TraceError::Call { call: "pidfd_getfd", errno });
        }
        // A call that a filter answers by SIGSYS is not made: its answer is a number of nothing, or
        // of a file of the program's own. The signal is on its way.
        self.drop_signals()?;
        Err(TraceError::Call { call: "userfaultfd", errno: Errno(libc::ENOSYS) })
    }

    /// Takes signals that the thread may not see out of its hands: it goes on to the entry of a
    /// call that is not made, nor shown to any filter.
    fn drop_signals(&mut self) -> Result<(), TraceError> {
        let registers = self.own.with_call(self.instruction, Sysno::close, u64::MAX);
        trace::set_registers(self.tid, &registers).map_err(gone)?;
        self.go_to_call(trace::go_to_call_unmade)
    }

    /// Makes one call; answers what it answered.
    fn call(&mut self, nr: Sysno, argument: u64) -> Result<isize, TraceError> {
        let registers = self.own.with_call(self.instruction, nr, argument);
        trace::set_registers(self.tid, &registers).map_err(gone)?;
        self.go_to_call(trace::go_to_call)?;
        self.go_to_call(trace::go_to_call)?;
        Ok(trace::registers(self.tid).map_err(gone)?.answer())
    }

    /// Goes on to the entry of the call, or from there to its exit.
    fn go_to_call(&mut self, go: fn(i32) -> Result<(), Errno>) -> Result<(), TraceError> {
        loop {
            go(self.tid).map_err(gone)?;
            match seize::wait(self.tid, clock::monotonic_ns() + OWED_NS) {
                State::AtCall => return Ok(()),
                State::Ended => return Err(TraceError::Gone),
                State::Running => return Err(TraceError::Stuck { tid: self.tid }),
                State::Stands(libc::SIGSTOP) => self.is_stopped = true,
                State::Stands(_) | State::JobStop => {}
            }
        }
    }

    /// Restores everything on the way out of the kernel, and lets the thread go on.
    fn give_back(self) -> Result<(), TraceError> {
        trace::interrupt(self.tid).map_err(gone)?;
        trace::go_on(self.tid).map_err(gone)?;
        let state = seize::wait(self.tid, clock::monotonic_ns() + OWED_NS);
        let signal = match state {
            State::Ended => return Err(TraceError::Gone),
            State::Running => return Err(TraceError::Stuck { tid: self.tid }),
            State::Stands(signal) => signal,
            State::JobStop | State::AtCall => 0,
        };
        trace::set_registers(self.tid, &self.own).map_err(gone)?;
        trace::set_blocked(self.tid, self.blocked).map_err(gone)?;
        mend_and_detach(self.tid, signal);
        if self.is_stopped {
            let args = [self.tid as usize, libc::SIGSTOP as usize, 0, 0, 0, 0];
            // SAFETY: tkill takes no pointer. What was taken from the thread is sent anew.
            let _ = unsafe { raw(Sysno::tkill as usize, args) };
        }
        Ok(())
    }
}

fn mend_and_detach(tid: i32, signal: i32) {
    if let Ok(mut registers) = trace::registers(tid) {
        if registers.mend() {
            let _ = trace::set_registers(tid, &registers);
        }
    }
    let _ = trace::detach(tid, signal);
}

/// A request fails only when the thread was killed.
fn gone(_: Errno) -> TraceError {
    TraceError::Gone
}

/// False in a restartable sequence: sent elsewhere and back, it would go on as if nobody had
/// interrupted it.
fn is_between_sequences(tid: i32, memory: &File) -> bool {
    let Some(at) = trace::sequences_at(tid) else { return true };
    let mut sequence = [0; 8];
    memory.read_exact_at(&mut sequence, at + SEQUENCE).is_ok() && sequence == [0; 8]
}

/// Address of a `syscall` instruction in the program's vdso.
fn vdso_call(pid: i32, memory: &File) -> Result<u64, TraceError> {
    let mapped = maps::read(pid).map_err(|error| TraceError::of_open(pid, &error))?;
    let vdso = mapped.iter().find(|it| it.name == "[vdso]");
    let found = vdso.and_then(|it| {
        let mut code = vec![0; it.pages.len()];
        memory.read_exact_at(&mut code, it.pages.start as u64).ok()?;
        let at = code.windows(CALL.len()).position(|bytes| bytes == CALL)?;
        Some((it.pages.start + at) as u64)
    });
    found.ok_or(TraceError::NoCall { why: "it has no vdso" })
}

/// A descriptor of the other process, as one of ours.
fn fetch(pidfd: &PidFd, number: usize) -> Result<OwnedFd, Errno> {
    let args = [pidfd.as_raw_fd() as usize, number, 0, 0, 0, 0];
    // SAFETY: pidfd_getfd takes no pointer.
    let fd = check(unsafe { raw(Sysno::pidfd_getfd as usize, args) })?;
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::adopt(fd as i32) })
}

/// Whether descriptors can be fetched at all, tried on none of this process's own. Where that is
/// refused, a call that was made in the other's name could not be told from one that was not.
fn fetches() -> bool {
    let own = PidFd::open(std::process::id() as i32);
    own.and_then(|own| fetch(&own, i32::MAX as usize)).err() == Some(Errno(libc::EBADF))
}

/// Whether the kernel says that it is one.
fn is_userfaultfd(fd: &OwnedFd) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    link.is_ok_and(|name| name.as_os_str() == "anon_inode:[userfaultfd]")
}
