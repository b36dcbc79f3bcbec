//! How a connection to a remote peer becomes a delegated stream: before its program knows of it.

use heliostat_base::sync::Ordering::{Relaxed, Release};

use heliostat_abi::code::Native;
use heliostat_abi::name::NetAddress;
use heliostat_abi::session::report::Path;
use heliostat_abi::stream::delegated::Hand;
use heliostat_backend_tcp::{copy_timeouts, linger_seconds, Positions};
use heliostat_base::{call, packet};

use super::{carriers, duplicate, habit, hidden};
use crate::net::channel::{Side, Slot};
use crate::net::report_line;
use crate::net::shadow::options::{BELLS, CORK, NODELAY};
use crate::net::socket::{self, Socket, Stream};
use crate::table::{self, DescriptorKind};

/// accept(2) gave `fd`, which is native for `reason` unless it is carried.
///
/// # Errors
/// Why it is native.
pub fn accepted(fd: i32, reason: Native) -> Result<(), Native> {
    begin(fd, (Side::Server, None), reason)
}

/// connect(2) has connected `fd`, likewise.
///
/// # Errors
/// Why it is native.
pub fn connected(fd: i32, reason: Native) -> Result<(), Native> {
    match table::kind(fd) {
        DescriptorKind::Unknown => begin(fd, (Side::Client, None), reason),
        _ => Err(reason),
    }
}

/// A connect(2) that did not wait has come to its end, and the connection has its place already.
///
/// # Errors
/// Why it is native.
pub fn completed(fd: i32, index: u32, reason: Native) -> Result<(), Native> {
    begin(fd, (Side::Client, Some(index)), reason)
}

/// Whether asking may bring something, for a connection that is native for `reason`: its peer is not
/// under Heliostat here.
pub fn may_carry(reason: Native) -> bool {
    is_remote(reason) && crate::is_enabled() && carriers::may_carry()
}

fn begin(fd: i32, whose: (Side, Option<u32>), reason: Native) -> Result<(), Native> {
    if !may_carry(reason) {
        return Err(refused(reason));
    }
    if !habit::is_worth_it() {
        return Err(Native::ShortLived);
    }
    if lingers(fd) {
        return Err(Native::Option);
    }
    let (slot, link, standing) = carriers::take_slot().ok_or_else(|| refused(reason))?;
    hand_over(fd, whose, &slot, link, standing.id).ok_or_else(|| {
        slot.give_up_carried();
        reason
    })
}

/// Why a connection is native that the network service might have carried.
fn refused(reason: Native) -> Native {
    match is_remote(reason) && crate::is_enabled() && carriers::is_full() {
        true => Native::Full,
        false => reason,
    }
}

/// Its peer is not under Heliostat here.
fn is_remote(reason: Native) -> bool {
    matches!(reason, Native::NoOffer | Native::NotLocal | Native::PeerNotOurs)
}

/// A close that waits for its peer is the kernel's.
fn lingers(fd: i32) -> bool {
    linger_seconds(fd).is_some_and(|seconds| seconds > 0)
}

fn hand_over(
    fd: i32,
    (side, place): (Side, Option<u32>),
    slot: &Slot,
    link: i32,
    own: heliostat_abi::name::ObjectId,
) -> Option<()> {
    let ends = (call::local_address(fd)?, call::peer_address(fd)?);
    let ends = (NetAddress::new(ends.0), NetAddress::new(ends.1));
    let positions = Positions::of(fd).ok()?;
    let (incoming, outgoing) = slot.lanes(Side::Client)?;
    if !slot.begin_carried(own) {
        return None;
    }
    let index = place.or_else(socket::allocate)?;
    let socket = socket::at(index);
    let Some(hidden) = swap(fd, slot, link) else {
        if place.is_none() {
            socket::free(index);
        }
        return None;
    };
    let stream = Stream { slot: slot.clone(), side: Side::Client, incoming, outgoing };
    socket.receiver.lock().stream = Some(stream.clone());
    socket.sender.lock().stream = Some(stream);
    socket.nonblocking.store(call::is_nonblocking(fd), Release);
    note_options(hidden, fd, socket);
    socket.shadow_inode.store(call::inode(fd).unwrap_or(0), Relaxed);
    socket.base_taken.store(positions.taken, Relaxed);
    socket.base_given.store(positions.given, Relaxed);
    socket.was_carried.store(true, Relaxed);
    duplicate::note_begin(socket);
    socket.leave_native();
    socket.carried.store(hidden, Release);
    report_line::begin(fd, socket, side, Path::Delegated, Some(ends));
    table::set(fd, DescriptorKind::Socket(index));
    Some(())
}

/// Hides the socket, puts the shadow's near end in its place, and hands socket and far end over.
fn swap(fd: i32, slot: &Slot, link: i32) -> Option<i32> {
    let (near, far) = call::local_pair().ok()?;
    let handed = hidden::hide(fd).ok().and_then(|hidden| {
        let record = Hand { slot: slot.number(), generation: slot.generation() }.encode();
        match packet::send(link, &record, &[fd, far]) {
            Ok(()) => Some(hidden),
            Err(_) => {
                hidden::close_hidden(hidden);
                carriers::forget_link(link);
                None
            }
        }
    });
    let _ = call::close(far);
    match handed {
        None => {
            let _ = call::close(near);
            None
        }
        Some(hidden) => {
            // It fails for no number that is open; if it did, the loop would find its shadow ended.
            let _ = call::replace(near, fd);
            Some(hidden)
        }
    }
}

/// What the program, or its listening socket, has asked for already.
fn note_options(hidden: i32, fd: i32, socket: &Socket) {
    let is_on = |name| call::option(hidden, libc::IPPROTO_TCP, name).unwrap_or(0) != 0;
    let bit = |name, bit| if is_on(name) { bit } else { 0 };
    let options = BELLS | bit(libc::TCP_NODELAY, NODELAY) | bit(libc::TCP_CORK, CORK);
    socket.delay_options.store(options, Relaxed);
    socket.closes_with_reset.store(call::is_linger_zero(hidden), Relaxed);
    copy_timeouts(hidden, fd);
}
