//! All threads of a process, seized and stopped, held, and let go again.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender};

use super::error::{has_ended, TraceError};
use super::trace::{self, State};
use heliostat_base::clock;
use heliostat_base::spin;
use heliostat_base::sys::Errno;

/// How long threads may take to stand.
const PATIENCE_NS: u64 = 2_000_000_000;
/// For so long a wait gives the core away and looks again; after that it naps.
const EAGER_NS: u64 = 300_000;
const NAP_NS: u64 = 50_000;
/// How long another tracer may keep a thread: a publisher like this one lets go after its version.
const TRACED_NS: u64 = 300_000_000;
/// Rounds of looking for threads that appeared meanwhile. Only threads not found yet can make
/// more, so a few do.
const ROUNDS: usize = 64;

/// Stops process `pid`, says so, waits for the word to go on, and lets go. Answers for how long
/// the first thread stood, in ns. To be run in a thread of its own: its end releases the rest.
pub(super) fn hold(pid: i32, ready: &Sender<Result<usize, TraceError>>, go: &Receiver<()>) -> u64 {
    let mut held = StoppedProcess { pid, threads: HashMap::new(), since_ns: 0 };
    let stands = held.stop_all();
    let is_held = stands.is_ok();
    let is_heard = ready.send(stands).is_ok();
    if is_held && is_heard {
        // An error means that nobody waits for us any more: go on as well.
        let _ = go.recv();
    }
    held.release();
    clock::monotonic_ns().saturating_sub(held.since_ns)
}

struct StoppedProcess {
    pid: i32,
    /// By thread, the signal it had in its hands.
    threads: HashMap<i32, Option<i32>>,
    since_ns: u64,
}

impl StoppedProcess {
    fn stop_all(&mut self) -> Result<usize, TraceError> {
        let mut fresh = self.seize_new()?;
        self.since_ns = clock::monotonic_ns();
        for _ in 0..ROUNDS {
            for tid in &fresh {
                // One that has ended meanwhile is found out by the wait.
                let _ = trace::interrupt(*tid);
            }
            self.wait(&fresh)?;
            fresh = self.seize_new()?;
            if fresh.is_empty() {
                break;
            }
        }
        match (self.threads.len(), fresh.first()) {
            (_, Some(tid)) => Err(TraceError::Stuck { tid: *tid }),
            (0, None) => Err(TraceError::Gone),
            (threads, None) => Ok(threads),
        }
    }

    /// Seizes the threads that are not held yet; answers them.
    fn seize_new(&mut self) -> Result<Vec<i32>, TraceError> {
        let mut fresh = Vec::new();
        for tid in threads_of(self.pid)? {
            if !self.threads.contains_key(&tid) && seize(self.pid, tid)? {
                self.threads.insert(tid, None);
                fresh.push(tid);
            }
        }
        Ok(fresh)
    }

    /// Waits until each of `fresh` stands or has ended.
    fn wait(&mut self, fresh: &[i32]) -> Result<(), TraceError> {
        for tid in fresh {
            match wait(*tid, self.since_ns + PATIENCE_NS) {
                State::Running => return Err(TraceError::Stuck { tid: *tid }),
                State::Stands(signal) => self.threads.insert(*tid, Some(signal)),
                State::JobStop | State::AtCall => self.threads.insert(*tid, Some(0)),
                State::Ended => self.threads.remove(tid),
            };
        }
        Ok(())
    }

    /// Lets every thread that stands go on. One that does not is released by our thread's end.
    fn release(&mut self) {
        let standing = self.threads.drain().filter_map(|(tid, signal)| Some((tid, signal?)));
        for (tid, signal) in standing {
            mend(tid);
            let _ = trace::detach(tid, signal);
        }
    }
}

/// Has a system call start again that only our stop has ended.
fn mend(tid: i32) {
    let Ok(mut registers) = trace::registers(tid) else { return };
    if registers.mend() {
        // An error means that it was killed.
        let _ = trace::set_registers(tid, &registers);
    }
}

/// Seizes one thread of `pid`; false when it has ended.
pub(super) fn seize(pid: i32, tid: i32) -> Result<bool, TraceError> {
    let ends = clock::monotonic_ns() + TRACED_NS;
    loop {
        match trace::seize(tid) {
            Ok(()) => return Ok(true),
            Err(Errno(libc::ESRCH)) => return Ok(false),
            // A thread that is ending, or the main thread that has ended before the others.
            Err(Errno(libc::EPERM)) if has_ended(pid, tid) => return Ok(false),
            Err(errno) => {
                let error = TraceError::of_seize(pid, tid, errno);
                let is_traced = matches!(error, TraceError::Traced { .. });
                if !is_traced || clock::monotonic_ns() > ends {
                    return Err(error);
                }
                spin::sleep_ns(NAP_NS * 20);
            }
        }
    }
}

/// Waits for a traced thread until `ends`; `Running` means that it does not stand.
pub(super) fn wait(tid: i32, ends: u64) -> State {
    let begun = clock::monotonic_ns();
    loop {
        let state = trace::state(tid);
        let now = clock::monotonic_ns();
        if state != State::Running || now > ends {
            return state;
        }
        match now < begun + EAGER_NS {
            true => std::thread::yield_now(),
            false => spin::sleep_ns(NAP_NS),
        }
    }
}

/// Numbers of all threads of `pid`, the main one first.
pub(super) fn threads_of(pid: i32) -> Result<Vec<i32>, TraceError> {
    let listed = std::fs::read_dir(format!("/proc/{pid}/task")).map_err(|_| TraceError::Gone)?;
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    Ok(listed.filter_map(|entry| number(entry.ok()?)).collect())
}
