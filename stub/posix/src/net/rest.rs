//! The rest of a call whose connection went native in its middle: the kernel moves it, as far as it goes.

use std::io::{IoSlice, IoSliceMut};

use heliostat_base::call;

/// What a read that waits for all its bytes still wants.
#[cold]
pub fn receive(fd: i32, buffers: &mut [IoSliceMut<'_>], flags: i32) -> usize {
    let mut total = 0;
    for buffer in buffers.iter_mut().filter(|buffer| !buffer.is_empty()) {
        let count = call::recv(fd, buffer, flags).unwrap_or(0);
        total += count;
        if count < buffer.len() {
            break;
        }
    }
    total
}

/// What a send has left. The kernel waits for room if the program's call would have.
#[cold]
pub fn send(fd: i32, mut rest: &mut [IoSlice<'_>], flags: i32, is_nonblocking: bool) -> usize {
    let mut total = 0;
    while let Some(part) = rest.first() {
        let Ok(count) = call::send(fd, part, flags | libc::MSG_NOSIGNAL) else { break };
        total += count;
        IoSlice::advance_slices(&mut rest, count);
        if is_nonblocking {
            break;
        }
    }
    total
}
