//! A small io_uring that does one thing: it flushes files while the caller goes on.
//!
//! Made by raw system calls, so that it may be used beneath libc. The only entries ever written are
//! IORING_OP_FSYNC, which names no memory: that is why a ring may be driven from safe code. One
//! thread at a time uses it (the caller's lock); the other side of its words is the kernel.
//!
//! Orders: `R1` an entry before the submission's tail: we publish, the kernel acquires. `R2` a
//! completion before the completion's tail: the kernel publishes, we acquire. `R3` a completion was
//! read before its head moves on.

use std::os::fd::AsRawFd;

use crate::fd::OwnedFd;
use crate::mapping::SharedMapping;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sys::{check, raw, Errno, Sysno};

/// Length of `struct io_uring_params` (source: linux/io_uring.h, like all numbers here).
const PARAMS_BYTES: usize = 120;
const AT_SQ_ENTRIES: usize = 0;
const AT_CQ_ENTRIES: usize = 4;
const AT_FEATURES: usize = 20;
const AT_SQ: usize = 40;
const AT_CQ: usize = 80;
const FEATURE_SINGLE_MMAP: u32 = 1;
const ENTRIES_OFFSET: usize = 0x1000_0000;
const ENTRY_BYTES: usize = 64;
const COMPLETION_BYTES: usize = 16;
const OP_FSYNC: u8 = 3;
const FSYNC_DATASYNC: u32 = 1;
const ENTER_GETEVENTS: usize = 1;
/// The ring's descriptor lies beyond those that programs count on.
const FD_LOWEST: usize = 900;

/// What one flush came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flushed {
    /// As given to `begin`.
    pub tag: u64,
    /// The file system's answer.
    pub answer: Result<(), Errno>,
}

/// Places of the words that both sides use.
#[derive(Debug)]
struct Places {
    sq_tail: usize,
    sq_array: usize,
    sq_mask: u32,
    cq_head: usize,
    cq_tail: usize,
    cq_entries: usize,
    cq_mask: u32,
}

/// The ring.
pub struct FlushRing {
    fd: OwnedFd,
    words: SharedMapping,
    entries: SharedMapping,
    at: Places,
}

fn number(params: &[u8; PARAMS_BYTES], at: usize) -> u32 {
    u32::from_ne_bytes([params[at], params[at + 1], params[at + 2], params[at + 3]])
}

impl FlushRing {
    /// A ring for so many flushes at a time.
    ///
    /// # Errors
    /// The kernel's: it has no io_uring, or this process may not use it.
    pub fn open(entries: u32) -> Result<Self, Errno> {
        let mut params = [0u8; PARAMS_BYTES];
        let args = [entries as usize, params.as_mut_ptr() as usize, 0, 0, 0, 0];
        // SAFETY: io_uring_setup(2) reads and writes one io_uring_params, which this array is.
        let fd = check(unsafe { raw(Sysno::io_uring_setup as usize, args) })? as i32;
        // SAFETY: the kernel has just opened it for us.
        let fd = unsafe { OwnedFd::adopt(fd) };
        let fd = moved_up(fd);
        if number(&params, AT_FEATURES) & FEATURE_SINGLE_MMAP == 0 {
            return Err(Errno(libc::ENOSYS));
        }
        let (submissions, completions) =
            (number(&params, AT_SQ_ENTRIES), number(&params, AT_CQ_ENTRIES));
        let sq = |at| number(&params, AT_SQ + at) as usize;
        let cq = |at| number(&params, AT_CQ + at) as usize;
        let at = Places {
            sq_tail: sq(4),
            sq_array: sq(24),
            sq_mask: submissions - 1,
            cq_head: cq(0),
            cq_tail: cq(4),
            cq_entries: cq(20),
            cq_mask: completions - 1,
        };
        let bytes = (at.sq_array + submissions as usize * 4)
            .max(at.cq_entries + completions as usize * COMPLETION_BYTES);
        let map = |offset, bytes| {
            SharedMapping::of_ring(fd.as_raw_fd(), offset, bytes).map_err(|_| Errno(libc::ENOMEM))
        };
        let (words, entries) =
            (map(0, bytes)?, map(ENTRIES_OFFSET, submissions as usize * ENTRY_BYTES)?);
        Ok(Self { fd, words, entries, at })
    }

    /// To be polled: readable when a flush has ended that nobody has taken.
    pub fn fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Begins to flush `fd`; without its times and the like if `is_data`. The kernel keeps the file.
    ///
    /// # Errors
    /// The kernel's: nothing was begun.
    pub fn begin(&self, fd: i32, is_data: bool, tag: u64) -> Result<(), Errno> {
        let tail_word = self.words.atomic_u32(self.at.sq_tail);
        let tail = tail_word.load(Relaxed);
        let place = tail & self.at.sq_mask;
        let mut entry = [0u8; ENTRY_BYTES];
        entry[0] = OP_FSYNC;
        entry[4..8].copy_from_slice(&fd.to_ne_bytes());
        let flags = if is_data { FSYNC_DATASYNC } else { 0 };
        entry[28..32].copy_from_slice(&flags.to_ne_bytes());
        entry[32..40].copy_from_slice(&tag.to_ne_bytes());
        let fits = Errno(libc::EINVAL);
        self.entries.copy_in(place as usize * ENTRY_BYTES, &entry).map_err(|_| fits)?;
        self.words.atomic_u32(self.at.sq_array + place as usize * 4).store(place, Relaxed);
        tail_word.store(tail.wrapping_add(1), Release); // R1
        match self.enter(1, 0) {
            Ok(1) => Ok(()),
            answer => {
                // Not taken: the place is free again.
                tail_word.store(tail, Release);
                Err(answer.err().unwrap_or(Errno(libc::EAGAIN)))
            }
        }
    }

    /// A flush that has ended, if there is one.
    pub fn take(&self) -> Option<Flushed> {
        let head_word = self.words.atomic_u32(self.at.cq_head);
        let head = head_word.load(Relaxed);
        if head == self.words.atomic_u32(self.at.cq_tail).load(Acquire) {
            return None; // R2
        }
        let mut bytes = [0u8; COMPLETION_BYTES];
        let place = (head & self.at.cq_mask) as usize * COMPLETION_BYTES;
        self.words.copy_out(self.at.cq_entries + place, &mut bytes).ok()?;
        head_word.store(head.wrapping_add(1), Release); // R3
        let [a, b, c, d, e, f, g, h, result @ .., _, _, _, _] = bytes;
        let answer = check(i32::from_ne_bytes(result) as isize).map(|_| ());
        Some(Flushed { tag: u64::from_ne_bytes([a, b, c, d, e, f, g, h]), answer })
    }

    /// Sleeps until one has ended, or a signal comes.
    pub fn wait(&self) {
        let _ = self.enter(0, 1);
    }

    fn enter(&self, submit: usize, wait_for: usize) -> Result<usize, Errno> {
        let flags = if wait_for > 0 { ENTER_GETEVENTS } else { 0 };
        let args = [self.fd() as usize, submit, wait_for, flags, 0, 0];
        // SAFETY: no mask is passed, and entries are fsync only (`begin`), which touch no memory.
        check(unsafe { raw(Sysno::io_uring_enter as usize, args) })
    }
}

fn moved_up(fd: OwnedFd) -> OwnedFd {
    match crate::call::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, FD_LOWEST) {
        // SAFETY: the kernel has just made it; the lower one is closed by its owner's drop.
        Ok(higher) => unsafe { OwnedFd::adopt(higher as i32) },
        Err(_) => fd,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn files_are_flushed_and_what_cannot_be_says_so() {
        let Ok(ring) = FlushRing::open(4) else { return };
        let path = std::env::temp_dir().join(format!("heliostat-flush-{}", std::process::id()));
        let file = std::fs::File::create(&path).expect("a folder for files");
        let (socket, other) = crate::call::local_pair().expect("sockets");
        for round in 0..10u64 {
            ring.begin(file.as_raw_fd(), round % 2 == 0, 2 * round).expect("begun");
            ring.begin(socket, true, 2 * round + 1).expect("begun");
            let mut ended = Vec::new();
            while ended.len() < 2 {
                match ring.take() {
                    Some(flushed) => ended.push((flushed.tag, flushed.answer)),
                    None => ring.wait(),
                }
            }
            ended.sort_by_key(|(tag, _)| *tag);
            let expected = [(2 * round, Ok(())), (2 * round + 1, Err(Errno(libc::EINVAL)))];
            assert_eq!(ended, expected);
        }
        assert_eq!(ring.take(), None);
        let _ = (crate::call::close(socket), crate::call::close(other));
        let _ = std::fs::remove_file(&path);
    }
}
