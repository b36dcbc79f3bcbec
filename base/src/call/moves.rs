//! Moving bytes with more words than a buffer: several buffers with flags, a place in a file.

use std::io::{IoSlice, IoSliceMut};

use super::Answer;
use crate::sys::{check, raw, Sysno};

/// recvmsg(2) into `buffers`, without address and control data.
pub fn recv_many(fd: i32, buffers: &mut [IoSliceMut<'_>], flags: i32) -> Answer {
    let mut message = message(buffers.as_mut_ptr().cast(), buffers.len());
    call!(recvmsg, fd, &raw mut message, flags)
}

/// sendmsg(2) of `buffers`, likewise.
pub fn send_many(fd: i32, buffers: &[IoSlice<'_>], flags: i32) -> Answer {
    let message = message(buffers.as_ptr().cast_mut().cast(), buffers.len());
    call!(sendmsg, fd, &raw const message, flags)
}

/// recvmsg(2) into memory of any kind, without address and control data.
///
/// # Safety
/// Every piece is memory that may be written, and that no reference covers.
pub unsafe fn recv_pieces(fd: i32, pieces: &mut [libc::iovec], flags: i32) -> Answer {
    let mut message = message(pieces.as_mut_ptr(), pieces.len());
    call!(recvmsg, fd, &raw mut message, flags)
}

/// sendmsg(2) from memory of any kind, likewise.
///
/// # Safety
/// Every piece is memory that may be read.
pub unsafe fn send_pieces(fd: i32, pieces: &[libc::iovec], flags: i32) -> Answer {
    let message = message(pieces.as_ptr().cast_mut(), pieces.len());
    call!(sendmsg, fd, &raw const message, flags)
}

/// A header for as many buffers as the kernel takes at once; it only reads the array.
fn message(buffers: *mut libc::iovec, count: usize) -> libc::msghdr {
    // SAFETY: a msghdr is numbers and addresses, for which zero is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (buffers, count.min(1024));
    message
}

/// lseek(2).
pub fn lseek(fd: i32, offset: i64, whence: i32) -> Answer {
    call!(lseek, fd, offset, whence)
}

/// pread(2).
pub fn pread(fd: i32, buffer: &mut [u8], offset: u64) -> Answer {
    call!(pread64, fd, buffer.as_mut_ptr(), buffer.len(), offset)
}
