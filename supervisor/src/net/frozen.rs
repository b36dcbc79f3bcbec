//! Calls that the kernel may make after all: nobody but the waiting thread can change their meaning.
//!
//! A message with descriptors, or on a socket that is not kept, cannot be sent by the supervisor
//! where it cannot copy descriptors. It is judged, and the kernel reads it anew. That is safe only if
//! nobody can change anything between: the thread is its process's only one, no other process shares
//! its memory or its table of descriptors, and the memory is its own, which no file or shared memory
//! lies behind. Else the message is refused.

use std::io::Read;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use heliostat_backend_seal::{self as seal, Reply};
use heliostat_base::sys::Errno;
use rustix::fs::{Mode, OFlags};

use super::asked;
use super::message::{self, word_at, HEADER_BYTES, MESSAGES_MAX, MESSAGE_BYTES};
use crate::acting::as_supervisor;
use crate::births;
use crate::call::{Answer, Call};
use crate::errno::errno;

/// How often it is looked again whether a process has memory of its own, and how long each time.
const LOOKS: usize = 50;
const PAUSE: Duration = Duration::from_millis(2);
/// Bytes of a list of mappings that are read; what lies behind counts as not private.
const MAPS_MAX: u64 = 1 << 22;

/// sendmsg(2) made by the kernel. EPERM where somebody could change it.
pub fn message(call: &Call<'_>) -> Answer {
    judged(call, call.word(1), 1, call.int(2))
}

/// sendmmsg(2) made by the kernel.
pub fn messages(call: &Call<'_>) -> Answer {
    judged(call, call.word(1), (call.word(2) as u32).min(MESSAGES_MAX), call.int(3))
}

fn judged(call: &Call<'_>, at: u64, count: u32, flags: i32) -> Answer {
    if !is_alone(call) {
        call.note_call(
            "descriptors in messages, and messages on accepted sockets, of programs with threads: \
             pidfd_getfd is refused here",
        );
        return Err(Errno(libc::EPERM));
    }
    if flags & libc::MSG_FASTOPEN != 0 {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    let maps = maps_of(call).map_err(errno)?;
    for place in 0..count {
        one(call, &maps, at.wrapping_add(u64::from(place) * MESSAGE_BYTES))?;
    }
    call.check()?;
    Ok(Reply::Continue)
}

/// The text of proc_pid_maps(5), which comes in pieces.
fn maps_of(call: &Call<'_>) -> rustix::io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let name = format!("{}/maps", call.thread());
    let proc = call.supervisor.roots.proc();
    let file = as_supervisor(|| rustix::fs::openat(proc, name, flags, Mode::empty()))?;
    let mut text = Vec::new();
    std::fs::File::from(file)
        .take(MAPS_MAX)
        .read_to_end(&mut text)
        .or(Err(rustix::io::Errno::IO))?;
    Ok(text)
}

/// Judges one message where it lies: it names no address, and brings descriptors at most.
fn one(call: &Call<'_>, maps: &[u8], at: u64) -> Result<(), Errno> {
    let header = own_bytes(call, maps, at, HEADER_BYTES)?;
    let word = |place: usize| word_at(&header, place * 8);
    if word(0) != 0 {
        return Err(Errno(libc::EISCONN));
    }
    asked::note_at(call, word(2), word(3));
    if word(4) == 0 || word(5) == 0 {
        return Ok(());
    }
    if word(5) > message::CONTROL_BYTES_MAX {
        return Err(Errno(libc::ENOBUFS));
    }
    let control = own_bytes(call, maps, word(4), word(5) as usize)?;
    for part in message::parts(&control)? {
        message::allowed(call, &part)?;
    }
    Ok(())
}

/// Bytes in private memory, written back as they are: a page of a file's becomes the process's own
/// by that, and whoever writes to the file changes it no more.
fn own_bytes(call: &Call<'_>, maps: &[u8], at: u64, length: usize) -> Result<Vec<u8>, Errno> {
    let end = at.checked_add(length as u64).ok_or(Errno(libc::EFAULT))?;
    if !is_private(maps, at, end) {
        return Err(Errno(libc::EPERM));
    }
    let mut bytes = vec![0; length];
    seal::read_memory(call.thread(), at, &mut bytes)?;
    seal::write_memory(call.thread(), at, &bytes)?;
    Ok(bytes)
}

/// Whether all of `at..end` lies in private, writable mappings, by the text of proc_pid_maps(5).
fn is_private(maps: &[u8], at: u64, end: u64) -> bool {
    let mut reached = at;
    for line in maps.split(|byte| *byte == b'\n') {
        let Some((from, to, rights)) = mapping(line) else { continue };
        if from <= reached && reached < to {
            if rights.get(1) != Some(&b'w') || rights.get(3) != Some(&b'p') {
                return false;
            }
            reached = to;
        }
        if reached >= end {
            return true;
        }
    }
    false
}

/// `7ffd4e5d0000-7ffd4e5f1000 rw-p ...`: begin, end and rights.
fn mapping(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let mut words = line.split(|byte| *byte == b' ');
    let (range, rights) = (words.next()?, words.next()?);
    let (from, to) = std::str::from_utf8(range).ok()?.split_once('-')?;
    Some((u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?, rights))
}

/// Whether nobody shares anything with the thread that could change its call. While another child of
/// its parent has the parent's memory, it may be the one that has.
pub fn is_alone(call: &Call<'_>) -> bool {
    let supervisor = call.supervisor;
    if supervisor.shares.load(Relaxed) || !supervisor.is_alone(call.thread()) {
        return false;
    }
    (0..LOOKS).any(|look| {
        if look > 0 {
            std::thread::sleep(PAUSE);
        }
        !births::is_lent(supervisor.roots.proc(), call.thread())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_private_only_where_every_page_is() {
        let maps = b"1000-3000 rw-p 00000000 00:00 0\n3000-4000 rw-p 00000000 08:01 7 /a/file\n\
                     4000-5000 rw-s 00000000 00:01 9 /memfd:x\n6000-7000 r--p 00000000 08:01 7 /b\n\
                     9000-a000 rw-p 00000000 00:00 0 [stack]\n";
        assert!(is_private(maps, 0x1000, 0x1001) && is_private(maps, 0x2ff8, 0x4000));
        assert!(is_private(maps, 0x9ff0, 0xa000));
        for (at, end) in [(0xfff, 0x1001), (0x3ff8, 0x4001), (0x4000, 0x4008), (0x6000, 0x6001)] {
            assert!(!is_private(maps, at, end), "{at:x}");
        }
        assert!(!is_private(maps, 0x9ff0, 0xa001) && !is_private(b"rubbish\n", 0, 1));
    }
}
