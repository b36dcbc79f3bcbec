//! Messages: recvmsg, sendmsg and the calls that move several; descriptors that travel in them.

use std::mem::MaybeUninit;

use heliostat_base::guarded::Fault;
use heliostat_base::sys::Sysno;
use heliostat_interpose::Verdict;
use heliostat_stub_posix::net::receive::Received;
use heliostat_stub_posix::net::socket;
use heliostat_stub_posix::thread::Began;
use heliostat_stub_posix::{process, Answer};

use crate::call::Call;
use crate::memory;
use crate::sealed;
use crate::transfer::{
    elsewhere, finish, native, receive_many, receive_with, refused_by_kernel, send_many, socket_of,
};

/// recvmsg(2)
pub fn recvmsg(call: &mut Call<'_>) -> Verdict {
    receive_with(call, |call, index, began| {
        receive_message(call.int(0), index, call.word(1), call.int(2), began)
    })
}

fn receive_message(
    fd: i32,
    index: u32,
    header_at: u64,
    flags: i32,
    began: Option<Began>,
) -> Received {
    // SAFETY: a msghdr is numbers and addresses.
    let Ok(Some(mut header)) = (unsafe { memory::read::<libc::msghdr>(header_at) }) else {
        return refused_by_kernel(index);
    };
    let array = (header.msg_iov as u64, header.msg_iovlen as u64);
    let received = receive_many(fd, index, array, flags, began);
    if let Received::Answer(Some(Ok(_))) = received {
        (header.msg_namelen, header.msg_controllen, header.msg_flags) = (0, 0, 0);
        // SAFETY: where it was read from.
        if unsafe { memory::write(header_at, header) }.is_err() {
            return Received::Answer(Some(Err(memory::FAULT)));
        }
    }
    received
}

/// sendmsg(2); descriptors in its control data are leaving this process, whatever the socket.
pub fn sendmsg(call: &mut Call<'_>) -> Verdict {
    let is_first = call.frame.rounds == 0;
    let passed = if is_first { pass_descriptors(call.word(1)) } else { Ok(()) };
    let Some(index) = socket_of(call) else {
        let verdict = elsewhere(call);
        return unasked(call, verdict);
    };
    if !is_first || socket::at(index).is_native() {
        let verdict = native(call, index, false);
        return unasked(call, verdict);
    }
    if passed.is_err() {
        return call.answer(Some(Err(memory::FAULT)));
    }
    let answer = send_message(call.int(0), index, call.word(1), call.int(2));
    let verdict = finish(call, index, answer, false);
    unasked(call, verdict)
}

/// Behind the fence of a sealed program every sendmsg(2) is a question, for it may name an address.
/// What the kernel is to make goes by a call that cannot, where there is one that does the same.
fn unasked(call: &mut Call<'_>, verdict: Verdict) -> Verdict {
    if verdict == Verdict::Done || !sealed::is_sealed() {
        return verdict;
    }
    match plain(call.word(1), call.int(2)) {
        Some((number, [at, length, flags])) => {
            call.frame.wait = [number as u64, call.word(0), at, length, flags, 0, 0];
            Verdict::Wait
        }
        None => verdict,
    }
}

/// The call that sends the bytes of a message which has neither an address nor control data:
/// sendto(2) of one buffer, writev(2) of several without flags; its number, and its arguments but the first.
fn plain(header_at: u64, flags: i32) -> Option<(Sysno, [u64; 3])> {
    /// Source: UIO_MAXIOV, linux/uio.h.
    const BUFFERS_MAX: usize = 1024;
    // SAFETY: a msghdr is numbers and addresses.
    let header = unsafe { memory::read::<libc::msghdr>(header_at) }.ok().flatten()?;
    let names = !header.msg_name.is_null() && header.msg_namelen > 0;
    if names || (!header.msg_control.is_null() && header.msg_controllen > 0) {
        return None;
    }
    match header.msg_iovlen {
        1 => {
            // SAFETY: an iovec is a number and an address.
            let buffer = unsafe { memory::read::<libc::iovec>(header.msg_iov as u64) };
            let libc::iovec { iov_base, iov_len } = buffer.ok().flatten()?;
            Some((Sysno::sendto, [iov_base as u64, iov_len as u64, flags as u32 as u64]))
        }
        2..=BUFFERS_MAX if flags == 0 => {
            Some((Sysno::writev, [header.msg_iov as u64, header.msg_iovlen as u64, 0]))
        }
        _ => None,
    }
}

fn send_message(fd: i32, index: u32, header_at: u64, flags: i32) -> Answer {
    // SAFETY: a msghdr is numbers and addresses.
    match unsafe { memory::read::<libc::msghdr>(header_at) } {
        Ok(Some(header)) => {
            send_many(fd, index, header.msg_iov as u64, header.msg_iovlen as u64, flags)
        }
        Ok(None) | Err(Fault) => None,
    }
}

/// The kernel takes no more control data than this (source: net.core.optmem_max, whose default is
/// 128 KiB).
const CONTROL_BYTES_MAX: usize = 1 << 20;

/// Direct connections among SCM_RIGHTS descriptors go native before they travel.
///
/// # Errors
/// A fault: the header or its control data is not there.
fn pass_descriptors(header_at: u64) -> Result<(), Fault> {
    // SAFETY: a msghdr is numbers and addresses.
    let header = unsafe { memory::read::<libc::msghdr>(header_at) }?.ok_or(Fault)?;
    if header.msg_control.is_null() || header.msg_controllen < 16 {
        return Ok(());
    }
    let mut room = vec![MaybeUninit::<u8>::uninit(); header.msg_controllen.min(CONTROL_BYTES_MAX)];
    // SAFETY: bytes.
    let control = unsafe { memory::read_many(header.msg_control as u64, &mut room) }?;
    let word = |at: usize| {
        control.get(at..at + 4).map_or(0, |b| i32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
    };
    let mut at = 0;
    while at + 16 <= control.len() {
        let length = word(at) as u32 as usize;
        if length < 16 || at + length > control.len() {
            break;
        }
        if word(at + 8) == libc::SOL_SOCKET && word(at + 12) == libc::SCM_RIGHTS {
            (at + 16..at + length).step_by(4).for_each(|fd_at| process::passing(word(fd_at)));
        }
        at += length.next_multiple_of(8);
    }
    Ok(())
}

/// recvmmsg(2): message by message, as the kernel does it; only the first one waits.
pub fn recvmmsg(call: &mut Call<'_>) -> Verdict {
    let (base, count, flags) = (call.word(1), call.word(2).min(1024), call.int(3));
    receive_with(call, |call, index, began| {
        let fd = call.int(0);
        let mut sleeps = false;
        let answer = each_message(base, count, |header_at, is_first| {
            let again = if is_first { 0 } else { libc::MSG_DONTWAIT };
            match receive_message(fd, index, header_at, flags | again, began) {
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
    let answer = socket_of(call).and_then(|index| {
        let flags = call.int(3);
        each_message(base, count, |header_at, _| match pass_descriptors(header_at) {
            Err(Fault) => Some(Err(memory::FAULT)),
            Ok(()) => send_message(fd, index, header_at, flags),
        })
    });
    if answer.is_none() {
        // The kernel sends them all; what is not there it refuses.
        (0..count).for_each(|place| _ = pass_descriptors(base + place * MMSGHDR_BYTES));
    }
    call.answer(answer)
}

const MMSGHDR_BYTES: u64 = size_of::<libc::mmsghdr>() as u64;

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
                let length_at = header_at + size_of::<libc::msghdr>() as u64;
                // SAFETY: msg_len of the program's mmsghdr.
                if unsafe { memory::write_many(length_at, &[bytes as u32]) }.is_err() {
                    return Some(if place > 0 { Ok(place as usize) } else { Err(memory::FAULT) });
                }
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
