//! accept(2) on a queue: one connection is received, or the queue has ended.

use heliostat_abi::listener::Handed;
use heliostat_abi::name::NetAddress;
use heliostat_base::packet::receive_one;
use heliostat_base::sys::Errno;

use super::interests::Sets;
use super::table;
use crate::thread::Critical;

/// Records that are none; the control plane sends no such.
const GARBAGE_MAX: usize = 16;

/// What a queue had.
pub enum Took {
    /// A connection, and the page by which its end is told.
    Connection {
        /// Its descriptor.
        fd: i32,
        /// Who connected.
        peer: NetAddress,
        /// See [`super::closed`].
        page: u32,
    },
    /// Nothing now.
    Empty,
    /// The number is the listening socket's again.
    GivenBack,
    /// An error of accept(2).
    Failed(Errno),
}

/// Takes a connection, if there is one.
pub fn take(fd: i32, is_cloexec: bool) -> Took {
    let Some((page, is_shut)) = table::with(fd, |entry| (entry.page, entry.is_shut)) else {
        return Took::GivenBack;
    };
    if is_shut {
        return Took::Failed(Errno(libc::EINVAL));
    }
    // A message whose descriptor finds no room in the table is lost: accept(2) would leave it.
    if let Err(errno) = heliostat_base::fd::duplicate(fd) {
        return Took::Failed(errno);
    }
    let cloexec = if is_cloexec { libc::MSG_CMSG_CLOEXEC } else { 0 };
    let mut record = [0; Handed::BYTES];
    for _ in 0..GARBAGE_MAX {
        match receive_one(fd, &mut record, libc::MSG_DONTWAIT | cloexec) {
            Ok((0, _)) | Err(Errno(libc::ECONNRESET | libc::EPIPE | libc::ENOTCONN)) => {
                return ended(fd);
            }
            Ok((length, Some(connection))) => {
                if let Ok(handed) = Handed::decode(&record[..length]) {
                    let fd = connection.into_raw();
                    return Took::Connection { fd, peer: handed.peer, page };
                }
            }
            Ok(_) | Err(Errno(libc::EINTR)) => {}
            Err(Errno(libc::EAGAIN)) => break,
            Err(errno) => return Took::Failed(errno),
        }
    }
    Took::Empty
}

/// The control plane has ended, or has given this worker up: the program accepts by itself.
#[cold]
fn ended(fd: i32) -> Took {
    let _critical = Critical::enter();
    // Nobody is given anything by this queue any more, whoever has it in a set.
    table::restore(fd, Sets::All);
    Took::GivenBack
}
