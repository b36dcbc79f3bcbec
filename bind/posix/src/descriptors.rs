//! Descriptors coming and going: close, dup, fcntl, ioctl.

use heliostat_abi::code::Native;
use heliostat_base::sys::{check, raw, Sysno};
use heliostat_client::session;
use heliostat_interpose::Verdict;
use heliostat_stub_posix::net::{demote, option, shared, socket};
use heliostat_stub_posix::table::{self, DescriptorKind};
use heliostat_stub_posix::{file, flush, process};

use crate::call::Call;
use crate::files;
use crate::memory;
use crate::offload::by_kernel;
use crate::{sockets, spawn};

/// close(2)
pub fn close(call: &mut Call<'_>) -> Verdict {
    let answer = process::closing(call.int(0));
    call.answer(answer)
}

/// close_range(2): around the stub's own descriptor.
pub fn close_range(call: &mut Call<'_>) -> Verdict {
    let (first, last, flags) = (call.word(0) as u32, call.word(1) as u32, call.word(2));
    let is_closing = flags & CLOSE_RANGE_CLOEXEC == 0;
    if first > last {
        return Verdict::Pass;
    }
    if flags & CLOSE_RANGE_UNSHARE != 0 {
        spawn::descriptors_part();
    }
    if !is_closing {
        return Verdict::Pass;
    }
    for (first, last) in process::closing_range(first, last) {
        let args = [first as usize, last as usize, flags as usize, 0, 0, 0];
        // SAFETY: close_range takes no pointer.
        if let Err(errno) = check(unsafe { raw(Sysno::close_range as usize, args) }) {
            return call.answer(Some(Err(errno)));
        }
    }
    call.answer(Some(Ok(0)))
}

/// Takes the descriptors along for the calling thread alone (source: close_range(2)).
const CLOSE_RANGE_UNSHARE: u64 = 2;
/// Marks instead of closing (source: the same).
const CLOSE_RANGE_CLOEXEC: u64 = 4;

/// dup(2)
pub fn dup(call: &mut Call<'_>) -> Verdict {
    if table::is_unknown(call.int(0)) && table::file(call.int(0)) == 0 {
        return Verdict::Pass;
    }
    process::duplicating(call.int(0));
    let answer = by_kernel(call);
    if let Ok(new) = answer {
        process::duplicated(call.int(0), new as i32, true);
    }
    call.answer(Some(answer))
}

/// dup2(2) and dup3(2)
pub fn dup_onto(call: &mut Call<'_>, is_dup3: bool) -> Verdict {
    let (old, new) = (call.int(0), call.int(1));
    let is_known = |fd| !table::is_unknown(fd) || table::file(fd) != 0;
    let is_ours = session::owns(new) || flush::owns(new) || shared::knows(new);
    if !is_known(old) && !is_known(new) && !is_ours {
        return Verdict::Pass;
    }
    // A wrong `old`, or dup3 of a descriptor onto itself, closes nothing.
    let is_open = heliostat_base::call::fcntl(old, libc::F_GETFD, 0).is_ok();
    if is_open && !(is_dup3 && old == new) {
        process::duplicating(old);
        process::replacing(old, new);
    }
    let answer = by_kernel(call);
    if answer.is_ok() {
        let is_kept = !is_dup3 || call.int(2) & libc::O_CLOEXEC == 0;
        process::duplicated(old, new, is_kept);
    }
    call.answer(Some(answer))
}

/// fcntl(2) on a known descriptor
pub fn fcntl(call: &mut Call<'_>) -> Verdict {
    let (fd, command) = (call.int(0), call.int(1));
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            process::duplicating(fd);
            let answer = by_kernel(call);
            if let Ok(new) = answer {
                process::duplicated(fd, new as i32, command == libc::F_DUPFD);
            }
            call.answer(Some(answer))
        }
        libc::F_SETFL => set_flags(call),
        libc::F_SETFD if table::file(fd) != 0 => {
            let answer = by_kernel(call);
            if answer.is_ok() {
                file::kept_changed(fd, call.int(2) & libc::FD_CLOEXEC == 0);
            }
            call.answer(Some(answer))
        }
        libc::F_SETLEASE if table::file(fd) != 0 => files::lease(call),
        libc::F_SETLK | libc::F_SETLKW | libc::F_GETLK if table::file(fd) != 0 => files::lock(call),
        libc::F_OFD_SETLK | libc::F_OFD_SETLKW | libc::F_OFD_GETLK if table::file(fd) != 0 => {
            files::lock(call)
        }
        _ => Verdict::Pass,
    }
}

fn set_flags(call: &mut Call<'_>) -> Verdict {
    let (fd, flags) = (call.int(0), call.int(2));
    if table::file(fd) != 0 && flags & libc::O_DIRECT != 0 {
        file::stop(fd);
    }
    let DescriptorKind::Socket(index) = table::kind(fd) else { return Verdict::Pass };
    let answer = by_kernel(call);
    if answer.is_ok() {
        option::note_nonblocking(index, flags & libc::O_NONBLOCK != 0);
        if flags & libc::O_ASYNC != 0 {
            // SIGIO is sent by the kernel for its own bytes only.
            demote::leave(fd, index, Native::Option);
        }
    }
    call.answer(Some(answer))
}

/// ioctl(2) on a known descriptor
pub fn ioctl(call: &mut Call<'_>) -> Verdict {
    let fd = call.int(0);
    if table::file(fd) != 0 {
        return files::ioctl(call);
    }
    let DescriptorKind::Socket(index) = table::kind(fd) else { return Verdict::Pass };
    if socket::at(index).is_native() {
        return Verdict::Pass;
    }
    match call.word(1) as u32 as u64 {
        libc::FIONBIO => {
            // SAFETY: FIONBIO points to an int. Where nothing lies, the kernel says so.
            let on: Option<i32> = unsafe { memory::read(call.word(2)) }.ok().flatten();
            let answer = by_kernel(call);
            if let (Ok(_), Some(on)) = (answer, on) {
                option::note_nonblocking(index, on != 0);
            }
            call.answer(Some(answer))
        }
        libc::FIONREAD => queued(call, index, false),
        libc::TIOCOUTQ => queued(call, index, true),
        libc::FIOASYNC => {
            demote::leave(fd, index, Native::Call);
            Verdict::Pass
        }
        SIOCATMARK => {
            demote::leave(fd, index, Native::Call);
            // The kernel's mark lies behind what is unread in the ring.
            match option::queued(fd, index, false) {
                Some(1..) => answer_int(call, 0),
                _ => Verdict::Pass,
            }
        }
        _ => sockets::by_socket(call, index),
    }
}

/// Is the mark of urgent data next (source: sockatmark(3))?
const SIOCATMARK: u64 = 0x8905;

fn queued(call: &mut Call<'_>, index: u32, outgoing: bool) -> Verdict {
    let Some(bytes) = option::queued(call.int(0), index, outgoing) else { return Verdict::Pass };
    answer_int(call, bytes)
}

/// The answer of an ioctl(2) that points to an int.
fn answer_int(call: &mut Call<'_>, value: i32) -> Verdict {
    // SAFETY: FIONREAD, TIOCOUTQ and SIOCATMARK point to an int.
    let written = unsafe { memory::write_many(call.word(2), &[value]) };
    call.answer(Some(written.map(|()| 0).map_err(|_| memory::FAULT)))
}
