//! Calls that name a process: allowed among sealed ones, and nobody else exists.

use std::sync::atomic::Ordering::Relaxed;

use heliostat_backend_seal::{self as seal, Reply};
use heliostat_base::sys::{Errno, Sysno};

use crate::behalf::Behalf;
use crate::births;
use crate::call::{Answer, Call, DONE};
use crate::fence::CORE_BYTES_MAX;
use crate::filter::NAMESPACES;
use crate::paths::Sandbox;
use crate::tree;

/// Commands of fcntl(2) about the signals of descriptors (source: fcntl.h).
const SET_SIGNAL: i32 = 10;
const SET_OWNER: i32 = 15;
const GET_OWNER: i32 = 16;

/// The answer if the call is of this family.
pub fn answer(call: &Call<'_>) -> Option<Answer> {
    Some(match call.number {
        Sysno::setrlimit => core_limit(call, call.word(1)),
        Sysno::prlimit64 => limit(call),
        Sysno::sched_getaffinity | Sysno::sched_setaffinity => cores(call, call.int(0)),
        Sysno::sched_getparam
        | Sysno::sched_setparam
        | Sysno::sched_getscheduler
        | Sysno::sched_setscheduler
        | Sysno::sched_getattr
        | Sysno::sched_setattr
        | Sysno::sched_rr_get_interval
        | Sysno::get_robust_list
        | Sysno::getpgid
        | Sysno::getsid
        | Sysno::pidfd_open => of_sealed(call, call.int(0)),
        Sysno::fork | Sysno::vfork | Sysno::clone => birth(call),
        Sysno::kill | Sysno::tkill | Sysno::rt_sigqueueinfo => signal(call, call.int(0)),
        Sysno::tgkill | Sysno::rt_tgsigqueueinfo => signal(call, call.int(0)),
        Sysno::setpriority | Sysno::getpriority | Sysno::ioprio_set | Sysno::ioprio_get => {
            priority(call)
        }
        Sysno::prctl => option(call),
        Sysno::fcntl => descriptor(call),
        Sysno::seccomp => filter(call),
        Sysno::setgroups => groups(call),
        Sysno::getgroups => known_groups(call),
        Sysno::umask => umask(call),
        Sysno::mbind => policy(call),
        _ => return None,
    })
}

/// Only numbers and the caller's own memory are read again when the kernel goes on, so that no
/// other process can become the target but one that takes the number in that very moment.
fn of_sealed(call: &Call<'_>, process: i32) -> Answer {
    // Numbers below zero name no process, and the kernel says what it thinks of them.
    match process <= 0 || call.supervisor.holds(process) {
        true => Ok(Reply::Continue),
        false => Err(Errno(libc::ESRCH)),
    }
}

/// sched_setaffinity(2) and its question. Whoever asks about another thread finds its cores as they
/// are, and what is set stays.
fn cores(call: &Call<'_>, thread: i32) -> Answer {
    if thread != call.thread() {
        call.supervisor.places_itself.store(true, Relaxed);
    }
    of_sealed(call, thread)
}

/// umask(2). From now on each process is asked for its mask; before the kernel sets this one, so
/// that no file is made with the old one.
fn umask(call: &Call<'_>) -> Answer {
    call.supervisor.sets_umask.store(true, Relaxed);
    Ok(Reply::Continue)
}

/// prlimit(2). Who sets the limit of core files hears that it is done, and the fence's stays.
fn limit(call: &Call<'_>) -> Answer {
    let (new, old) = (call.word(2), call.word(3));
    if call.int(1) as u32 != libc::RLIMIT_CORE || new == 0 {
        return of_sealed(call, call.int(0));
    }
    if call.int(0) != 0 && !call.supervisor.holds(call.int(0)) {
        return Err(Errno(libc::ESRCH));
    }
    core_limit(call, new)?;
    if old != 0 {
        call.write(3, [CORE_BYTES_MAX.to_ne_bytes(); 2].as_flattened())?;
    }
    DONE
}

/// What setting the limit of core files to the `rlimit` at `at` answers (getrlimit(2)).
fn core_limit(call: &Call<'_>, at: u64) -> Answer {
    let mut words = [[0; 8]; 2];
    seal::read_memory(call.thread(), at, words.as_flattened_mut())?;
    let [soft, hard] = words.map(u64::from_ne_bytes);
    match () {
        () if soft > hard => Err(Errno(libc::EINVAL)),
        () if hard > CORE_BYTES_MAX => Err(Errno(libc::EPERM)),
        () => DONE,
    }
}

/// Where the kernel does not fence signals: to one sealed process only, never to groups.
fn signal(call: &Call<'_>, process: i32) -> Answer {
    match process > 0 && call.supervisor.holds(process) {
        true => Ok(Reply::Continue),
        false => {
            call.note_call("signals to processes that are not sealed");
            Err(Errno(if process > 0 { libc::ESRCH } else { libc::EPERM }))
        }
    }
}

/// A new process: none once the program is to end.
fn birth(call: &Call<'_>) -> Answer {
    if call.number == Sysno::clone && call.word(0) as u32 & NAMESPACES != 0 {
        call.note_call("namespaces of its own");
        return Err(Errno(libc::EPERM));
    }
    let (files, thread) = (libc::CLONE_FILES as u32, libc::CLONE_THREAD as u32);
    if call.number == Sysno::clone && call.word(0) as u32 & (files | thread) == files {
        call.supervisor.uncharged.shares_descriptors();
    }
    if tree::is_ending() {
        return Err(Errno(libc::EAGAIN));
    }
    if call.supervisor.made.is_some() {
        note_sharing(call);
    }
    if !call.supervisor.births.take_one(call.supervisor.roots.proc(), call.thread()) {
        call.note_call("more processes and threads than the policy's limit");
        return Err(Errno(libc::EAGAIN));
    }
    Ok(Reply::Continue)
}

/// Takes down that a new process will share its parent's table of descriptors or memory. With
/// vfork(2) the parent waits, unless the child leaves a thread of its own behind.
fn note_sharing(call: &Call<'_>) {
    let supervisor = call.supervisor;
    let flags = match call.number {
        Sysno::clone => call.int(0),
        Sysno::vfork => libc::CLONE_VM | libc::CLONE_VFORK,
        _ => 0,
    };
    let has = |flag| flags & flag != 0;
    let stays = match has(libc::CLONE_THREAD) {
        true => births::is_lent(supervisor.roots.proc(), call.thread()),
        false => has(libc::CLONE_FILES) || (has(libc::CLONE_VM) && !has(libc::CLONE_VFORK)),
    };
    if stays {
        supervisor.shares.store(true, Relaxed);
    }
}

fn priority(call: &Call<'_>) -> Answer {
    /// Of one process, by number (source: ioprio_set(2)).
    const OF_PROCESS: i32 = 1;
    let is_one = match call.number {
        Sysno::setpriority | Sysno::getpriority => call.int(0) == libc::PRIO_PROCESS as i32,
        _ => call.int(0) == OF_PROCESS,
    };
    match is_one {
        true => of_sealed(call, call.int(1)),
        false => Err(Errno(libc::EPERM)),
    }
}

/// Servers that root starts set the groups that they have already, and end if that fails.
fn groups(call: &Call<'_>) -> Answer {
    /// Source: limits.h.
    const NGROUPS_MAX: usize = 65536;
    let Some(count) = Some(call.int(0) as usize).filter(|count| *count <= NGROUPS_MAX) else {
        return Err(Errno(libc::EINVAL));
    };
    let mut bytes = vec![0; count * size_of::<u32>()];
    call.read(1, &mut bytes)?;
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_ne_bytes);
    let mut wanted: Vec<u32> = bytes.chunks_exact(size_of::<u32>()).map(number).collect();
    wanted.sort_unstable();
    if let Some(named) = &call.supervisor.identities {
        // The list lies in memory, which a second thread could change.
        let is_named = wanted.iter().all(|group| named.has_group(*group));
        let may = is_named && call.supervisor.is_alone(call.thread());
        call.supervisor.behalf.iter().for_each(Behalf::begins);
        return if may { Ok(Reply::Continue) } else { Err(Errno(libc::EPERM)) };
    }
    // A server that root starts asks for what it has already; who never could is told so.
    let is_root = rustix::process::geteuid().is_root();
    match is_root && wanted == call.supervisor.groups_of(call.thread()) {
        true => DONE,
        false => Ok(Reply::Continue),
    }
}

/// getgroups(2), where the kernel itself shows others than the first as nobody.
fn known_groups(call: &Call<'_>) -> Answer {
    let (groups, room) = (call.supervisor.groups_of(call.thread()), call.int(0));
    let is_asked = room != 0;
    if room < 0 || is_asked && groups.len() > room as usize {
        return Err(Errno(libc::EINVAL));
    }
    if is_asked {
        let bytes: Vec<u8> = groups.iter().flat_map(|group| group.to_ne_bytes()).collect();
        call.write(1, &bytes)?;
    }
    Ok(Reply::Value(groups.len() as i64))
}

fn option(call: &Call<'_>) -> Answer {
    match call.int(0) {
        // Would hide the program from its supervisor, and from nobody else.
        libc::PR_SET_DUMPABLE => DONE,
        // What a worker has become it remains: no right to change ids outlives the change.
        libc::PR_SET_KEEPCAPS if call.supervisor.identities.is_some() => DONE,
        libc::PR_SET_SECCOMP
        | libc::PR_SET_KEEPCAPS
        | libc::PR_SET_SECUREBITS
        | libc::PR_CAPBSET_DROP
        | libc::PR_GET_TSC
        | libc::PR_GET_TID_ADDRESS
        | libc::PR_GET_SPECULATION_CTRL
        | libc::PR_SET_SPECULATION_CTRL => Ok(Reply::Continue),
        libc::PR_SET_MM => Err(Errno(libc::EPERM)),
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// Owners of signals are fenced where signals are.
fn descriptor(call: &Call<'_>) -> Answer {
    match call.int(1) {
        libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_SETLK | libc::F_OFD_SETLKW => lock(call),
        libc::F_SETOWN | SET_SIGNAL | SET_OWNER | GET_OWNER if call.supervisor.fenced.signals => {
            Ok(Reply::Continue)
        }
        // The flags are in a register: what is judged is what the kernel goes on with.
        libc::F_SETFL if call.int(2) & libc::O_ASYNC == 0 => Ok(Reply::Continue),
        libc::F_SETLEASE | libc::F_NOTIFY => Err(Errno(libc::EACCES)),
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// A lock of a range of a file, where they are counted. The kernel makes it.
fn lock(call: &Call<'_>) -> Answer {
    let supervisor = call.supervisor;
    match supervisor
        .uncharged
        .may_lock(supervisor.roots.proc(), |process| supervisor.holds(process))
    {
        true => Ok(Reply::Continue),
        false => {
            call.note_call("more locks of files than memory that is limited allows");
            Err(Errno(libc::ENOLCK))
        }
    }
}

/// mbind(2), where policies are counted.
fn policy(call: &Call<'_>) -> Answer {
    match call.supervisor.uncharged.may_set_policy() {
        true => Ok(Reply::Continue),
        false => {
            call.note_call("more memory policies than memory that is limited allows");
            Err(Errno(libc::ENOMEM))
        }
    }
}

/// Filters of one's own can only forbid more, but there is one listener, and it is the fence's.
fn filter(call: &Call<'_>) -> Answer {
    let listens = call.word(1) & libc::SECCOMP_FILTER_FLAG_NEW_LISTENER != 0;
    match call.int(0) as u32 == libc::SECCOMP_SET_MODE_FILTER && listens {
        true => Err(Errno(libc::EBUSY)),
        false => Ok(Reply::Continue),
    }
}
