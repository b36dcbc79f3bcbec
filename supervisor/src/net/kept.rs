//! The sockets that the supervisor has made for the program (`made`), as calls ask for them.

use std::num::NonZeroU32;

use heliostat_backend_seal::Reply;
use heliostat_base::fd::OwnedFd;
use heliostat_base::sys::Errno;
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType};

use super::holders;
use crate::call::{Answer, Call};
use crate::errno::errno;
use crate::made::Made;
use crate::supervisor::Supervisor;

/// The type of a socket without its flags (source: net.h, SOCK_TYPE_MASK).
pub const KIND: i32 = 0xf;

/// socket(2): one is made, kept and handed in. The caller has judged its kind.
pub fn make(call: &Call<'_>, made: &Made) -> Answer {
    const FLAGS: i32 = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let (kind, flags) = (call.int(1) & KIND, call.int(1) & !KIND);
    if flags & !FLAGS != 0 {
        return Err(Errno(libc::EINVAL));
    }
    if made.is_full() {
        let_go_closed(call.supervisor, made);
    }
    if made.is_full() {
        return Err(Errno(libc::ENFILE));
    }
    let fd: OwnedFd = rustix::net::socket_with(
        AddressFamily::from_raw(call.int(0) as u16),
        SocketType::from_raw(kind as u32),
        SocketFlags::from_bits_retain((flags | libc::SOCK_CLOEXEC) as u32),
        NonZeroU32::new(call.int(2) as u32).map(Protocol::from_raw),
    )
    .map(OwnedFd::from)
    .map_err(errno)?;
    let theirs = fd.duplicate()?;
    made.insert(fd, call.notice.id)?;
    Ok(Reply::Descriptor { fd: theirs, closes_on_exec: flags & libc::SOCK_CLOEXEC != 0 })
}

/// A descriptor of the socket that is the caller's number `number`, if one is kept.
///
/// # Errors
/// EBADF, ENOTSOCK.
pub fn find(call: &Call<'_>, made: &Made, number: i32) -> Result<Option<OwnedFd>, Errno> {
    made.get(holders::socket_at(call.supervisor.roots.proc(), call.thread(), number)?)
}

/// Whether the caller's number `number` is one that listens.
pub fn has_listener(call: &Call<'_>, made: &Made, number: i32) -> bool {
    let found = holders::socket_at(call.supervisor.roots.proc(), call.thread(), number);
    found.is_ok_and(|identity| made.has_listener(identity))
}

/// Lets go what no process of the program has any more; whether there was any.
///
/// Looked for twice: what moves from one number to another meanwhile, or to a process that has
/// just been born, may be missed once. What travels in a message then is let go, and lives on.
pub fn let_go_closed(supervisor: &Supervisor, made: &Made) -> bool {
    let mut missing = made.handed_in(|call| supervisor.listener.is_waiting(call));
    for _ in 0..2 {
        if !missing.is_empty() {
            missing = holders::missing(supervisor, missing);
        }
    }
    made.let_go_all(&missing)
}

/// Lets go what is connected or closed, as long as the program runs.
pub fn keep(supervisor: &Supervisor) {
    supervisor.made.iter().for_each(|made| made.keep(|| let_go_closed(supervisor, made)));
}
