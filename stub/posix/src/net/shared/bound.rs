//! Sockets that bind(2) has exchanged: their address is a shared listener's, whose socket they have.

use heliostat_abi::name::NetAddress;
use heliostat_base::call;
use heliostat_base::clock::monotonic_ns;
use heliostat_base::fd::OwnedFd;

use super::ask;
use super::interests::Sets;
use super::manners::{self, Manner};
use super::table;
use crate::thread::Critical;

/// So long a listener is looked for that somebody is about to make, who may not get a core at once; and
/// where nobody need be, and the program could bind its own socket.
const FIND_NS: u64 = 3_000_000_000;
const FIND_REUSED_NS: u64 = 500_000_000;
/// So long between two looks.
const FIND_NAP_NS: u64 = 10_000_000;

/// After bind(2) or listen(2) was refused because somebody has the address: the socket of a shared
/// listener takes the place of `fd`.
pub fn bound_by_others(fd: i32, address: NetAddress) -> bool {
    takes_place(fd, address, FIND_NS)
}

/// The same before bind(2) where it would make one more socket of the address (SO_REUSEPORT).
pub fn reused_by_others(fd: i32, address: NetAddress) -> bool {
    takes_place(fd, address, FIND_REUSED_NS)
}

fn takes_place(fd: i32, address: NetAddress, patience_ns: u64) -> bool {
    if !crate::is_enabled() {
        return false;
    }
    let _critical = Critical::enter();
    let Some(found) = find(address, patience_ns) else { return false };
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

/// The socket of a shared listener. Whoever has bound its address may be about to listen: of a port that
/// is to be shared that is waited for.
fn find(address: NetAddress, patience_ns: u64) -> Option<OwnedFd> {
    let until_ns = if super::is_wanted(address.port) { monotonic_ns() + patience_ns } else { 0 };
    loop {
        let found = ask::find(address);
        if found.is_some() || monotonic_ns() >= until_ns {
            return found;
        }
        let _ = call::ppoll(&mut [], Some(FIND_NAP_NS), None);
    }
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
