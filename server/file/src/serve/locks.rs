//! Locks on whole files, which others that ask for one heed (flock(2)).
//!
//! The kernel's lock of the server's own open file description: it stands beside those that other
//! programs take by themselves, and belongs to the file that the session has opened. The loop never
//! waits: a lock that is not given is asked for again (`lock_waits.rs`), at once when a session of
//! any loop has given one back. Nothing of a wait is left when its operation or session ends.

use heliostat_abi::delegated::{Operation, NOW, SHARED, UNLOCK};
use heliostat_server_loop::{Sessions, Step, COST_MIN};
use rustix::fs::{flock, FlockOperation};
use rustix::io::Errno;

use super::super::files::{Files, Turn};
use super::super::open_file::Opened;

/// Asks for a lock, or gives it back. Who has one and asks for another gives it back first, in any
/// case: the kernel has no single step for that.
pub fn lock(turn: &mut Turn<'_>, asked: &Operation) -> Step {
    *turn.left -= COST_MIN;
    let opened = turn.session.objects.get_mut(asked.object);
    let Some(opened) = opened else { return turn.fail(libc::EBADF) };
    let wanted = match asked.argument & !NOW {
        UNLOCK => FlockOperation::NonBlockingUnlock,
        SHARED => FlockOperation::NonBlockingLockShared,
        _ => FlockOperation::NonBlockingLockExclusive,
    };
    let answer = flock(&opened.file.buffered, wanted);
    turn.engine.service.is_unlocked |= opened.is_locked;
    opened.is_locked = answer.is_ok() && asked.argument != UNLOCK;
    match answer {
        Ok(()) => turn.end(0),
        Err(Errno::WOULDBLOCK) if asked.argument & NOW == 0 => {
            let (operation, now_ns) = (turn.id.operation, turn.engine.now_ns);
            turn.session.service.lock_waits.wait(operation, now_ns);
            Step::Over
        }
        Err(errno) => turn.fail(errno.raw_os_error()),
    }
}

/// Gives a file's lock back, before its descriptor is closed at some later time.
pub fn unlock(files: &mut Files, opened: &Opened) {
    if opened.is_locked {
        let _ = flock(&opened.file.buffered, FlockOperation::NonBlockingUnlock);
        files.is_unlocked = true;
    }
}

/// Tells those that wait for a lock, on every loop, when one was given back.
pub fn tell_unlocked(sessions: &mut Sessions<Files>) {
    if std::mem::take(&mut sessions.engine.service.is_unlocked) {
        sessions.engine.service.tell_others_unlocked(sessions.engine.number);
        ask_all(sessions);
    }
}

/// Has all ask again.
pub fn ask_all(sessions: &mut Sessions<Files>) {
    sessions.resume_named(|its, _| its.lock_waits.wake());
}

/// Has those ask again whose time has come.
pub fn ask_due(sessions: &mut Sessions<Files>) {
    sessions.resume_named(|its, now_ns| its.lock_waits.due(now_ns));
}
