//! Descriptors of ours that a program does not know of: its connections' sockets, and links to loops.
//!
//! They take high numbers, so that those which the program counts on stay free: above its limit where
//! the limit can be raised for a moment, else in the upper half of what it may have.

use heliostat_base::sync::AtomicU64;
use heliostat_base::sync::Ordering::{AcqRel, Relaxed};
use std::os::fd::AsRawFd;

use heliostat_backend_tcp::descriptors_max;
use heliostat_base::call;
use heliostat_base::descriptor_limit::duplicate_above;
use heliostat_base::fd::OwnedFd;
use heliostat_base::sys::Errno;

use super::habit;
use crate::net::socket::Socket;
use crate::table::{self, DescriptorKind};

/// Numbers begin here at the lowest.
const LOWEST: i32 = 512;
/// Of the descriptors that a program may have, so much at most is ours.
const SHARE: u64 = 4;

/// How many there are.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Puts a descriptor out of the program's way, closed on exec.
///
/// # Errors
/// There is no number left.
pub fn hide(fd: i32) -> Result<i32, Errno> {
    let max = descriptors_max();
    let high = duplicate_above(fd, LOWEST)?;
    let is_above = high.as_raw_fd() as u64 >= max;
    let has_room = is_above || COUNT.load(Relaxed) < max / SHARE;
    if !has_room || !table::set(high.as_raw_fd(), DescriptorKind::Hidden) {
        return Err(Errno(libc::EMFILE));
    }
    COUNT.fetch_add(1, Relaxed);
    Ok(high.into_raw())
}

/// As `hide`, of a descriptor that is ours alone.
pub fn hide_owned(fd: OwnedFd) -> Result<i32, Errno> {
    hide(fd.as_raw_fd())
}

/// Whether there is one.
pub fn is_any() -> bool {
    COUNT.load(Relaxed) != 0
}

/// Puts a copy of `hidden` at `number`.
pub fn put(hidden: i32, number: i32) {
    if hidden == 0 {
        return;
    }
    if let Ok(copy) = heliostat_base::fd::duplicate(hidden) {
        let _ = call::replace(copy.into_raw(), number);
    }
}

/// Closes one.
pub fn close_hidden(fd: i32) {
    if table::kind(fd) == DescriptorKind::Hidden && table::take(fd) == DescriptorKind::Hidden {
        COUNT.fetch_sub(1, Relaxed);
        let _ = call::close(fd);
    }
}

/// The connection has closed here: so has its socket.
pub fn drop_hidden(socket: &Socket) {
    match socket.carried.swap(0, AcqRel) {
        0 => {}
        fd => {
            habit::ended(socket.writes.load(Relaxed));
            close_hidden(fd);
        }
    }
}

/// All of them.
pub fn owned() -> impl Iterator<Item = u32> {
    let all = table::walk(0, u32::MAX);
    all.filter(|(_, kind)| *kind == DescriptorKind::Hidden).map(|(fd, _)| fd as u32)
}
