//! What no grant allows: refused by name, with the error that programs know how to go on from.

use heliostat_backend_seal::Reply;
use heliostat_base::sys::{Errno, Sysno};

use crate::behalf::{Behalf, FileIds};
use crate::call::{Answer, Call};

/// As on a kernel that was built without them.
#[rustfmt::skip]
const ABSENT: &[Sysno] = &[
    Sysno::io_setup, Sysno::io_submit, Sysno::io_getevents, Sysno::io_destroy, Sysno::io_cancel,
    Sysno::io_pgetevents, Sysno::mq_open, Sysno::mq_unlink, Sysno::mq_timedsend,
    Sysno::mq_timedreceive, Sysno::mq_notify, Sysno::mq_getsetattr, Sysno::shmget, Sysno::shmat,
    Sysno::shmctl, Sysno::shmdt, Sysno::semget, Sysno::semop, Sysno::semtimedop, Sysno::semctl,
    Sysno::msgget, Sysno::msgsnd, Sysno::msgrcv, Sysno::msgctl, Sysno::add_key,
    Sysno::request_key, Sysno::keyctl, Sysno::memfd_secret, Sysno::uselib, Sysno::ustat,
    Sysno::modify_ldt, Sysno::lookup_dcookie, Sysno::kcmp, Sysno::rseq, Sysno::fchmodat2,
    Sysno::process_madvise, Sysno::process_mrelease, Sysno::cachestat, Sysno::listmount,
    Sysno::statmount, Sysno::name_to_handle_at, Sysno::_sysctl, Sysno::map_shadow_stack,
    Sysno::remap_file_pages, Sysno::lsm_get_self_attr, Sysno::lsm_set_self_attr,
    Sysno::lsm_list_modules, Sysno::futex_wake, Sysno::futex_wait,
    Sysno::futex_requeue,
];

/// The answer to everything that nobody answers.
pub fn refuse(call: &Call<'_>) -> Answer {
    if call.number == Sysno::ioctl {
        return request(call);
    }
    if let Some(answer) = identity(call) {
        return answer;
    }
    call.note_call("not for sealed programs");
    Err(Errno(if ABSENT.contains(&call.number) { libc::ENOSYS } else { libc::EPERM }))
}

/// Becoming another user or group. For files alone the kernel refuses that by an answer which is no
/// error (setfsuid(2)): the id that the caller has and keeps.
fn identity(call: &Call<'_>) -> Option<Answer> {
    let answer = judged_identity(call)?;
    let is_of_files = matches!(call.number, Sysno::setfsuid | Sysno::setfsgid);
    Some(if is_of_files { answer.or_else(|_| present_id(call)) } else { answer })
}

/// The user or group for files that the caller has.
fn present_id(call: &Call<'_>) -> Answer {
    let ids = FileIds::of(call.supervisor.roots.proc(), call.thread());
    let FileIds { user, group } = ids.ok_or(Errno(libc::ESRCH))?;
    let id = if call.number == Sysno::setfsuid { user } else { group };
    Ok(Reply::Value(id.into()))
}

/// Where the policy names users, one of them; the ids are in registers, so that what is judged is what
/// the kernel goes on with. Otherwise the kernel's to refuse, and said, once on standard error too.
fn judged_identity(call: &Call<'_>) -> Option<Answer> {
    let (what, count) = match call.number {
        Sysno::setuid | Sysno::setfsuid => ("user", 1),
        Sysno::setreuid => ("user", 2),
        Sysno::setresuid => ("user", 3),
        Sysno::setgid | Sysno::setfsgid => ("group", 1),
        Sysno::setregid => ("group", 2),
        Sysno::setresgid => ("group", 3),
        _ => return None,
    };
    let mut ids = (0..count).map(|place| call.int(place) as u32);
    if call.supervisor.fenced.hides_users {
        return Some(of_namespace(ids, what));
    }
    let refused = match &call.supervisor.identities {
        None => ids.next(),
        Some(named) if what == "user" => ids.find(|id| !named.has_user(*id)),
        Some(named) => ids.find(|id| !named.has_group(*id)),
    };
    let Some(id) = refused else {
        call.note_users(what == "user", count);
        call.supervisor.behalf.iter().for_each(Behalf::begins);
        return Some(Ok(Reply::Continue));
    };
    call.note_call(&format!("to become {what} {id}: no user that --user names"));
    call.supervisor.tell_of_identity();
    Some(match call.supervisor.identities {
        None => Ok(Reply::Continue),
        Some(_) => Err(Errno(libc::EPERM)),
    })
}

/// As the kernel answers an ordinary user, where it would say that its namespace has no such id: the ids
/// that the program has are the supervisor's.
fn of_namespace(mut ids: impl Iterator<Item = u32>, what: &str) -> Answer {
    let own = match what {
        "user" => rustix::process::geteuid().as_raw(),
        _ => rustix::process::getegid().as_raw(),
    };
    match ids.all(|id| id == own || id == u32::MAX) {
        true => Ok(Reply::Continue),
        false => Err(Errno(libc::EPERM)),
    }
}

fn request(call: &Call<'_>) -> Answer {
    let request = call.word(1) as u32;
    if request == libc::FIOASYNC as u32 && call.supervisor.fenced.signals {
        return Ok(Reply::Continue);
    }
    let types = [libc::TIOCSTI as u32, libc::TIOCLINUX as u32];
    call.note_call(&format!("request {request:#x} of a descriptor"));
    Err(Errno(if types.contains(&request) { libc::EPERM } else { libc::ENOTTY }))
}
