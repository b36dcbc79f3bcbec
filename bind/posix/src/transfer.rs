//! Moving bytes: the read, write, recv and send families.

use std::io::{IoSlice, IoSliceMut};

use heliostat_abi::code::Native;
use heliostat_base::call as kernel;
use heliostat_base::sys::{check, Errno, Sysno};
use heliostat_interpose::Verdict;
use heliostat_stub::net::receive::{self, Received};
use heliostat_stub::net::{demote, option, send, socket, splice};
use heliostat_stub::table::{self, Kind};
use heliostat_stub::{process, Answer};

use crate::dispatch::Call;
use crate::memory;

/// Bytes discarded by one call.
const DISCARD_MAX: usize = 1 << 16;

/// The connection behind the call's first descriptor.
#[inline(always)]
fn socket_of(call: &Call<'_>) -> Option<u32> {
    match table::kind(call.int(0)) {
        Kind::Socket(index) => Some(index),
        _ => None,
    }
}

/// Passes a native connection's call to the kernel and counts what it moved.
fn native(call: &mut Call<'_>, index: u32, is_receive: bool) -> Verdict {
    if stage(call) != Stage::AfterNative {
        return call.wait_in_kernel();
    }
    let result = call.frame.waited;
    let moved = result.max(0) as u64;
    match is_receive {
        true => option::count_native(index, moved, 0),
        false => option::count_native(index, 0, moved),
    }
    call.frame.rax = result as u64;
    Verdict::Done
}

fn finish(call: &mut Call<'_>, index: u32, answer: Answer, is_receive: bool) -> Verdict {
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

/// Runs a receiving call through its stages; `receive` looks into the ring.
#[inline]
fn receive_with(call: &mut Call<'_>, receive: impl FnOnce(&Call<'_>, u32) -> Received) -> Verdict {
    let Some(index) = socket_of(call) else { return Verdict::Pass };
    match stage(call) {
        Stage::First => {}
        Stage::AfterNative => return native(call, index, true),
        Stage::AfterSleep => {
            let answer = check(call.frame.waited as isize);
            if let Some(answer) = receive::woken(call.int(0), index, answer) {
                return call.answer(Some(answer));
            }
        }
    }
    match receive(call, index) {
        Received::Sleep => {
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
    receive_with(call, |call, index| {
        if call.word(1) == 0 && call.word(2) != 0 {
            return receive_nowhere(call, index, flags);
        }
        // SAFETY: address and length of a read-like call.
        let buffer = unsafe { memory::bytes_mut(call.word(1), call.word(2)) };
        receive::receive(call.int(0), index, &mut [IoSliceMut::new(buffer)], flags)
    })
}

/// A null buffer is good for discarding only (source: tcp(7), MSG_TRUNC).
#[cold]
fn receive_nowhere(call: &Call<'_>, index: u32, flags: i32) -> Received {
    if flags & libc::MSG_TRUNC == 0 && !socket::at(index).is_native() {
        return Received::Answer(Some(Err(Errno(libc::EFAULT))));
    }
    let mut discarded = vec![0; (call.word(2) as usize).min(DISCARD_MAX)];
    receive::receive(call.int(0), index, &mut [IoSliceMut::new(&mut discarded)], flags)
}

#[inline]
fn send_one(call: &mut Call<'_>, flags: i32) -> Verdict {
    let Some(index) = socket_of(call) else { return Verdict::Pass };
    if call.frame.rounds > 0 {
        return native(call, index, false);
    }
    if call.word(1) == 0 && call.word(2) != 0 {
        return call.answer(Some(Err(Errno(libc::EFAULT))));
    }
    // SAFETY: address and length of a write-like call.
    let buffer = unsafe { memory::bytes(call.word(1), call.word(2)) };
    let answer = send::send(call.int(0), index, &[IoSlice::new(buffer)], flags);
    finish(call, index, answer, false)
}

/// read(2)
pub fn read(call: &mut Call<'_>) -> Verdict {
    receive_one(call, 0)
}

/// write(2)
pub fn write(call: &mut Call<'_>) -> Verdict {
    send_one(call, 0)
}

/// recvfrom(2), and so recv(3)
pub fn recvfrom(call: &mut Call<'_>) -> Verdict {
    let verdict = receive_one(call, call.int(3));
    let is_direct = verdict == Verdict::Done && call.frame.rounds == 0;
    if is_direct && (call.frame.rax as i64) >= 0 && call.word(4) != 0 {
        // SAFETY: a connected stream has no source address; the length says so.
        unsafe { memory::write(call.word(5), 0u32) };
    }
    verdict
}

/// sendto(2), and so send(3)
pub fn sendto(call: &mut Call<'_>) -> Verdict {
    send_one(call, call.int(3))
}

/// readv(2)
pub fn readv(call: &mut Call<'_>) -> Verdict {
    receive_with(call, |call, index| {
        receive_many(call.int(0), index, call.word(1), call.word(2), 0)
    })
}

/// writev(2)
pub fn writev(call: &mut Call<'_>) -> Verdict {
    let Some(index) = socket_of(call) else { return Verdict::Pass };
    if call.frame.rounds > 0 {
        return native(call, index, false);
    }
    // SAFETY: the array of a vector call.
    let Some(buffers) = (unsafe { memory::buffers(call.word(1), call.word(2)) }) else {
        return Verdict::Pass;
    };
    let answer = send::send(call.int(0), index, buffers, 0);
    finish(call, index, answer, false)
}

fn receive_many(fd: i32, index: u32, array: u64, count: u64, flags: i32) -> Received {
    // SAFETY: the array of a vector call.
    let Some(given) = (unsafe { memory::buffers_mut(array, count) }) else {
        return Received::Answer(None);
    };
    // A copy: waiting for all bytes advances the slices, and the array is the program's.
    let mut buffers: Vec<IoSliceMut<'_>> =
        given.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
    receive::receive(fd, index, &mut buffers, flags)
}

/// recvmsg(2)
pub fn recvmsg(call: &mut Call<'_>) -> Verdict {
    receive_with(call, |call, index| receive_message(call.int(0), index, call.word(1), call.int(2)))
}

fn receive_message(fd: i32, index: u32, header_at: u64, flags: i32) -> Received {
    // SAFETY: a msghdr of the program.
    let Some(mut header) = (unsafe { memory::read::<libc::msghdr>(header_at) }) else {
        return Received::Answer(None);
    };
    let (array, count) = (header.msg_iov as u64, header.msg_iovlen as u64);
    let received = match count {
        0 => receive::receive(fd, index, &mut [], flags),
        _ => receive_many(fd, index, array, count, flags),
    };
    if let Received::Answer(Some(Ok(_))) = received {
        (header.msg_namelen, header.msg_controllen, header.msg_flags) = (0, 0, 0);
        // SAFETY: where it was read from.
        unsafe { memory::write(header_at, header) };
    }
    received
}

/// sendmsg(2); descriptors in its control data are leaving this process, whatever the socket.
pub fn sendmsg(call: &mut Call<'_>) -> Verdict {
    if call.frame.rounds == 0 {
        pass_descriptors(call.word(1));
    }
    let Some(index) = socket_of(call) else { return Verdict::Pass };
    if call.frame.rounds > 0 {
        return native(call, index, false);
    }
    let answer = send_message(call.int(0), index, call.word(1), call.int(2));
    finish(call, index, answer, false)
}

fn send_message(fd: i32, index: u32, header_at: u64, flags: i32) -> Answer {
    // SAFETY: a msghdr of the program.
    let header: libc::msghdr = unsafe { memory::read(header_at) }?;
    if header.msg_iovlen == 0 {
        return send::send(fd, index, &[], flags);
    }
    // SAFETY: its array of buffers.
    let buffers = unsafe { memory::buffers(header.msg_iov as u64, header.msg_iovlen as u64) }?;
    send::send(fd, index, buffers, flags)
}

/// Direct connections among SCM_RIGHTS descriptors go native before they travel.
fn pass_descriptors(header_at: u64) {
    // SAFETY: a msghdr of the program.
    let Some(header) = (unsafe { memory::read::<libc::msghdr>(header_at) }) else { return };
    if header.msg_control.is_null() || header.msg_controllen < 16 {
        return;
    }
    // SAFETY: the program's control data, of the length it states.
    let control = unsafe { memory::bytes(header.msg_control as u64, header.msg_controllen as u64) };
    let word = |at: usize| {
        control.get(at..at + 4).map_or(0, |b| i32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
    };
    let mut at = 0;
    while at + 16 <= control.len() {
        let length = word(at) as u32 as usize;
        if length < 16 || at + length > control.len() {
            return;
        }
        if word(at + 8) == libc::SOL_SOCKET && word(at + 12) == libc::SCM_RIGHTS {
            (at + 16..at + length).step_by(4).for_each(|fd_at| process::passing(word(fd_at)));
        }
        at += length.next_multiple_of(8);
    }
}

/// recvmmsg(2): message by message, as the kernel does it; only the first one waits.
pub fn recvmmsg(call: &mut Call<'_>) -> Verdict {
    let (base, count, flags) = (call.word(1), call.word(2).min(1024), call.int(3));
    receive_with(call, |call, index| {
        let fd = call.int(0);
        let mut sleeps = false;
        let answer = each_message(base, count, |header_at, is_first| {
            let again = if is_first { 0 } else { libc::MSG_DONTWAIT };
            match receive_message(fd, index, header_at, flags | again) {
                Received::Answer(answer) => answer,
                Received::Sleep => {
                    sleeps = true;
                    None
                }
            }
        });
        if sleeps {
            Received::Sleep
        } else {
            Received::Answer(answer)
        }
    })
}

/// sendmmsg(2)
pub fn sendmmsg(call: &mut Call<'_>) -> Verdict {
    let (fd, base, count) = (call.int(0), call.word(1), call.word(2).min(1024));
    (0..count).for_each(|place| pass_descriptors(base + place * MMSGHDR_BYTES));
    let Some(index) = socket_of(call) else { return Verdict::Pass };
    let flags = call.int(3);
    let answer =
        each_message(base, count, |header_at, _| send_message(fd, index, header_at, flags));
    call.answer(answer)
}

const MMSGHDR_BYTES: u64 = std::mem::size_of::<libc::mmsghdr>() as u64;

fn each_message(base: u64, count: u64, mut one: impl FnMut(u64, bool) -> Answer) -> Answer {
    for place in 0..count {
        let header_at = base + place * MMSGHDR_BYTES;
        let answer = match one(header_at, place == 0) {
            // Went native in between: what was moved is not moved again by the kernel.
            None if place > 0 => return Some(Ok(place as usize)),
            answer => answer?,
        };
        match answer {
            Ok(bytes) => {
                let length_at = header_at + std::mem::size_of::<libc::msghdr>() as u64;
                // SAFETY: msg_len of the program's mmsghdr.
                unsafe { memory::write(length_at, bytes as u32) };
                if bytes == 0 {
                    return Some(Ok(place as usize));
                }
            }
            Err(errno) if place == 0 => return Some(Err(errno)),
            Err(_) => return Some(Ok(place as usize)),
        }
    }
    Some(Ok(count as usize))
}

/// sendfile(2) onto a direct connection: the file is read straight into the ring.
pub fn sendfile(call: &mut Call<'_>) -> Verdict {
    let Some(index) = socket_of(call) else { return Verdict::Pass };
    if call.frame.rounds > 0 || socket::at(index).is_native() {
        return native(call, index, false);
    }
    let (fd, file) = (call.int(0), call.int(1));
    if !kernel::is_regular_file(file) {
        demote::leave(fd, index, Native::Call);
        return native(call, index, false);
    }
    // SAFETY: null or the program's offset.
    let offset: Option<u64> = unsafe { memory::read(call.word(2)) };
    let answer = send::send_file(fd, index, file, offset, call.word(3).min(0x7fff_f000));
    if let (Some(Ok(bytes)), Some(offset)) = (answer, offset) {
        // SAFETY: where it was read from.
        unsafe { memory::write(call.word(2), offset + bytes as u64) };
    }
    finish(call, index, answer, false)
}

/// splice(2) between a pipe and a direct connection
pub fn splice(call: &mut Call<'_>) -> Verdict {
    let (from, to) = (call.int(0), call.int(2));
    let (length, flags) = (call.word(4) as usize, call.word(5) as u32);
    let direct = |fd| match table::kind(fd) {
        Kind::Socket(index) if !socket::at(index).is_native() => Some(index),
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
