//! Moving bytes: the read, write, recv and send families.

use std::io::{IoSlice, IoSliceMut};

use heliostat_abi::code::Native;
use heliostat_base::call as kernel;
use heliostat_base::guarded::Fault;
use heliostat_base::sys::{check, Errno, Sysno};
use heliostat_interpose::Verdict;
use heliostat_stub_posix::net::receive::{self, Received};
use heliostat_stub_posix::net::{demote, listen, report_line, send, socket};
use heliostat_stub_posix::table::{self, DescriptorKind};
use heliostat_stub_posix::thread::Began;
use heliostat_stub_posix::{splice, Answer};

use crate::call::Call;
use crate::memory::{self, Buffers};

/// Bytes discarded by one call.
const DISCARD_MAX: usize = 1 << 16;

/// The connection behind the call's first descriptor.
#[inline(always)]
pub(crate) fn socket_of(call: &Call<'_>) -> Option<u32> {
    match table::kind(call.int(0)) {
        DescriptorKind::Socket(index) => Some(index),
        _ => None,
    }
}

/// Passes a native connection's call to the kernel and counts what it moved.
pub(crate) fn native(call: &mut Call<'_>, index: u32, is_receive: bool) -> Verdict {
    if stage(call) != Stage::AfterNative {
        listen::renew_if_due();
        call.frame.scratch = 0; // no ticket of a file's
        return call.wait_in_kernel();
    }
    let result = call.frame.waited;
    let moved = result.max(0) as u64;
    match is_receive {
        true => report_line::count_native(index, moved, 0),
        false => report_line::count_native(index, 0, moved),
    }
    call.frame.rax = result as u64;
    Verdict::Done
}

pub(crate) fn finish(call: &mut Call<'_>, index: u32, answer: Answer, is_receive: bool) -> Verdict {
    match answer {
        None if socket::at(index).is_native() => native(call, index, is_receive),
        answer => call.answer(answer),
    }
}

/// Where a receiving call is, when the trampoline calls again.
#[derive(PartialEq)]
enum Stage {
    First,
    AfterSleep,
    AfterNative,
}

/// The frame tells: the peek of a sleep reads into `scratch`, the kernel's own call does not.
fn stage(call: &Call<'_>) -> Stage {
    let scratch = &call.frame.scratch as *const u64 as u64;
    match call.frame.rounds {
        0 => Stage::First,
        _ if call.frame.wait[2] == scratch => Stage::AfterSleep,
        _ => Stage::AfterNative,
    }
}

/// The connection for which a receiving call has slept, and the sleeper's number.
fn slept_for(call: &Call<'_>) -> (u32, u32) {
    let scratch = call.frame.scratch;
    ((scratch >> 8) as u32 & (PLACES - 1), (scratch >> 32) as u32)
}

/// Places of connections fit into 24 bits.
const PLACES: u32 = 1 << 24;
const _: () = assert!(socket::SOCKETS_MAX <= PLACES as usize);

/// What is no connection is the kernel's, but a call that it has made already is not made again: the
/// descriptor was one when it began, and another thread has closed it since.
#[cold]
pub(crate) fn elsewhere(call: &mut Call<'_>) -> Verdict {
    match call.waited() {
        None => Verdict::Pass,
        Some(result) => {
            call.frame.rax = result as u64;
            Verdict::Done
        }
    }
}

/// After a peek, whatever the descriptor is now: `receive_with` knows whose it was.
pub(crate) fn is_after_sleep(call: &Call<'_>) -> bool {
    call.frame.rounds > 0 && stage(call) == Stage::AfterSleep
}

/// Ends a receiving call whose descriptor is no connection any more.
#[cold]
pub(crate) fn end_elsewhere(call: &mut Call<'_>) -> Verdict {
    receive_with(call, |_, index, _| refused_by_kernel(index))
}

/// Runs a receiving call through its stages; `receive` looks into the ring, for a call that may have slept.
#[inline]
pub(crate) fn receive_with(
    call: &mut Call<'_>,
    receive: impl FnOnce(&Call<'_>, u32, Option<Began>) -> Received,
) -> Verdict {
    let stage = stage(call);
    if stage == Stage::AfterSleep {
        let (index, sleeper) = slept_for(call);
        let answer = check(call.frame.waited as isize);
        if let Some(answer) = receive::woken(call.int(0), index, sleeper, answer) {
            return call.answer(Some(answer));
        }
    }
    let Some(index) = socket_of(call) else { return elsewhere(call) };
    if stage == Stage::AfterNative {
        return native(call, index, true);
    }
    let began = match stage {
        Stage::AfterSleep => Some(Began::of_sleep()),
        _ => None,
    };
    match receive(call, index, began) {
        Received::Sleep => {
            // The kernel writes its byte into the lowest of these.
            let sleeper = u64::from(receive::sleeper(index));
            call.frame.scratch = sleeper << 32 | u64::from(index) << 8;
            let byte_at = &call.frame.scratch as *const u64 as u64;
            let fd = call.word(0);
            let peek = libc::MSG_PEEK as u64;
            call.frame.wait = [Sysno::recvfrom as u64, fd, byte_at, 1, peek, 0, 0];
            Verdict::Wait
        }
        Received::Answer(answer) => finish(call, index, answer, true),
    }
}

#[inline]
fn receive_one(call: &mut Call<'_>, flags: i32) -> Verdict {
    receive_with(call, |call, index, began| {
        if call.word(1) == 0 && call.word(2) != 0 {
            return receive_nowhere(call, index, flags, began);
        }
        memory::guard();
        // SAFETY: address and length of a read-like call; the lane copies guarded.
        let Some(buffer) = (unsafe { memory::bytes_mut(call.word(1), call.word(2)) }) else {
            return refused_by_kernel(index);
        };
        receive::receive(call.int(0), index, &mut [IoSliceMut::new(buffer)], flags, began)
    })
}

/// The kernel looks at a call before it looks for bytes: what it refuses then never waits.
#[cold]
pub(crate) fn refused_by_kernel(index: u32) -> Received {
    match socket::at(index).is_native() {
        true => Received::Answer(None),
        false => Received::Answer(Some(Err(memory::FAULT))),
    }
}

/// A null buffer is good for discarding only (source: tcp(7), MSG_TRUNC).
#[cold]
fn receive_nowhere(call: &Call<'_>, index: u32, flags: i32, began: Option<Began>) -> Received {
    if flags & libc::MSG_TRUNC == 0 && !socket::at(index).is_native() {
        return Received::Answer(Some(Err(memory::FAULT)));
    }
    let mut discarded = vec![0; (call.word(2) as usize).min(DISCARD_MAX)];
    receive::receive(call.int(0), index, &mut [IoSliceMut::new(&mut discarded)], flags, began)
}

#[inline]
fn send_one(call: &mut Call<'_>, flags: i32) -> Verdict {
    let Some(index) = socket_of(call) else { return elsewhere(call) };
    if call.frame.rounds > 0 {
        return native(call, index, false);
    }
    memory::guard();
    // SAFETY: address and length of a write-like call; the lane copies guarded.
    let Some(buffer) = (unsafe { memory::bytes(call.word(1), call.word(2)) }) else {
        return call.answer(Some(Err(memory::FAULT)));
    };
    let answer = send::send(call.int(0), index, &[IoSlice::new(buffer)], flags);
    finish(call, index, answer, false)
}

/// read(2). Unlike recv(2), the kernel refuses a length beyond user space before it cuts it.
pub fn read(call: &mut Call<'_>) -> Verdict {
    match memory::is_below(call.word(1), call.word(2)) {
        true => receive_one(call, 0),
        false => Verdict::Pass,
    }
}

/// write(2), likewise
pub fn write(call: &mut Call<'_>) -> Verdict {
    match memory::is_below(call.word(1), call.word(2)) {
        true => send_one(call, 0),
        false => Verdict::Pass,
    }
}

/// recvfrom(2), and so recv(3)
pub fn recvfrom(call: &mut Call<'_>) -> Verdict {
    let verdict = receive_one(call, call.int(3));
    let is_direct = verdict == Verdict::Done && call.frame.rounds == 0;
    if is_direct && (call.frame.rax as i64) >= 0 && call.word(4) != 0 {
        if let Err(errno) = no_source(call.word(5)) {
            return call.answer(Some(Err(errno)));
        }
    }
    verdict
}

/// A connected stream has no source address; its length says so. The bytes are gone all the same
/// where it cannot be written, as with the kernel.
fn no_source(length_at: u64) -> Result<(), Errno> {
    // SAFETY: any bytes are an i32.
    match unsafe { memory::read::<i32>(length_at) } {
        Ok(Some(0..)) => {}
        Ok(Some(_)) => return Err(Errno(libc::EINVAL)),
        Ok(None) | Err(Fault) => return Err(memory::FAULT),
    }
    // SAFETY: where it was read from.
    unsafe { memory::write(length_at, 0u32) }.map_err(|Fault| memory::FAULT)
}

/// sendto(2), and so send(3)
pub fn sendto(call: &mut Call<'_>) -> Verdict {
    send_one(call, call.int(3))
}

/// readv(2)
pub fn readv(call: &mut Call<'_>) -> Verdict {
    receive_with(call, |call, index, began| {
        receive_many(call.int(0), index, (call.word(1), call.word(2)), 0, began)
    })
}

/// writev(2)
pub fn writev(call: &mut Call<'_>) -> Verdict {
    let Some(index) = socket_of(call) else { return elsewhere(call) };
    if call.frame.rounds > 0 {
        return native(call, index, false);
    }
    let answer = send_many(call.int(0), index, call.word(1), call.word(2), 0);
    finish(call, index, answer, false)
}

/// Sends an array of buffers; `None`, the kernel's answer, for one that it refuses.
pub(crate) fn send_many(fd: i32, index: u32, array: u64, count: u64, flags: i32) -> Answer {
    let mut room = Buffers::new();
    // SAFETY: the array of a vector call; the lane copies guarded.
    let buffers = unsafe { room.sent(array, count) }?;
    send::send(fd, index, buffers, flags)
}

/// Receives into an array of so many buffers.
pub(crate) fn receive_many(
    fd: i32,
    index: u32,
    (array, count): (u64, u64),
    flags: i32,
    began: Option<Began>,
) -> Received {
    let mut room = Buffers::new();
    // SAFETY: the array of a vector call; the lane copies guarded.
    match unsafe { room.filled(array, count) } {
        Some(buffers) => receive::receive(fd, index, buffers, flags, began),
        None => Received::Answer(None),
    }
}

/// sendfile(2) onto a direct connection: the file is read straight into the ring.
pub fn sendfile(call: &mut Call<'_>) -> Verdict {
    let Some(index) = socket_of(call) else { return elsewhere(call) };
    if call.frame.rounds > 0 || socket::at(index).is_native() {
        return native(call, index, false);
    }
    let (fd, file) = (call.int(0), call.int(1));
    if !kernel::is_regular_file(file) {
        demote::leave(fd, index, Native::Call);
        return native(call, index, false);
    }
    // SAFETY: any bytes are a u64.
    let Ok(offset) = (unsafe { memory::read::<u64>(call.word(2)) }) else {
        return call.answer(Some(Err(memory::FAULT)));
    };
    let answer = send::send_file(fd, index, file, offset, call.word(3).min(0x7fff_f000));
    if let (Some(Ok(bytes)), Some(offset)) = (answer, offset) {
        // SAFETY: where it was read from.
        if unsafe { memory::write(call.word(2), offset + bytes as u64) }.is_err() {
            return call.answer(Some(Err(memory::FAULT)));
        }
    }
    finish(call, index, answer, false)
}

/// splice(2) between a pipe and a direct connection
pub fn splice(call: &mut Call<'_>) -> Verdict {
    let (from, to) = (call.int(0), call.int(2));
    let (length, flags) = (call.word(4) as usize, call.word(5) as u32);
    let direct = |fd| match table::kind(fd) {
        DescriptorKind::Socket(index) if !socket::at(index).is_native() => Some(index),
        _ => None,
    };
    let answer = match (direct(from), direct(to)) {
        (Some(index), None) => splice::from_socket(from, index, to, length, flags),
        (None, Some(index)) => splice::to_socket(from, to, index, length, flags),
        _ => None,
    };
    call.answer(answer)
}

/// preadv2 and pwritev2 on a socket: rare enough for the kernel's path.
pub fn positioned(call: &mut Call<'_>) -> Verdict {
    if let Some(index) = socket_of(call) {
        demote::leave(call.int(0), index, Native::Call);
    }
    Verdict::Pass
}
