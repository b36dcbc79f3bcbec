//! Locks on whole files, which others that ask for one heed (flock(2)).
//!
//! The kernel's lock of the server's own open file description: it stands beside those that other
//! programs take by themselves, and belongs to the file that the session has opened. The loop never
//! waits: a lock that is not given is asked for again (`lock_waits.rs`), at once when a session of
//! any loop has given one back. Nothing of a wait is left when its operation or session ends.

use heliostat_abi::file::delegated::{Operation, NOW, SHARED, UNLOCK};
use heliostat_server_loop::{Sessions, Step, COST_MIN};
use rustix::fs::{flock, FlockOperation};
use rustix::io::Errno;

use super::super::files::{Files, Turn};
use super::super::open_file::{LockKind, Opened};
use super::super::unlocked::Unlocked;

/// Asks for a lock, or gives it back. Who has one and asks for another gives it back first, in any
/// case: the kernel has no single step for that.
pub fn lock(turn: &mut Turn<'_>, asked: &Operation) -> Step {
    *turn.left -= COST_MIN;
    let opened = turn.session.objects.get_mut(asked.object);
    let Some(opened) = opened else { return turn.fail(libc::EBADF) };
    let inode = opened.file.inode;
    let wanted = match asked.argument & !NOW {
        UNLOCK => None,
        SHARED => Some(LockKind::Shared),
        _ if !opened.file.may_lock_alone => return turn.fail(libc::EACCES),
        _ => Some(LockKind::Alone),
    };
    let before = opened.lock;
    let answer = exchange(opened, wanted);
    if before.is_some() && opened.lock != before {
        turn.engine.service.unlocked.insert(inode);
    }
    match answer {
        Ok(()) => turn.end(0),
        Err(Errno::WOULDBLOCK) if asked.argument & NOW == 0 => {
            let (operation, now_ns) = (turn.id.operation, turn.engine.now_ns);
            turn.session.service.lock_waits.wait(operation, inode, now_ns);
            Step::Over
        }
        Err(errno) => turn.fail(errno.raw_os_error()),
    }
}

/// Asks the kernel to give a file this lock, or none, instead of the one that it has.
fn exchange(opened: &mut Opened, wanted: Option<LockKind>) -> Result<(), Errno> {
    let asked = match wanted {
        None => FlockOperation::NonBlockingUnlock,
        Some(LockKind::Shared) => FlockOperation::NonBlockingLockShared,
        Some(LockKind::Alone) => FlockOperation::NonBlockingLockExclusive,
    };
    let answer = flock(&opened.file.buffered, asked);
    match answer {
        Ok(()) => opened.lock = wanted,
        // The one that it had is lost.
        Err(Errno::WOULDBLOCK) => opened.lock = None,
        // The kernel has changed nothing.
        Err(_) => {}
    }
    answer
}

/// Gives a file's lock back, before its descriptor is closed at some later time.
pub fn unlock(files: &mut Files, opened: &mut Opened) {
    if opened.lock.is_some() && exchange(opened, None).is_ok() {
        files.unlocked.insert(opened.file.inode);
    }
}

/// Tells those that wait for locks, on every loop, of which files some were given back.
pub fn tell_unlocked(sessions: &mut Sessions<Files>) {
    let engine = &mut sessions.engine;
    if engine.service.unlocked.is_empty() {
        return;
    }
    let unlocked = std::mem::take(&mut engine.service.unlocked);
    engine.service.tell_others_unlocked(engine.number, &unlocked);
    ask_again(sessions, &unlocked);
}

/// Has those ask again of whom other loops have told.
pub fn ask_told(sessions: &mut Sessions<Files>) {
    let engine = &sessions.engine;
    let unlocked = engine.service.shared.unlocked.take(engine.number);
    ask_again(sessions, &unlocked);
}

fn ask_again(sessions: &mut Sessions<Files>, unlocked: &Unlocked) {
    sessions.resume_named(|its, _| its.lock_waits.wake(unlocked));
}

/// Has those ask again whose time has come.
pub fn ask_due(sessions: &mut Sessions<Files>) {
    sessions.resume_named(|its, now_ns| its.lock_waits.due(now_ns));
}
