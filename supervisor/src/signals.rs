//! Whether a signal is about to end the call in which a thread waits for its answer.
//!
//! The kernel lets no signal but a deadly one end such a wait, so the supervisor looks for them
//! (proc(5)) and ends the call itself. Which thread handles a signal of the whole process is the
//! kernel's choice and written nowhere, but follows rules (complete_signal, kernel/signal.c): the
//! one that is meant first, which is the first thread but for SIGCHLD, else any that does not
//! block it.

use std::os::fd::OwnedFd;

use crate::proc::read_proc;

/// Whether a thread has a signal to handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coming {
    /// None.
    No,
    /// One that this thread or another of its process will handle.
    Perhaps,
    /// One that this thread will handle as soon as its call is over: the kernel may be asked to
    /// make the call anew after it.
    Surely,
}

/// Threads that are looked at before it counts as unknown who handles a signal.
const THREADS_MAX: usize = 256;
/// Its bit in a set of signals.
const CHILD: u64 = 1 << (libc::SIGCHLD - 1);

/// A thread's signals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Signals {
    process: i32,
    threads: usize,
    is_over: bool,
    own: u64,
    shared: u64,
    blocked: u64,
}

impl Signals {
    fn read(status: &[u8]) -> Self {
        let mut found = Self::default();
        for line in std::str::from_utf8(status).unwrap_or_default().lines() {
            let Some((name, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            let set = || u64::from_str_radix(value, 16).unwrap_or(0);
            match name {
                "State" => found.is_over = value.starts_with(['Z', 'X']),
                "Tgid" => found.process = value.parse().unwrap_or(0),
                "Threads" => found.threads = value.parse().unwrap_or(0),
                "SigPnd" => found.own = set(),
                "ShdPnd" => found.shared = set(),
                "SigBlk" => found.blocked = set(),
                _ => {}
            }
        }
        found
    }

    fn of(proc: &OwnedFd, thread: i32) -> Option<Self> {
        // A name may hold anything but a newline, which the kernel writes as "\n".
        let status = read_proc(proc, &format!("{thread}/status"))?;
        Some(Self::read(String::from_utf8_lossy(&status).as_bytes()))
    }
}

/// Whether a thread has a signal to handle, and its process.
pub fn coming(proc: &OwnedFd, thread: i32) -> (Coming, i32) {
    let Some(one) = Signals::of(proc, thread) else { return (Coming::No, thread) };
    let shared = one.shared & !one.blocked;
    let is_its_own = one.own & !one.blocked != 0;
    let is_first = thread == one.process && shared & !CHILD != 0;
    let found = match shared {
        _ if is_its_own => Coming::Surely,
        0 => Coming::No,
        _ if is_first || one.threads == 1 => Coming::Surely,
        _ if one.threads <= THREADS_MAX && nobody_else(proc, (one.process, thread), shared) => {
            Coming::Surely
        }
        _ => Coming::Perhaps,
    };
    (found, one.process)
}

/// Whether all other threads of the process block one of these signals.
fn nobody_else(proc: &OwnedFd, (process, thread): (i32, i32), mut signals: u64) -> bool {
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    let folder = format!("{process}/task");
    let opened = rustix::fs::openat(proc, folder, flags, rustix::fs::Mode::empty());
    let Some(entries) = opened.ok().and_then(|fd| rustix::fs::Dir::new(fd).ok()) else {
        return false;
    };
    let number = |entry: rustix::fs::DirEntry| entry.file_name().to_str().ok()?.parse().ok();
    let others = entries.flatten().filter_map(number).filter(|other: &i32| *other != thread);
    for other in others {
        // Who is gone by now handles nothing.
        if let Some(other) = Signals::of(proc, other).filter(|other| !other.is_over) {
            signals &= other.blocked;
        }
    }
    signals != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_signals_are_read_whatever_its_name_is() {
        let text = "Name:\tSigPnd: ff\\nx\nState:\tZ (zombie)\nTgid:\t7\nThreads:\t3\n\
                    SigPnd:\t0000000000000200\nShdPnd:\t0000000000002000\nSigBlk:\t0000000000000001\n";
        let wanted = Signals {
            process: 7,
            threads: 3,
            is_over: true,
            own: 0x200,
            shared: 0x2000,
            blocked: 1,
        };
        assert_eq!(Signals::read(text.as_bytes()), wanted);
        assert_eq!(Signals::read(b"Name: x"), Signals::default());
    }

    #[test]
    fn this_process_waits_for_no_signal() {
        let flags = rustix::fs::OFlags::PATH;
        let proc = rustix::fs::open("/proc", flags, rustix::fs::Mode::empty()).expect("/proc");
        let own = heliostat_backend_seal::own_thread();
        assert_eq!(coming(&proc, own), (Coming::No, std::process::id() as i32));
        let process = std::process::id() as i32;
        assert!(!nobody_else(&proc, (process, own), 0));
    }
}
