//! The arms that send bytes through the kernel: a unix socket, and a pipe.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;

use super::pair::{fill, sum_of, Arm, Receiver, Sender};
use crate::memory::check;
use crate::Failure;

/// Elements up to this size go as messages; longer ones do not fit into a socket's buffer.
const MESSAGE_MAX: usize = 64 << 10;
/// What an unprivileged process may ask for (/proc/sys/fs/pipe-max-size).
const PIPE_BYTES: i32 = 1 << 20;

/// A pair of sockets: messages (SOCK_SEQPACKET), or a stream for long elements.
pub fn socket(len: usize) -> Result<Arm, Failure> {
    let kind = if len <= MESSAGE_MAX { libc::SOCK_SEQPACKET } else { libc::SOCK_STREAM };
    let mut ends = [0; 2];
    let kind = kind | libc::SOCK_CLOEXEC;
    // SAFETY: the kernel writes two descriptors into the array.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
    Ok(arm(len, ends))
}

/// A pipe as large as anybody may have it.
pub fn pipe(len: usize) -> Result<Arm, Failure> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors into the array.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    let arm = arm(len, ends);
    // SAFETY: changes the size of a pipe that is ours alone.
    check(unsafe { libc::fcntl(ends[1], libc::F_SETPIPE_SZ, PIPE_BYTES) })?;
    Ok(arm)
}

fn arm(len: usize, ends: [i32; 2]) -> Arm {
    // SAFETY: both were just opened for us.
    let [from, to] = ends.map(|fd| unsafe { File::from_raw_fd(fd) });
    let words = len / 8;
    let sender = Box::new(Writer { to, bytes: vec![0; words] });
    // Memory of its own once it is in its own process.
    let receiver = Box::new(Reader { from, words, bytes: Vec::new() });
    Arm { sender, receiver, window: u32::MAX }
}

struct Writer {
    to: File,
    bytes: Vec<u64>,
}

impl Sender for Writer {
    fn send(&mut self, seed: u64) -> Result<(), Failure> {
        let len = self.bytes.len() * 8;
        let start = self.bytes.as_mut_ptr().cast::<u8>();
        // SAFETY: the words are this value's own, and a slice of bytes over them ends before they
        // are used again.
        let bytes = unsafe {
            fill(start, len, seed);
            std::slice::from_raw_parts(start, len)
        };
        self.to.write_all(bytes)?;
        Ok(())
    }
}

struct Reader {
    from: File,
    words: usize,
    bytes: Vec<u64>,
}

impl Receiver for Reader {
    fn receive(&mut self) -> Result<u64, Failure> {
        self.bytes.resize(self.words, 0);
        let start = self.bytes.as_mut_ptr().cast::<u8>();
        // SAFETY: as many bytes as the words have; none is invalid as a part of a word.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start, self.words * 8) };
        self.from.read_exact(bytes)?;
        Ok(sum_of(&self.bytes))
    }
}
