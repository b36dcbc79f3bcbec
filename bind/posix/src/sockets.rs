//! Making, accepting, ending and asking connections.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::net::SocketAddr;

use heliostat_abi::code::Native;
use heliostat_abi::name::NetAddress;
use heliostat_base::call as kernel;
use heliostat_base::guarded::Fault;
use heliostat_base::sys::{check, Errno, Sysno};
use heliostat_interpose::Verdict;
use heliostat_stub_posix::net::connect::{self as stub_connect, Ticket};
use heliostat_stub_posix::net::option::Asked;
use heliostat_stub_posix::net::{
    accept as stub_accept, carried, close, connecting, demote, listen as stub_listen, option,
    shadow, shared,
};
use heliostat_stub_posix::table::{self, DescriptorKind};

use crate::call::Call;
use crate::offload::by_kernel;
use crate::{memory, queues, sealed};

/// connect(2)
pub fn connect(call: &mut Call<'_>) -> Verdict {
    let fd = call.int(0);
    if let Some(result) = call.waited() {
        let reason = Native::from_number(call.frame.scratch as u8).unwrap_or(Native::None);
        stub_connect::end(fd, Ticket::Native(reason), check(result as isize));
        call.frame.rax = result as u64;
        return Verdict::Done;
    }
    let Some(address) = address_at(call.word(1), call.word(2)) else {
        dissolve(call);
        return Verdict::Pass;
    };
    match stub_connect::begin(fd, address) {
        Ticket::NotOurs => Verdict::Pass,
        Ticket::Native(reason) => {
            call.frame.scratch = reason as u64;
            call.wait_in_kernel()
        }
        ticket => {
            let answer = by_kernel(call);
            stub_connect::end(fd, ticket, answer);
            call.answer(Some(answer))
        }
    }
}

/// An address of no family takes a connection apart (source: connect(2), AF_UNSPEC).
#[cold]
fn dissolve(call: &Call<'_>) {
    let Some(index) = socket_of(call) else { return };
    // SAFETY: any bytes are a u16.
    let family = unsafe { memory::read::<u16>(call.word(1)) };
    if family == Ok(Some(libc::AF_UNSPEC as u16)) && call.int(2) >= 2 {
        demote::dissolve(call.int(0), index);
    }
}

/// The address that lies there, of a family that we know; nothing for a pointer to nothing.
fn address_at(address: u64, length: u64) -> Option<SocketAddr> {
    let mut room = [const { MaybeUninit::<u8>::uninit() }; ADDRESS_BYTES_MAX];
    let room = &mut room[..(length as u32 as usize).min(ADDRESS_BYTES_MAX)];
    // SAFETY: bytes.
    let bytes = unsafe { memory::read_many(address, room) }.ok()?;
    kernel::parse_address(bytes)
}

/// The kernel's longest (source: sockaddr_storage, socket(7)).
const ADDRESS_BYTES_MAX: usize = 128;

/// accept(2) and accept4(2): the kernel accepts, then the offer is looked for.
pub fn accept(call: &mut Call<'_>) -> Verdict {
    let Some(result) = call.waited() else {
        return match table::kind(call.int(0)) {
            DescriptorKind::Socket(_) => Verdict::Pass,
            _ => {
                stub_listen::noticed(call.int(0));
                match shared::is_shared(call.int(0)) {
                    true => queues::accept(call).unwrap_or_else(|| accept_in_kernel(call)),
                    false => accept_in_kernel(call),
                }
            }
        };
    };
    if call.frame.wait[0] == Sysno::recvmsg as u64 {
        let verdict = queues::accept_after(call, result);
        return verdict.unwrap_or_else(|| accept_in_kernel(call));
    }
    call.frame.rax = result as u64;
    if result >= 0 {
        let is_accept4 = call.frame.wait[0] == Sysno::accept4 as u64;
        let nonblocking = is_accept4 && call.int(3) & libc::SOCK_NONBLOCK != 0;
        if let Some(peer) = peer_given(call).or_else(|| kernel::peer_address(result as i32)) {
            let peer = NetAddress::new(peer);
            stub_accept::accepted(call.int(0), result as i32, peer, nonblocking);
        }
    }
    Verdict::Done
}

thread_local! {
    /// Where the kernel writes the peer's address for a program that does not ask for it, and its
    /// length. A handler that accepts in the middle of an accept costs at most one question more.
    static PEER: UnsafeCell<([u64; PEER_WORDS], u32)> = const { UnsafeCell::new(([0; PEER_WORDS], 0)) };
}

/// Words of the longest address of a TCP socket, IPv6's of 28 bytes.
const PEER_WORDS: usize = 4;

/// Accepts with room for the peer's address: asking for it afterwards is a system call more.
fn accept_in_kernel(call: &mut Call<'_>) -> Verdict {
    let verdict = call.wait_in_kernel();
    if call.word(1) == 0 {
        let room = PEER.with(UnsafeCell::get);
        // SAFETY: this thread's own room; only the kernel and this function write it.
        unsafe { (*room).1 = (PEER_WORDS * 8) as u32 };
        // SAFETY: addresses of fields, of live thread-local memory.
        let fields = unsafe { (&raw const (*room).0 as u64, &raw const (*room).1 as u64) };
        (call.frame.wait[2], call.frame.wait[3]) = fields;
    }
    verdict
}

/// The peer's address that the kernel has just written, for the program or for us.
fn peer_given(call: &Call<'_>) -> Option<SocketAddr> {
    let [_, _, address, length, ..] = call.frame.wait;
    // SAFETY: any bytes are a u32.
    let length = unsafe { memory::read::<u32>(length) }.ok().flatten()?;
    // IPv6 needs 28 bytes, and a shorter room holds a cut address.
    address_at(address, u64::from(length.min(28)))
}

/// listen(2)
pub fn listen(call: &mut Call<'_>) -> Verdict {
    if let Some(verdict) = queues::of_listening_socket(call) {
        return verdict;
    }
    let mut answer = by_kernel(call);
    if answer == Err(Errno(libc::EADDRINUSE)) && is_shared_meanwhile(call.int(0)) {
        answer = by_kernel(call);
    }
    if answer.is_ok() {
        stub_listen::listening(call.int(0));
    }
    call.answer(Some(answer))
}

/// Two sockets may be bound to one address where both say so (SO_REUSEADDR), and one of them may listen:
/// where the other one's is a shared listener by now, `fd` has its socket.
fn is_shared_meanwhile(fd: i32) -> bool {
    if sealed::is_sealed() || !is_tcp(fd) {
        return false;
    }
    let bound = kernel::local_address(fd).filter(|it| it.port() != 0);
    bound.is_some_and(|it| shared::bound_by_others(fd, NetAddress::new(it)))
}

fn is_tcp(fd: i32) -> bool {
    kernel::option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL) == Ok(libc::IPPROTO_TCP)
}

fn socket_of(call: &Call<'_>) -> Option<u32> {
    match table::kind(call.int(0)) {
        DescriptorKind::Socket(index) => Some(index),
        _ => None,
    }
}

/// shutdown(2)
pub fn shutdown(call: &mut Call<'_>) -> Verdict {
    let Some(index) = socket_of(call) else {
        let answer = shared::shut(call.int(0), call.int(1));
        return call.answer(answer);
    };
    let answer = close::shutdown(call.int(0), index, call.int(1));
    call.answer(answer)
}

/// getsockopt(2)
pub fn getsockopt(call: &mut Call<'_>) -> Verdict {
    let Some(index) = socket_of(call) else {
        return queues::of_listening_socket(call).unwrap_or(Verdict::Pass);
    };
    let asks_how = (call.int(1), call.int(2)) == (libc::SOL_SOCKET, libc::SO_ERROR);
    if asks_how && connecting::is_connecting(index) {
        connecting::learn(call.int(0), index);
    }
    let Some(value) = option::get(call.int(0), index, call.int(1), call.int(2)) else {
        return by_socket(call, index);
    };
    let answer = tell(call, value).unwrap_or(Err(memory::FAULT));
    call.answer(Some(answer))
}

/// Writes an option's value, cut to the program's room, and then its length, as the kernel does.
fn tell(call: &Call<'_>, value: i32) -> Result<Result<usize, Errno>, Fault> {
    // SAFETY: any bytes are an i32.
    let room = unsafe { memory::read::<i32>(call.word(4)) }?.ok_or(Fault)?;
    let Ok(room) = usize::try_from(room) else { return Ok(Err(Errno(libc::EINVAL))) };
    let bytes = value.to_ne_bytes();
    let told = &bytes[..room.min(4)];
    // SAFETY: the program's room of at least that length.
    unsafe { memory::write_many(call.word(3), told) }?;
    // SAFETY: where it was read from.
    unsafe { memory::write(call.word(4), told.len() as u32) }?;
    Ok(Ok(0))
}

/// No option that is looked at is longer.
const OPTION_BYTES_MAX: usize = 16;

/// setsockopt(2)
pub fn setsockopt(call: &mut Call<'_>) -> Verdict {
    let Some(index) = socket_of(call) else {
        shadow::options::set_early(call.int(1), call.int(2));
        return queues::set_option(call).unwrap_or(Verdict::Pass);
    };
    let mut room = [const { MaybeUninit::<u8>::uninit() }; OPTION_BYTES_MAX];
    let room = &mut room[..(call.word(4) as u32 as usize).min(OPTION_BYTES_MAX)];
    // SAFETY: bytes.
    let Ok(value) = (unsafe { memory::read_many(call.word(3), room) }) else {
        return Verdict::Pass;
    };
    let (fd, level, name) = (call.int(0), call.int(1), call.int(2));
    let answer = option::set(fd, index, level, name, value);
    if answer.is_some() {
        return call.answer(answer);
    }
    match option::goes_to(fd, index, level, name, value) {
        Asked::Shadow => Verdict::Pass,
        Asked::Socket => by_socket(call, index),
        Asked::Both => {
            let _ = by_socket(call, index);
            Verdict::Pass
        }
    }
}

/// getsockname(2) and getpeername(2)
pub fn name(call: &mut Call<'_>) -> Verdict {
    match socket_of(call) {
        Some(index) => by_socket(call, index),
        None => queues::of_listening_socket(call).unwrap_or(Verdict::Pass),
    }
}

/// The call as it is, of the connection's TCP socket where its descriptor has another.
pub fn by_socket(call: &mut Call<'_>, index: u32) -> Verdict {
    let Some(socket) = carried::socket_of(index) else { return Verdict::Pass };
    let fd = std::mem::replace(&mut call.frame.args[0], socket as u64);
    let answer = by_kernel(call);
    call.frame.args[0] = fd;
    call.answer(Some(answer))
}

/// bind(2): the address may be a shared listener's, whose socket it then is.
pub fn bind(call: &mut Call<'_>) -> Verdict {
    let fd = call.int(0);
    let is_reused = || kernel::option(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT) == Ok(1);
    if sealed::is_sealed() {
        return sealed::again(call); // it shares nothing
    }
    let wanted = address_at(call.word(1), call.word(2)).filter(|it| it.port() != 0);
    let Some(address) = wanted.map(NetAddress::new) else { return Verdict::Pass };
    if is_reused() && is_tcp(fd) && shared::reused_by_others(fd, address) {
        return call.answer(Some(Ok(0)));
    }
    let answer = by_kernel(call);
    let is_taken = answer == Err(Errno(libc::EADDRINUSE)) && is_tcp(fd);
    match is_taken && shared::bound_by_others(fd, address) {
        true => call.answer(Some(Ok(0))),
        false => call.answer(Some(answer)),
    }
}
