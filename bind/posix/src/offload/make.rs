//! Making a call without waiting for anybody: what an executor does, and a thread that measures it.
//!
//! No thread-local memory, no allocation, and no look at the program's memory: the kernel alone follows
//! its pointers, so that nothing there is a fault of ours. Each way is exact or gives the call back:
//! then nothing of it is done, or it fails the same way when its thread makes it again.

use std::cell::Cell;
use std::ops::Deref;

use heliostat_base::clock::cycles;
use heliostat_base::sys::{raw, Sysno};
use heliostat_ring::request::Asked;
use heliostat_stub_posix::offload::calls::{judged, How, Judgement};
use heliostat_stub_posix::offload::Made;

mod devices;
mod kind;

use kind::{kind, Kind};

/// A call that is being made, and when its last part began.
struct Job {
    asked: Asked,
    began: Cell<u64>,
}

impl Job {
    const fn new(asked: Asked) -> Job {
        Job { asked, began: Cell::new(0) }
    }
}

impl Deref for Job {
    type Target = Asked;

    fn deref(&self) -> &Asked {
        &self.asked
    }
}

/// Makes a call.
pub fn make(asked: &Asked) -> Made {
    made(&Job::new(*asked))
}

/// Makes a call, and tells in cycles what a thread that just makes it would have waited: without the looks
/// at what is open under a number, or where a path leads.
pub fn make_timed(asked: &Asked) -> (Made, u64) {
    let job = Job::new(*asked);
    let made = made(&job);
    (made, cycles().wrapping_sub(job.began.get()))
}

fn made(asked: &Job) -> Made {
    let how = judged(asked.number).map(|judged| judged.judgement);
    let Some(Judgement::Made(how)) = how else { return Made::Plain };
    let [first, second, ..] = asked.args;
    match how {
        How::AsItIs => ended(as_asked(asked)),
        How::Read => read(asked, HERE),
        How::ReadAt => read(asked, asked.args[3]),
        How::ReadMany => read_many(asked),
        How::Write => write(asked),
        How::WriteMany => write_many(asked),
        How::Receive(flags) => receive(asked, usize::from(flags)),
        How::SendTo => send_to(asked),
        How::SendMany(flags) => send_many(asked, usize::from(flags)),
        How::Open(path) => open(asked, usize::from(path)),
        How::Close if closes_at_once(first) => Made::Result(as_asked(asked)),
        How::Replace if closes_at_once(second) => ended(as_asked(asked)),
        How::Close | How::Replace => Made::Waits,
        How::Descriptor if is_of_descriptor(second as i32) => ended(as_asked(asked)),
        How::Descriptor => Made::Plain,
        How::Option => ended(as_asked(asked)),
        How::Other if is_other_process(first as i32) => ended(as_asked(asked)),
        How::Other => Made::Plain,
        How::Message(flags) => message(asked, usize::from(flags)),
        // Those of the calling thread alone are none of an executor's.
        How::Children(flags) if asked.args[usize::from(flags)] as i32 & libc::__WNOTHREAD != 0 => {
            Made::Plain
        }
        How::Children(flags) if asked.args[usize::from(flags)] as i32 & libc::WNOHANG != 0 => {
            ended(as_asked(asked))
        }
        How::Children(_) => Made::Waits,
    }
}

/// The kernel's answer.
fn call(number: Sysno, args: [u64; 6]) -> i64 {
    let args = args.map(|word| word as usize);
    // SAFETY: the program's own call, or one that reads or writes the same of its memory; other pointers
    // are to live locals of this module.
    unsafe { raw(number as usize, args) as i64 }
}

/// The call itself, the last thing that is done of it.
fn last(job: &Job, number: Sysno, args: [u64; 6]) -> i64 {
    job.began.set(cycles());
    call(number, args)
}

fn as_asked(asked: &Job) -> i64 {
    as_changed(asked, asked)
}

/// The same with a flag or so changed.
fn as_changed(job: &Job, asked: &Asked) -> i64 {
    job.began.set(cycles());
    let args = asked.args.map(|word| word as usize);
    // SAFETY: the call that the program made, with its own arguments, and flags that keep it from waiting.
    unsafe { raw(asked.number as usize, args) as i64 }
}

const fn is(answer: i64, errno: i32) -> bool {
    answer == -(errno as i64)
}

/// Of a call that failed with a signal, or an interruption that is none of the program's.
fn ended(answer: i64) -> Made {
    match answer {
        answer if is(answer, libc::EPIPE) => Made::Signals(libc::EPIPE),
        answer if is(answer, libc::EFBIG) => Made::Signals(libc::EFBIG),
        answer if is(answer, libc::EINTR) => Made::Plain,
        answer => Made::Result(answer),
    }
}

/// The same for one that would have waited, or cannot be made so.
fn unless_waits(answer: i64) -> Made {
    match answer {
        answer if is(answer, libc::EAGAIN) => Made::Waits,
        // EIO: from a terminal, where the kernel would stop a thread that reads in the background.
        answer if [libc::EOPNOTSUPP, libc::EINVAL, libc::EIO].iter().any(|it| is(answer, *it)) => {
            Made::Plain
        }
        answer => unless_connects(answer),
    }
}

/// The first bytes of a connection may go with its beginning (TCP_FASTOPEN_CONNECT), which is waited for.
fn unless_connects(answer: i64) -> Made {
    match is(answer, libc::EINPROGRESS) || is(answer, libc::EALREADY) {
        true => Made::Plain,
        false => ended(answer),
    }
}

/// preadv2(2), pwritev2(2): do not wait (source: linux/fs.h).
const RWF_NOWAIT: u64 = 8;
/// Instead of an offset: the descriptor's own (source: preadv2(2)).
const HERE: u64 = u64::MAX;
/// No call moves more (source: MAX_RW_COUNT, read(2)).
const BYTES_MAX: u64 = 0x7fff_f000;
/// Above this no buffer ends (source: TASK_SIZE, x86-64 with 4 levels of page tables).
const ADDRESS_MAX: u64 = 0x7fff_ffff_f000;

/// The kernel refuses a single buffer and one of many in different ways.
fn is_plain(at: u64, length: u64) -> bool {
    at <= ADDRESS_MAX && length <= BYTES_MAX && length <= ADDRESS_MAX - at && length != 0
}

/// A file is read as asked, which waits for a disk at most; what is at an offset is nothing else.
fn read(asked: &Job, offset: u64) -> Made {
    let [fd, at, length, ..] = asked.args;
    match kind(fd) {
        Kind::File => return ended(as_asked(asked)),
        Kind::OfKernel => return Made::Plain,
        Kind::Other(_) if !is_plain(at, length) || offset != HERE => return Made::Plain,
        Kind::Other(_) => {}
    }
    let buffer = [at, length];
    let array = buffer.as_ptr() as u64;
    unless_waits(last(asked, Sysno::preadv2, [fd, array, 1, HERE, 0, RWF_NOWAIT]))
}

fn read_many(asked: &Job) -> Made {
    let [fd, array, count, ..] = asked.args;
    match kind(fd) {
        Kind::File => return ended(as_asked(asked)),
        Kind::OfKernel => return Made::Plain,
        Kind::Other(_) => {}
    }
    match asked.number == Sysno::readv as u32 {
        true => unless_waits(last(asked, Sysno::preadv2, [fd, array, count, HERE, 0, RWF_NOWAIT])),
        false => Made::Plain,
    }
}

fn is_nonblocking(fd: u64) -> bool {
    let flags = call(Sysno::fcntl, [fd, libc::F_GETFL as u64, 0, 0, 0, 0]);
    flags >= 0 && flags as i32 & libc::O_NONBLOCK != 0
}

/// Whether it is a file, or does not wait; none of what the kernel makes up. Not a terminal: who writes to
/// one from the background is stopped.
fn writes_at_once(fd: u64) -> Option<bool> {
    match kind(fd) {
        Kind::File => Some(true),
        Kind::OfKernel => None,
        Kind::Other(Some(libc::S_IFCHR)) => Some(false),
        Kind::Other(_) => Some(is_nonblocking(fd)),
    }
}

fn write(asked: &Job) -> Made {
    let [fd, at, length, ..] = asked.args;
    match writes_at_once(fd) {
        None => return Made::Plain,
        Some(true) => return ended(as_asked(asked)),
        Some(false) => {}
    }
    if !is_plain(at, length) {
        return Made::Plain;
    }
    let buffer = [at, length];
    let array = buffer.as_ptr() as u64;
    part_of(last(asked, Sysno::pwritev2, [fd, array, 1, HERE, 0, RWF_NOWAIT]), length)
}

/// A descriptor that waits takes all of a write: what it has not taken at once is left to the thread.
fn part_of(answer: i64, length: u64) -> Made {
    match u32::try_from(answer) {
        Ok(bytes) if u64::from(bytes) < length => Made::Part(bytes),
        _ => unless_waits(answer),
    }
}

fn write_many(asked: &Job) -> Made {
    match writes_at_once(asked.args[0]) {
        None => Made::Plain,
        Some(true) => ended(as_asked(asked)),
        Some(false) => Made::Waits,
    }
}

fn with_flag(job: &Job, place: usize, flag: i32) -> Asked {
    let mut changed = job.asked;
    changed.args[place] |= flag as u64;
    changed
}

fn receive(asked: &Job, flags: usize) -> Made {
    // These wait for all, or look where waiting is something else.
    if asked.args[flags] as i32 & (libc::MSG_WAITALL | libc::MSG_ERRQUEUE) != 0 {
        return Made::Plain;
    }
    match as_changed(asked, &with_flag(asked, flags, libc::MSG_DONTWAIT)) {
        // It is the answer where the program has asked so.
        answer if asked.args[flags] as i32 & libc::MSG_DONTWAIT != 0 => ended(answer),
        answer => unless_refused(answer),
    }
}

/// Sockets know the flag, so that EINVAL and EOPNOTSUPP are answers.
fn unless_refused(answer: i64) -> Made {
    match is(answer, libc::EAGAIN) {
        true => Made::Waits,
        false => unless_connects(answer),
    }
}

fn send_to(asked: &Job) -> Made {
    let length = asked.args[2];
    let flags = asked.args[3] as i32;
    if flags & libc::MSG_FASTOPEN != 0 {
        return Made::Plain;
    }
    if flags & libc::MSG_DONTWAIT != 0 || is_nonblocking(asked.args[0]) {
        return ended(as_asked(asked));
    }
    let answer = as_changed(asked, &with_flag(asked, 3, libc::MSG_DONTWAIT));
    match u32::try_from(answer) {
        Ok(bytes) if u64::from(bytes) < length.min(BYTES_MAX) => Made::Part(bytes),
        _ => unless_refused(answer),
    }
}

fn send_many(asked: &Job, flags: usize) -> Made {
    let waits_not = asked.args[flags] as i32 & libc::MSG_DONTWAIT != 0;
    match waits_not || is_nonblocking(asked.args[0]) {
        true => ended(as_asked(asked)),
        false => Made::Waits,
    }
}

/// Opening waits for the other end of a FIFO, and for what a device makes of it.
fn open(asked: &Job, path: usize) -> Made {
    let folder = match path {
        0 => libc::AT_FDCWD as u64,
        _ => asked.args[0],
    };
    let mut found = std::mem::MaybeUninit::<libc::stat>::zeroed();
    let at = found.as_mut_ptr() as u64;
    let looked = call(Sysno::newfstatat, [folder, asked.args[path], at, 0, 0, 0]);
    // SAFETY: numbers, zero until the kernel has written them.
    let kind = unsafe { found.assume_init() }.st_mode & libc::S_IFMT;
    match (looked, kind) {
        (0, libc::S_IFREG | libc::S_IFDIR) => ended(as_asked(asked)),
        (0, _) => Made::Waits,
        _ => ended(as_asked(asked)),
    }
}

/// The end of a socket may be waited for (SO_LINGER), and that of some devices; there a wrong number is
/// told at once too.
fn closes_at_once(fd: u64) -> bool {
    !matches!(kind(fd), Kind::Other(Some(libc::S_IFSOCK | libc::S_IFCHR | libc::S_IFBLK)))
}

fn is_of_descriptor(command: i32) -> bool {
    const GETPIPE_SZ: i32 = libc::F_GETPIPE_SZ;
    matches!(
        command,
        libc::F_DUPFD
            | libc::F_DUPFD_CLOEXEC
            | libc::F_GETFD
            | libc::F_SETFD
            | libc::F_GETFL
            | libc::F_SETFL
            | GETPIPE_SZ
    )
}

fn is_other_process(pid: i32) -> bool {
    pid > 0 && i64::from(pid) != call(Sysno::getpid, [0; 6])
}

fn message(asked: &Job, flags: usize) -> Made {
    if asked.args[flags] as i32 & libc::IPC_NOWAIT != 0 {
        return ended(as_asked(asked));
    }
    let answer = as_changed(asked, &with_flag(asked, flags, libc::IPC_NOWAIT));
    match is(answer, libc::EAGAIN) || is(answer, libc::ENOMSG) {
        true => Made::Waits,
        false => ended(answer),
    }
}

#[cfg(test)]
mod tests;
