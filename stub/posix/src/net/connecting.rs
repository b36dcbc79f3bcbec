//! A connection to a remote peer whose connect(2) did not wait: it is carried once its program knows of it.
//!
//! ```text
//! connect(2): under way --> all is the kernel's, entries in epoll sets too (`watch::early`)
//! SO_ERROR, or the first send or receive --> established: carried, or native for good
//! ```
//! Until then other threads may wait for it in the kernel, where they would hear nothing of a loop. In an
//! epoll set its entry is taken over; a process of several threads that has it in none may be inside
//! poll(2), and keeps it native.

use heliostat_base::sync::AtomicBool;
use heliostat_base::sync::Ordering::{Acquire, Relaxed, Release};

use heliostat_abi::code::Native;
use heliostat_abi::session::report::Path;
use heliostat_base::call;
use heliostat_base::lock::Lock;
use heliostat_base::process::is_single_threaded;
use heliostat_client::session;

use super::channel::Side;
use super::socket::{self, Socket};
use super::watch::early;
use super::{delegated, handover, report_line};
use crate::owner;
use crate::table::{self, DescriptorKind};
use crate::thread::Critical;

/// There has been such a connection.
static IS_USED: AtomicBool = AtomicBool::new(false);
/// Held while one becomes carried, so that no other thread sends beside that.
static TURN: Lock<()> = Lock::new(());

/// How far connect(2) has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// There is no connection.
    Failed,
    /// The handshake goes on.
    UnderWay,
    /// There is one.
    Established,
}

/// How far it has come, of which the socket's error stays for the program to fetch.
pub fn progress(fd: i32) -> Progress {
    let mut fds = [libc::pollfd { fd, events: libc::POLLOUT, revents: 0 }];
    match call::poll(&mut fds, 0) {
        Ok(1) if fds[0].revents == libc::POLLOUT => Progress::Established,
        Ok(1) => Progress::Failed,
        _ => Progress::UnderWay,
    }
}

/// connect(2) on `fd` is under way; the connection is native for `reason` until it is carried. False
/// when it is native for good.
pub fn begin(fd: i32, reason: Native) -> bool {
    if !delegated::may_carry(reason) {
        return false;
    }
    let Some(index) = socket::allocate() else { return false };
    session::be_known();
    let socket = socket::at(index);
    socket.set_native(reason);
    socket.connecting.store(reason as u32, Release);
    IS_USED.store(true, Release);
    table::set(fd, DescriptorKind::Socket(index))
}

/// Before a send, or a receive, on a connection that is native: true when it is carried from here on.
#[inline]
pub fn is_carried_now(fd: i32, index: u32, is_receive: bool) -> bool {
    is_connecting(index) && move_on(fd, index, is_receive)
}

/// True while its program may not know that it is there.
#[inline]
pub fn is_connecting(index: u32) -> bool {
    socket::at(index).connecting.load(Relaxed) != 0
}

#[cold]
fn move_on(fd: i32, index: u32, is_receive: bool) -> bool {
    // What lies there is what the program was told of: it is not to find nothing.
    if is_receive && call::bytes_queued(fd).is_ok_and(|queued| queued > 0) {
        return false;
    }
    let is_carried = learn(fd, index);
    if !is_carried && is_connecting(index) && !call::is_nonblocking(fd) {
        give_up(fd, index); // this thread may sleep in the kernel now
    }
    is_carried
}

/// The program asks how connect(2) went, or uses the connection: true when it is carried.
#[cold]
pub fn learn(fd: i32, index: u32) -> bool {
    if owner::is_borrowed() {
        return false;
    }
    let _critical = Critical::enter();
    let _alone = TURN.lock();
    let socket = socket::at(index);
    if !is_connecting(index) {
        return !socket.is_native();
    }
    let reason = Native::from_number(socket.connecting.load(Acquire) as u8).unwrap_or(Native::None);
    let answer = match progress(fd) {
        Progress::UnderWay => return false,
        Progress::Established if may_be_taken(fd, socket) => carry(fd, index, reason),
        Progress::Established | Progress::Failed => Err(reason),
    };
    match answer {
        Ok(()) => socket.connecting.store(0, Release),
        Err(reason) => settle(fd, socket, reason),
    }
    answer.is_ok()
}

fn may_be_taken(fd: i32, socket: &Socket) -> bool {
    let waits_elsewhere = !is_single_threaded() && early::sets_of(fd).is_empty();
    socket.has_one_descriptor() && !socket.inherited.load(Relaxed) && !waits_elsewhere
}

fn carry(fd: i32, index: u32, reason: Native) -> Result<(), Native> {
    handover::withdraw(fd)?;
    let answer = delegated::completed(fd, index, reason);
    match answer {
        Ok(()) => handover::become_carried(fd, index),
        Err(_) => early::put_again(fd),
    }
    answer
}

/// It stays native.
fn settle(fd: i32, socket: &Socket, reason: Native) {
    early::forget(fd);
    socket.connecting.store(0, Release);
    socket.set_native(reason);
    report_line::begin(fd, socket, Side::Client, Path::Native(reason), None);
}

/// Others are to have it, or it closes: it stays native.
#[cold]
pub fn give_up(fd: i32, index: u32) {
    if !is_connecting(index) {
        return;
    }
    let _critical = Critical::enter();
    let _alone = TURN.lock();
    let socket = socket::at(index);
    if let Some(reason) = Native::from_number(socket.connecting.load(Acquire) as u8) {
        if reason != Native::None {
            settle(fd, socket, reason);
        }
    }
}

/// Before a child is made, which may have any of them.
pub fn give_all_up() {
    if owner::is_borrowed() || !IS_USED.swap(false, Acquire) {
        return;
    }
    for (fd, kind) in table::walk(0, u32::MAX) {
        if let DescriptorKind::Socket(index) = kind {
            give_up(fd, index);
        }
    }
}

/// In the child of a fork.
pub fn reset_in_forked_child() {
    TURN.reset_in_forked_child();
}
