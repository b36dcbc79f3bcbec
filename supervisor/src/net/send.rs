//! sendto(2), sendmsg(2), sendmmsg(2).

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::time::Instant;

use heliostat_backend_seal::{self as seal, Reply};
use heliostat_base::sys::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrAny};

use super::address::{self, Address};
use super::message::{self, Message, BY_KERNEL, MESSAGES_MAX, MESSAGE_BYTES};
use super::socket::Socket;
use super::{asked, frozen, reach, unix};
use crate::call::{Answer, Call};
use crate::errno::errno;

/// Where a `mmsghdr` counts what was sent.
const SENT_AT: u64 = 56;
/// Bytes of one message at most (source: MAX_RW_COUNT, linux/fs.h).
const MESSAGE_BYTES_MAX: usize = 0x7fff_f000;
/// Descriptors of one message (source: SCM_MAX_FD, net/scm.h).
const DESCRIPTORS_MAX: usize = 253;
/// Flags that do not change where bytes go.
const FLAGS: i32 = libc::MSG_DONTWAIT
    | libc::MSG_EOR
    | libc::MSG_OOB
    | libc::MSG_MORE
    | libc::MSG_NOSIGNAL
    | libc::MSG_CONFIRM
    | libc::MSG_DONTROUTE;

/// sendto(2) with an address.
pub fn to(call: &Call<'_>) -> Answer {
    let socket = Socket::of(call, call.int(0), libc::EISCONN)?;
    let to = match call.word(4) {
        0 => None,
        at => Some(address::read(call, at, call.word(5))?),
    };
    let (bytes, is_cut) = message::bytes(call, call.word(1), call.word(2))?;
    let message = Message { to, bytes, is_cut, is_faulty: false, descriptors: Vec::new() };
    send(call, &socket, &message, call.int(3)).map(|sent| Reply::Value(sent as i64))
}

/// sendmsg(2).
pub fn message(call: &Call<'_>) -> Answer {
    let socket = match Socket::of(call, call.int(0), BY_KERNEL.0) {
        Err(BY_KERNEL) => return frozen::message(call),
        other => other?,
    };
    match in_parts(call, &socket, call.word(1), call.int(2)) {
        Err(BY_KERNEL) => frozen::message(call),
        sent => Ok(Reply::Value(sent? as i64)),
    }
}

/// Sends the message whose header is at `at`; a stream takes one that is longer than what is
/// copied at once in parts, and an error counts only if nothing was sent before it.
fn in_parts(call: &Call<'_>, socket: &Socket, at: u64, flags: i32) -> Result<usize, Errno> {
    let mut whole = 0;
    loop {
        let message = Message::read(call, at, whole);
        let length = message.as_ref().map_or(0, |message| message.bytes.len());
        let goes_on =
            message.as_ref().is_ok_and(|one| one.is_cut && !one.is_faulty) && socket.is_stream();
        match message.and_then(|message| send(call, socket, &message, flags)) {
            Ok(sent) => whole += sent,
            Err(error) if whole == 0 => return Err(error),
            Err(_) => return Ok(whole),
        }
        if !goes_on || whole % message::BYTES_MAX != 0 || length == 0 || whole >= MESSAGE_BYTES_MAX
        {
            return Ok(whole);
        }
    }
}

/// sendmmsg(2): an error counts only if nothing was sent before it.
pub fn messages(call: &Call<'_>) -> Answer {
    let socket = match Socket::of(call, call.int(0), BY_KERNEL.0) {
        Err(BY_KERNEL) => return frozen::messages(call),
        other => other?,
    };
    let count = (call.word(2) as u32).min(MESSAGES_MAX);
    for place in 0..count {
        match one_of_many(call, &socket, place) {
            Ok(()) => {}
            Err(BY_KERNEL) if place == 0 => return frozen::messages(call),
            Err(error) if place == 0 => return Err(error),
            Err(_) => return Ok(Reply::Value(i64::from(place))),
        }
    }
    Ok(Reply::Value(i64::from(count)))
}

fn one_of_many(call: &Call<'_>, socket: &Socket, place: u32) -> Result<(), Errno> {
    let at = call.word(1).wrapping_add(u64::from(place) * MESSAGE_BYTES);
    let sent = in_parts(call, socket, at, call.int(3))? as u32;
    call.check()?;
    seal::write_memory(call.thread(), at.wrapping_add(SENT_AT), &sent.to_ne_bytes())
}

/// Sends, waiting as long as the program would. A stream takes all, except what was not copied.
fn send(call: &Call<'_>, socket: &Socket, what: &Message, flags: i32) -> Result<usize, Errno> {
    if flags & libc::MSG_ZEROCOPY != 0 && !what.bytes.is_empty() && socket.tells_of_copies() {
        // What is sent here is copied, and nobody would tell of its end: as where there is no room
        // for one to be told, programs copy then.
        return Err(Errno(libc::ENOBUFS));
    }
    if flags & libc::MSG_FASTOPEN != 0 || flags & !(FLAGS | libc::MSG_ZEROCOPY) != 0 {
        // As where it is switched off: programs connect first then.
        return Err(Errno(libc::EOPNOTSUPP));
    }
    if !socket.is_stream() && (what.is_faulty || what.is_cut) {
        return Err(Errno(if what.is_faulty { libc::EFAULT } else { libc::EMSGSIZE }));
    }
    let destination = destination(call, what)?;
    asked::note(call, socket, &what.bytes);
    call.check()?;
    let to = destination.as_ref().map(|destination| &destination.to);
    if let Some(instead) = destination.as_ref().and_then(|to| to.instead.as_deref()) {
        return once(socket, to, instead, &[], flags).map(|_| what.bytes.len());
    }
    let (begun, mut sent) = (Instant::now(), 0);
    loop {
        let descriptors = if sent == 0 { what.descriptors.as_slice() } else { &[] };
        let rest = &what.bytes[sent..];
        match once(socket, to, rest, descriptors, flags) {
            Ok(some) => sent += some,
            Err(Errno(libc::EAGAIN)) if flags & libc::MSG_DONTWAIT == 0 => {
                match socket.await_room(call, begun) {
                    Err(_) if sent > 0 => return Ok(sent),
                    other => other?,
                }
                continue;
            }
            Err(_) if sent > 0 => return Ok(sent),
            Err(error) => return Err(told(call, socket, flags, error)),
        }
        if sent >= what.bytes.len() || !socket.is_stream() {
            return Ok(sent);
        }
    }
}

/// Where a message goes.
struct Destination {
    to: SocketAddrAny,
    /// What it is kept by.
    _held: Option<std::os::fd::OwnedFd>,
    /// What goes there in the place of the message's bytes.
    instead: Option<Vec<u8>>,
}

fn destination(call: &Call<'_>, what: &Message) -> Result<Option<Destination>, Errno> {
    match &what.to {
        None => Ok(None),
        Some(Address::Inet(to)) => {
            let (to, instead) = reach::judge_datagram(call, *to, &what.bytes)?;
            Ok(Some(Destination { to: to.into(), _held: None, instead }))
        }
        Some(Address::Path(path)) => {
            let (held, name) = unix::destination(call, path)?;
            Ok(Some(Destination { to: name.into(), _held: Some(held), instead: None }))
        }
        Some(Address::Abstract) => {
            call.note_call("abstract names of unix sockets");
            Err(Errno(libc::ECONNREFUSED))
        }
        Some(Address::Unnamed | Address::None) => Err(Errno(libc::EINVAL)),
    }
}

fn once(
    socket: &Socket,
    to: Option<&SocketAddrAny>,
    bytes: &[u8],
    descriptors: &[heliostat_base::fd::OwnedFd],
    flags: i32,
) -> Result<usize, Errno> {
    let own = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    let flags = SendFlags::from_bits_retain((flags & FLAGS | own) as u32);
    let vector = [IoSlice::new(bytes)];
    let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !borrowed.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
        return Err(Errno(libc::EINVAL));
    }
    let sent = match to {
        Some(to) => rustix::net::sendmsg_addr(&socket.fd, to, &vector, &mut control, flags),
        None => rustix::net::sendmsg(&socket.fd, &vector, &mut control, flags),
    };
    sent.map_err(errno)
}

/// A broken stream is told by a signal too, unless the program does not want it (send(2)).
fn told(call: &Call<'_>, socket: &Socket, flags: i32, error: Errno) -> Errno {
    if error == Errno(libc::EPIPE) && socket.is_stream() && flags & libc::MSG_NOSIGNAL == 0 {
        let process = call.process();
        if call.check().is_ok() {
            // The thread's and no other's: it may block it while others do not.
            let _ = seal::signal_thread(process, call.thread(), libc::SIGPIPE);
        }
    }
    error
}
