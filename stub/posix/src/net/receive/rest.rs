//! The rest of a read that waits for all its bytes, where the connection went native meanwhile.

use std::io::IoSliceMut;

use heliostat_base::call;

/// The connection went native in the middle of a call that waits for all bytes: the rest comes
/// from the kernel, as far as it comes.
#[cold]
pub fn by_kernel(fd: i32, buffers: &mut [IoSliceMut<'_>], flags: i32) -> usize {
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
