//! Sockets that bind(2) has exchanged: their address is a shared listener's, whose socket they have.

use heliostat_abi::name::NetAddress;
use heliostat_base::call;

use super::ask;
use super::interests::Sets;
use super::manners::{self, Manner};
use super::table;
use crate::thread::Critical;

/// So often a listener is looked for that somebody is about to make, and so long apart: 0.5 s in all.
const FIND_LOOKS: usize = 50;
const FIND_NAP_NS: u64 = 10_000_000;

/// After bind(2) was refused because somebody has the address, or before it where it would make one
/// more socket of it (SO_REUSEPORT): the socket of a shared listener takes the place of `fd`.
pub fn bound_by_others(fd: i32, address: NetAddress) -> bool {
    if !crate::is_enabled() {
        return false;
    }
    let _critical = Critical::enter();
    // Whoever has bound it may be about to listen: of a port that is to be shared that is waited for.
    let is_named = super::is_wanted(address.port);
    let looks = if is_named { FIND_LOOKS } else { 1 };
    let find = |look: usize| {
        if look > 0 {
            let _ = call::ppoll(&mut [], Some(FIND_NAP_NS), None);
        }
        ask::find(address)
    };
    let Some(found) = (0..looks).find_map(find) else { return false };
    let is_nonblocking = call::is_nonblocking(fd);
    let timeout_ns = call::socket_timeout(fd, libc::SO_RCVTIMEO);
    if !manners::keep(fd, Manner { is_nonblocking, timeout_ns }) {
        return false;
    }
    // The socket is its thread's as well, which does not wait.
    let is_put = table::put(found.into_raw(), fd, true, Sets::Own).is_ok();
    if !is_put {
        manners::forget(fd as u32, fd as u32);
    }
    is_put
}

/// Whether a socket blocks whose place that of a shared listener has taken, and on which the program
/// does not listen yet.
#[inline]
pub fn is_bound_nonblocking(fd: i32) -> Option<bool> {
    manners::of(fd).map(|manner| manner.is_nonblocking)
}

/// The program says whether it is to block.
pub fn set_bound_mode(fd: i32, is_nonblocking: bool) {
    manners::change(fd, |manner| manner.is_nonblocking = is_nonblocking);
}

/// The program has said how long it is to wait.
pub fn set_bound_timeout(fd: i32) {
    let timeout_ns = call::socket_timeout(fd, libc::SO_RCVTIMEO);
    manners::change(fd, |manner| manner.timeout_ns = timeout_ns);
}

/// A socket that bind(2) has exchanged becomes no queue: the program accepts on it by itself, and it
/// blocks as the program wants.
pub fn end_bound(fd: i32) {
    if let Some(manner) = manners::of(fd) {
        manners::forget(fd as u32, fd as u32);
        table::set_nonblocking(fd, manner.is_nonblocking);
    }
}
