//! Calls on a descriptor that is the queue of a shared listener.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

use heliostat_abi::name::NetAddress;
use heliostat_base::call as kernel;
use heliostat_base::sync::Ordering::Relaxed;
use heliostat_base::sys::{check, raw, Errno, Sysno};
use heliostat_interpose::Verdict;
use heliostat_stub_posix::net::shared::{self, Took};
use heliostat_stub_posix::net::{accept as stub_accept, socket};
use heliostat_stub_posix::table::{self, DescriptorKind};

use crate::call::{by_kernel, Call};
use crate::memory;

thread_local! {
    /// A message of which nothing is taken: waiting for one is waiting for a connection.
    static WAITED_FOR: UnsafeCell<MaybeUninit<libc::msghdr>> =
        const { UnsafeCell::new(MaybeUninit::zeroed()) };
}

/// accept(2) and accept4(2) on a queue; none where it is the listening socket again.
pub fn accept(call: &mut Call<'_>) -> Option<Verdict> {
    let flags = if is_accept4(call) { call.int(3) } else { 0 };
    if flags & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) != 0 {
        return Some(call.answer(Some(Err(Errno(libc::EINVAL)))));
    }
    let queue = call.int(0);
    Some(match shared::take(queue, flags & libc::SOCK_CLOEXEC != 0) {
        Took::Connection { fd, peer, page } => {
            let is_nonblocking = flags & libc::SOCK_NONBLOCK != 0;
            begin(call, fd, peer, page, is_nonblocking)
        }
        Took::Empty if kernel::is_nonblocking(queue) => call.answer(Some(Err(Errno(libc::EAGAIN)))),
        Took::Empty => wait(call),
        Took::GivenBack => return None,
        Took::Failed(errno) => call.answer(Some(Err(errno))),
    })
}

/// The kernel has waited for a connection.
pub fn accept_after(call: &mut Call<'_>, result: i64) -> Option<Verdict> {
    match check(result as isize) {
        Ok(_) | Err(Errno(libc::ECONNRESET | libc::EPIPE | libc::ENOTCONN)) => accept(call),
        Err(errno) => Some(call.answer(Some(Err(errno)))),
    }
}

/// Waits as recvmsg(2) does on the same descriptor, with its timeout and its interruptions, and takes
/// nothing: neither bytes nor a descriptor.
fn wait(call: &mut Call<'_>) -> Verdict {
    let header = WAITED_FOR.with(UnsafeCell::get);
    let flags = (libc::MSG_PEEK | libc::MSG_TRUNC) as u64;
    call.frame.wait = [Sysno::recvmsg as u64, call.word(0), header as u64, flags, 0, 0, 0];
    Verdict::Wait
}

fn is_accept4(call: &Call<'_>) -> bool {
    call.frame.rax == Sysno::accept4 as u64
}

/// The program has a connection.
fn begin(call: &mut Call<'_>, fd: i32, peer: NetAddress, page: u32, nonblocking: bool) -> Verdict {
    if nonblocking {
        let flags = kernel::fcntl(fd, libc::F_GETFL, 0).unwrap_or(0);
        let _ = kernel::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK as usize);
    }
    if call.word(1) != 0 {
        let args = [fd as usize, call.word(1) as usize, call.word(2) as usize, 0, 0, 0];
        // SAFETY: the kernel writes the address where the program wants accept(2) to, and judges the
        // pointers as accept(2) does.
        let told = check(unsafe { raw(Sysno::getpeername as usize, args) });
        if let Err(errno @ Errno(libc::EFAULT | libc::EINVAL)) = told {
            let _ = kernel::close(fd);
            return call.answer(Some(Err(errno)));
        }
    }
    stub_accept::accepted(call.int(0), fd, peer, nonblocking);
    if let DescriptorKind::Socket(index) = table::kind(fd) {
        socket::at(index).shared_page.store(page + 1, Relaxed);
    }
    call.answer(Some(Ok(fd as usize)))
}

/// What is asked of, or set on, a shared descriptor is the listening socket's: its address, its
/// options, its backlog. `None`: it is no such descriptor.
pub fn of_listening_socket(call: &mut Call<'_>) -> Option<Verdict> {
    if !matches!(table::kind(call.int(0)), DescriptorKind::Listener(_)) {
        return None;
    }
    let socket = shared::listening_socket(call.int(0))?;
    let mut args = call.frame.args.map(|word| word as usize);
    args[0] = socket as usize;
    // SAFETY: the call that the program made, of another socket.
    let answer = check(unsafe { raw(call.frame.rax as usize, args) });
    Some(call.answer(Some(answer)))
}

/// setsockopt(2) on a shared descriptor: what accept(2) waits by is the queue's as well.
pub fn set_option(call: &mut Call<'_>) -> Option<Verdict> {
    let is_timeout = call.int(1) == libc::SOL_SOCKET && call.int(2) == libc::SO_RCVTIMEO;
    if is_timeout && shared::is_bound_nonblocking(call.int(0)).is_some() {
        let answer = by_kernel(call).inspect(|_| shared::set_bound_timeout(call.int(0)));
        return Some(call.answer(Some(answer)));
    }
    let verdict = of_listening_socket(call)?;
    if is_timeout {
        let _ = by_kernel(call);
    }
    Some(verdict)
}

/// fcntl(2) and ioctl(2) on a socket that bind(2) has exchanged: whether it blocks is kept until the
/// program listens, since the socket is its thread's as well, which does not wait.
pub fn mode(call: &mut Call<'_>) -> Verdict {
    let (fd, command) = (call.int(0), call.int(1));
    let is_fcntl = call.frame.rax == Sysno::fcntl as u64;
    let is_nonblocking = match command {
        libc::F_SETFL if is_fcntl => call.int(2) & libc::O_NONBLOCK != 0,
        libc::F_GETFL if is_fcntl => {
            let bit = libc::O_NONBLOCK as usize;
            let is_set = shared::is_bound_nonblocking(fd) == Some(true);
            let answer = by_kernel(call);
            return call.answer(Some(answer.map(|it| if is_set { it | bit } else { it & !bit })));
        }
        _ if !is_fcntl && call.word(1) as u32 as u64 == libc::FIONBIO => {
            // SAFETY: FIONBIO points to an int.
            match unsafe { memory::read::<i32>(call.word(2)) } {
                Ok(Some(on)) => on != 0,
                _ => return call.answer(Some(Err(memory::FAULT))),
            }
        }
        _ => return Verdict::Pass,
    };
    shared::set_bound_mode(fd, is_nonblocking);
    call.answer(Some(Ok(0)))
}
