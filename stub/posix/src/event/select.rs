//! select(2) in terms of poll: three bitmaps in, three bitmaps out.

use libc::pollfd;

use super::poll;
use crate::table;
use crate::{flush, Answer};

const READ: i16 = libc::POLLIN | libc::POLLRDNORM | libc::POLLRDHUP;
const WRITE: i16 = libc::POLLOUT | libc::POLLWRNORM;
const EXCEPT: i16 = libc::POLLPRI;
/// Bits that make a descriptor readable and writable in select's sense (source: the kernel's
/// fs/select.c).
const READ_SET: i16 = libc::POLLIN | libc::POLLRDNORM | libc::POLLHUP | libc::POLLERR;
const WRITE_SET: i16 = libc::POLLOUT | libc::POLLWRNORM | libc::POLLERR;

/// Bitmaps of select(2), each as long as `nfds` needs, in words of 64 descriptors.
pub struct Bitmaps<'a> {
    /// Wanted readable; afterwards those that are.
    pub read: Option<&'a mut [u64]>,
    /// Wanted writable; afterwards those that are.
    pub write: Option<&'a mut [u64]>,
    /// Wanted exceptional; afterwards those that are.
    pub except: Option<&'a mut [u64]>,
}

fn has(map: &Option<&mut [u64]>, fd: usize) -> bool {
    map.as_ref().and_then(|words| words.get(fd / 64)).is_some_and(|w| w >> (fd % 64) & 1 != 0)
}

/// select(2) and pselect(2); `None` when no direct stream is among the descriptors.
pub fn select(
    nfds: usize,
    maps: &mut Bitmaps<'_>,
    timeout_ns: Option<u64>,
    mask: Option<u64>,
) -> Answer {
    let mut fds = Vec::new();
    for fd in 0..nfds {
        let mut events = 0;
        for (map, bits) in [(&maps.read, READ), (&maps.write, WRITE), (&maps.except, EXCEPT)] {
            if has(map, fd) {
                events |= bits;
            }
        }
        if events != 0 {
            fds.push(pollfd { fd: fd as i32, events, revents: 0 });
        }
    }
    if fds.iter().all(|entry| table::is_unknown(entry.fd)) && !flush::is_busy() {
        return None;
    }
    let answer = poll::poll(&mut fds, timeout_ns, mask)?;
    if answer.is_err() {
        return Some(answer);
    }
    if fds.iter().any(|entry| entry.revents & libc::POLLNVAL != 0) {
        return crate::fail(libc::EBADF);
    }
    Some(Ok(write_back(&fds, maps)))
}

fn write_back(fds: &[pollfd], maps: &mut Bitmaps<'_>) -> usize {
    let mut count = 0;
    let sides = [
        (&mut maps.read, READ, READ_SET),
        (&mut maps.write, WRITE, WRITE_SET),
        (&mut maps.except, EXCEPT, EXCEPT),
    ];
    for (map, asked, set) in sides {
        let Some(words) = map else { continue };
        words.fill(0);
        for entry in fds.iter().filter(|e| e.events & asked & !libc::POLLRDHUP != 0) {
            if entry.revents & set != 0 {
                let fd = entry.fd as usize;
                words[fd / 64] |= 1 << (fd % 64);
                count += 1;
            }
        }
    }
    count
}
