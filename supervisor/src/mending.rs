//! Static programs whose calls no signal is to end: their own code repeats what was interrupted.
//!
//! A signal that comes before a question has been received ends the call with EINTR, in the kernel
//! (seccomp_unotify(2)); the supervisor never hears of it. Programs with a shared libc have the stub,
//! which makes the call again. A static program has nobody, so that its first question after exec
//! is when its code is mended (`images`): the kernel holds the thread meanwhile, and it is the only
//! one. What opens files may wait for a FIFO's other end: once a call of such code has been ended by a
//! signal in the middle of such a wait, it is repeated no more.

use std::os::fd::OwnedFd;

use heliostat_backend_seal::{self as seal, Notice};
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::call::Call;
use crate::images::{GIVE_UP, REPEATS, REPETITION_AT};
use crate::proc::read_proc;
use crate::supervisor::Supervisor;

/// A question: the first one after an exec is when a static program is mended.
pub fn asks(call: &Call<'_>) {
    if call.supervisor.images.is_first(call.thread()) {
        // What cannot be mended is interrupted as before.
        let _ = mend(call);
    }
}

fn mend(call: &Call<'_>) -> Option<()> {
    let file = open(call.supervisor, call.thread(), "exe", OFlags::RDONLY)?;
    let mending = call.supervisor.images.mending(&file)?;
    let memory = open(call.supervisor, call.thread(), "mem", OFlags::RDWR)?;
    // Its memory, unless it has been killed; and no other thread is in the code.
    call.check().ok().filter(|()| is_alone(call))?;
    let proc = call.supervisor.roots.proc();
    let auxiliary = || read_proc(proc, &format!("{}/auxv", call.thread()));
    mending.write(&memory, mending.base(auxiliary)?)
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
