//! Static programs whose calls no signal is to end: their own code repeats what was interrupted.
//!
//! A signal that comes before a question has been received ends the call with EINTR, in the kernel
//! (seccomp_unotify(2)); the supervisor never hears of it. Programs with a shared libc have the stub,
//! which makes the call again. A static program has nobody, so that its first question after exec
//! is when its code is mended: the kernel holds the thread meanwhile, and it is the only one.
//!
//! Mended is what is sure to be one call: `mov eax,NUMBER; syscall`, of calls that are never
//! interrupted on the plain kernel. The `mov`, five bytes, becomes a jump to code behind the
//! text's end, in its last page, which makes the call until it is not interrupted (`sites`): of as
//! many calls as there is room for. The `syscall` stays, so that nothing changes for those that come
//! to it by another way. What opens files may wait for a FIFO's other end: once a call of such code has been ended by a signal in
//! the middle of such a wait, it is repeated no more.

mod sites;

use std::collections::{BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

use heliostat_backend_seal::{self as seal, Notice};
use rustix::fs::{AtFlags, Mode, OFlags, Stat};

use crate::call::Call;
use crate::paths::read_proc;
use crate::supervisor::Supervisor;
use sites::{Mending, GIVE_UP, REPEATS, REPETITION_AT};

/// Files whose mending is remembered, and processes that have not asked yet.
const KNOWN_MAX: usize = 256;
const FRESH_MAX: usize = 4096;

/// What makes a file the same one.
type Identity = [u64; 6];

/// Programs that have begun, and what is known of their files.
#[derive(Default)]
pub struct Images {
    /// Processes that have been allowed an exec since their last question.
    fresh: Mutex<BTreeSet<i32>>,
    any_fresh: AtomicBool,
    /// Nothing to be mended where there is `None`.
    known: Mutex<HashMap<Identity, Option<Arc<Mending>>>>,
}

impl Images {
    /// A process is about to execute what `status` is of.
    pub fn begins(&self, call: &Call<'_>, status: &Stat) {
        let known = self.known.lock().ok().and_then(|known| known.get(&identity(status)).cloned());
        if known == Some(None) {
            return;
        }
        if let Ok(mut fresh) = self.fresh.lock() {
            if fresh.len() >= FRESH_MAX {
                fresh.clear();
            }
            // One that is not its process's first goes on under that one's number, and is missed.
            fresh.insert(call.thread());
            self.any_fresh.store(true, SeqCst);
        }
    }

    /// A question: the first one after an exec is when a static program is mended.
    pub fn asks(&self, call: &Call<'_>) {
        if !self.any_fresh.load(SeqCst) {
            return;
        }
        let Ok(mut fresh) = self.fresh.lock() else { return };
        let is_first = fresh.remove(&call.thread());
        self.any_fresh.store(!fresh.is_empty(), SeqCst);
        drop(fresh);
        if is_first {
            // What cannot be mended is interrupted as before.
            let _ = self.mend(call);
        }
    }

    fn mend(&self, call: &Call<'_>) -> Option<()> {
        let file = open(call.supervisor, call.thread(), "exe", OFlags::RDONLY)?;
        let status = rustix::fs::fstat(&file).ok()?;
        let identity = identity(&status);
        let found = self.known.lock().ok()?.get(&identity).cloned();
        let mending = match found {
            Some(known) => known,
            None => {
                let mending = is_program(&status).then(|| Mending::of(&file)).flatten();
                self.remember(identity, mending.map(Arc::new))
            }
        }?;
        let memory = open(call.supervisor, call.thread(), "mem", OFlags::RDWR)?;
        // Its memory, unless it has been killed; and no other thread is in the code.
        call.check().ok().filter(|()| is_alone(call))?;
        let auxiliary =
            || read_proc(call.supervisor.roots.proc(), &format!("{}/auxv", call.thread()));
        mending.write(&memory, mending.base(auxiliary)?)
    }

    fn remember(&self, file: Identity, mending: Option<Arc<Mending>>) -> Option<Arc<Mending>> {
        let mut known = self.known.lock().ok()?;
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(file, mending.clone());
        mending
    }
}

/// A call that may wait has been ended by a signal: if it was made by mended code, that code
/// repeats it no more.
pub fn waits(supervisor: &Supervisor, notice: Notice) {
    let mut code = [0; REPEATS.len()];
    let is_there = seal::read_memory(notice.thread, notice.at, &mut code).is_ok();
    if !is_there || code != REPEATS {
        return;
    }
    let Some(memory) = open(supervisor, notice.thread, "mem", OFlags::RDWR) else { return };
    if supervisor.listener.is_waiting(notice.id) {
        let _ = rustix::io::pwrite(&memory, &GIVE_UP, notice.at + REPETITION_AT);
    }
}

fn open(supervisor: &Supervisor, thread: i32, entry: &str, flags: OFlags) -> Option<OwnedFd> {
    let name = format!("{thread}/{entry}");
    rustix::fs::openat(supervisor.roots.proc(), name, flags | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Whether a thread is its process's only one: a folder has two links and one of each folder in it.
fn is_alone(call: &Call<'_>) -> bool {
    let tasks = format!("{}/task", call.thread());
    let found = rustix::fs::statat(call.supervisor.roots.proc(), tasks, AtFlags::empty());
    found.is_ok_and(|found| found.st_nlink == 3)
}

fn is_program(status: &Stat) -> bool {
    rustix::fs::FileType::from_raw_mode(status.st_mode) == rustix::fs::FileType::RegularFile
}

fn identity(status: &Stat) -> Identity {
    let modified = (status.st_mtime as u64).rotate_left(30) ^ status.st_mtime_nsec;
    let changed = status.st_ctime as u64;
    [status.st_dev, status.st_ino, status.st_size as u64, changed, status.st_ctime_nsec, modified]
}
