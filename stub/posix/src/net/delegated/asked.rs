//! What is asked of the TCP socket, and not of the shadow that has its descriptor's number.

use std::sync::atomic::Ordering::Acquire;

use heliostat_abi::code::Native;
use heliostat_base::call;

use super::is_carried;
use crate::net::shadow::options::NODELAY;
use crate::net::socket;
use crate::net::demote;

/// Where a call on a carried connection's descriptor goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// As it is: the descriptor is the connection's own.
    Shadow,
    /// To this descriptor instead.
    Socket(i32),
    /// To this one, and then as it is.
    Both(i32),
}

/// The TCP socket of connection `index`, if a loop has it too: what its names, and all that no ring
/// and no bell concerns, are asked of.
#[inline]
pub fn socket_of(index: u32) -> Option<i32> {
    match socket::at(index).carried.load(Acquire) {
        0 => None,
        fd => Some(fd),
    }
}

/// Where setsockopt(2) goes, after `option::set` had nothing to say.
pub fn ask_socket(fd: i32, index: u32, level: i32, name: i32, value: &[u8]) -> Asked {
    let Some(hidden) = socket_of(index) else { return Asked::Shadow };
    match (level, name) {
        // Waits are slept on the shadow.
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO) => Asked::Both(hidden),
        (libc::SOL_SOCKET, libc::SO_LINGER) if waits(value) => {
            demote::leave_at_once(fd, index, Native::Option);
            Asked::Shadow
        }
        _ => Asked::Socket(hidden),
    }
}

/// A close that waits is the kernel's.
fn waits(value: &[u8]) -> bool {
    value.len() >= 8 && value[..4] != [0; 4] && value[4..8] != [0; 4]
}

/// TCP_NODELAY holds for the socket at once: it is its bytes that wait for each other or not.
pub fn set_delay(index: u32) {
    let socket = socket::at(index);
    if let (true, Some(hidden)) = (is_carried(socket), socket_of(index)) {
        let options = socket.delay_options.load(Acquire);
        let is_on = i32::from(options & NODELAY != 0);
        let _ = call::set_option(hidden, libc::IPPROTO_TCP, libc::TCP_NODELAY, is_on);
    }
}
