//! Another process, held still for a moment: its threads, its bytes, and one call on its behalf.
//!
//! A program that knows nothing of it is traced (ptrace(2)) for as long as one version of its
//! memory takes, and let go in between, so that nothing stands between it and its signals, and a
//! debugger finds it free. All requests of one stop come from one thread, as the kernel asks, and
//! that thread's end releases whatever it still holds, in every case.
//!
//! ```text
//! stop     list threads, seize and interrupt each, until no new one is found
//! ...      the caller reads
//! resume   mend interrupted system calls, detach each, with the signal it had in its hands
//! ```
//!
//! A stop shows nowhere but in the clock: system calls that the kernel would end with EINTR are
//! told to start again (`x86_64::mend`), the parent learns nothing, signals arrive. If this
//! process is killed meanwhile the kernel lets go of all threads. Unlike `base`
//! this module reads /proc with std: it never runs underneath a program's libc.

mod bytes;
mod error;
mod inject;
mod maps;
mod seize;
mod trace;
#[cfg(target_arch = "x86_64")]
mod x86_64;

pub use bytes::Copied;
pub use error::TraceError;
pub use maps::{Mapping, MappingKind};

use std::fs::File;
use std::os::fd::OwnedFd as StdFd;
use std::os::unix::fs::FileExt;
use std::sync::mpsc;
use std::thread::JoinHandle;

use crate::track::{TrackError, WriteTracker};
use heliostat_base::process::PidFd;

/// Another process, by number, for as long as it has the memory it has now.
#[derive(Debug)]
pub struct Tracee {
    pid: i32,
    pidfd: PidFd,
    /// Belongs to the memory, not to the number: after an exec it shows nothing.
    memory: File,
}

impl Tracee {
    /// Opens a process; nothing happens to it.
    ///
    /// # Errors
    /// `Gone` for none of that number, `Refused` where it must not be traced, `Foreign` for code
    /// of another machine.
    pub fn open(pid: i32) -> Result<Self, TraceError> {
        let pidfd = PidFd::open(pid).map_err(|_| TraceError::Gone)?;
        let path = format!("/proc/{pid}/mem");
        let memory = File::open(path).map_err(|error| TraceError::of_open(pid, &error))?;
        error::check_machine(pid)?;
        let it = Self { pid, pidfd, memory };
        match it.is_there() {
            true => Ok(it),
            false => Err(TraceError::Gone),
        }
    }

    /// Its number.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// False once it has ended, or runs another program: its memory is not there any more.
    pub fn is_there(&self) -> bool {
        // A read of memory without users yields nothing; of a place without memory, an error.
        self.pidfd.is_alive() && !matches!(self.memory.read_at(&mut [0], 4096), Ok(0))
    }

    /// What is mapped in it now, in order of address.
    pub fn mappings(&self) -> Result<Vec<Mapping>, TraceError> {
        maps::read(self.pid).map_err(|error| TraceError::of_open(self.pid, &error))
    }

    /// True when one of its threads has system-call filters (seccomp) that this process does not
    /// have: a call made in its name might be its end.
    pub fn has_foreign_filter(&self) -> bool {
        let (own, threads) = (error::filters("self"), seize::threads_of(self.pid));
        let is_foreign = |tid: &i32| {
            let found = error::filters(&tid.to_string());
            // Nothing is said of one that has ended meanwhile.
            !found.is_empty() && found != own
        };
        threads.is_ok_and(|all| all.iter().any(is_foreign))
    }

    /// Stops all its threads. Blocks until they stand, 2 s at most; after an error they all go on.
    ///
    /// # Errors
    /// `Gone`, `Traced`, `Refused`, or `Stuck` where a thread does not come out of the kernel.
    pub fn stop(&self) -> Result<Stopped, TraceError> {
        let (pid, (ready, stands), (go, wait)) = (self.pid, mpsc::channel(), mpsc::channel());
        let holder = std::thread::spawn(move || seize::hold(pid, &ready, &wait));
        match stands.recv().unwrap_or(Err(TraceError::Gone)) {
            Ok(threads) => Ok(Stopped { threads, go, holder: Some(holder) }),
            Err(error) => {
                // Its end releases what it holds.
                let _ = holder.join();
                Err(error)
            }
        }
    }

    /// Makes a tracker of writes to its memory: one of its threads is stopped for two system calls
    /// made in its name, userfaultfd and the close of it.
    ///
    /// Whoever kills this process in these microseconds may harm the other: one of its threads
    /// then goes on with registers that are not its own.
    ///
    /// # Errors
    /// As for [`Tracee::stop`], and what the two calls may say.
    pub fn track(&self) -> Result<WriteTracker, TraceError> {
        let (pid, memory) = (self.pid, self.memory.try_clone());
        let memory = memory.map_err(|error| TraceError::of_open(pid, &error))?;
        let pidfd = PidFd::open(pid).map_err(|_| TraceError::Gone)?;
        let made = std::thread::spawn(move || inject::userfaultfd(pid, &pidfd, &memory)).join();
        let uffd = made.unwrap_or(Err(TraceError::Gone))?;
        let pagemap = File::open(format!("/proc/{pid}/pagemap"));
        let pagemap = pagemap.map_err(|error| TraceError::of_open(pid, &error))?;
        let tracker = WriteTracker::of_other(uffd, StdFd::from(pagemap).into());
        tracker.map_err(TraceError::Track)
    }
}

impl From<TrackError> for TraceError {
    fn from(error: TrackError) -> Self {
        Self::Track(error)
    }
}

/// A process whose threads all stand; dropping it lets them go on.
#[derive(Debug)]
pub struct Stopped {
    threads: usize,
    go: mpsc::Sender<()>,
    holder: Option<JoinHandle<u64>>,
}

impl Stopped {
    /// Threads that stand.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Lets them go on; answers for how long the first of them stood, in ns.
    pub fn resume(mut self) -> u64 {
        self.release()
    }

    fn release(&mut self) -> u64 {
        let _ = self.go.send(());
        self.holder.take().and_then(|holder| holder.join().ok()).unwrap_or(0)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if self.holder.is_some() {
            self.release();
        }
    }
}
