//! The connecting side: asks once per address, offers a slot per connection.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, OnceLock};

use heliostat_abi::channel::SlotState;
use heliostat_abi::code::Native;
use heliostat_abi::limits::{CHANNELS_PER_PAIR_MAX, OFFER_DEADLINE_MS};
use heliostat_abi::name::NetAddress;
use heliostat_abi::node::State;
use heliostat_abi::report::Path;
use heliostat_base::lock::Lock;
use heliostat_base::sys::Errno;
use heliostat_base::{call, clock, process};

use super::channel::{Channel, Side, Slot};
use super::socket::{self, Socket, Stream};
use super::{accept, demote, listen, option, shadow};
use crate::session;
use crate::table::{self, Kind};
use crate::thread::Critical;

/// Addresses whose answers are remembered; the table starts anew when it is full.
const TARGETS_MAX: usize = 4096;

static TARGETS: Lock<OnceLock<HashMap<NetAddress, Target>>> = Lock::new(OnceLock::new());

/// What the control plane said of one destination.
struct Target {
    /// Session and registry word of the answer: another one may know better.
    epoch: u64,
    registry: u32,
    channels: Vec<Arc<Channel>>,
    refused: Option<Native>,
}

/// A connection about to be made.
pub enum Ticket {
    /// The kernel's own business.
    NotOurs,
    /// To be listed as native, and why.
    Native(Native),
    /// A slot waits for the connection's own address.
    Slot(Slot, NetAddress),
}

/// Before connect(2) on `fd`.
pub fn begin(fd: i32, address: SocketAddr) -> Ticket {
    let _critical = Critical::enter();
    match table::kind(fd) {
        Kind::Unknown if !listen::is_tcp(fd) => return Ticket::NotOurs,
        Kind::Unknown => {}
        Kind::Polled if listen::is_tcp(fd) => return Ticket::Native(Native::PolledBefore),
        _ => return Ticket::NotOurs,
    }
    let address = NetAddress::new(address);
    if !crate::is_enabled() {
        return Ticket::Native(Native::Disabled);
    }
    match slot_for(address) {
        Ok(slot) => Ticket::Slot(slot, address),
        Err(reason) => Ticket::Native(reason),
    }
}

/// After connect(2) gave `answer`.
pub fn end(fd: i32, ticket: Ticket, answer: Result<usize, Errno>) {
    let _critical = Critical::enter();
    let connected = matches!(answer, Ok(_) | Err(Errno(libc::EINPROGRESS)));
    match ticket {
        Ticket::NotOurs => {}
        Ticket::Native(reason) if connected => {
            if reason != Native::PolledBefore {
                accept::begin_native(fd, Side::Client, Path::Native(reason));
            }
        }
        Ticket::Native(_) => {}
        Ticket::Slot(slot, _) if !connected => slot.abandon(),
        Ticket::Slot(slot, address) => {
            if let Err(reason) = offer(fd, slot, address, answer.is_err()) {
                accept::begin_native(fd, Side::Client, Path::Native(reason));
            }
        }
    }
}

/// Puts the connected socket on offer. On this node a handshake ends inside connect(2); one that
/// has not (a full backlog) stays native.
fn offer(fd: i32, slot: Slot, server: NetAddress, in_progress: bool) -> Result<(), Native> {
    let refuse = |slot: Slot, reason| {
        slot.abandon();
        Err(reason)
    };
    if in_progress && !is_established(fd) {
        return refuse(slot, Native::NotAccepted);
    }
    let Some(client) = call::local_address(fd).map(NetAddress::new) else {
        return refuse(slot, Native::NotLocal);
    };
    // Only a server of another user looks at the inode.
    let is_same_user = slot.channel.entry.peer_uid == process::effective_uid_cached();
    let inode = if is_same_user { 0 } else { call::inode(fd).unwrap_or(0) };
    let Some((incoming, outgoing)) = slot.lanes(Side::Client) else {
        return refuse(slot, Native::Corrupt);
    };
    let Some(index) = socket::allocate() else { return refuse(slot, Native::TableFull) };
    if !slot.offer(client, server, inode) {
        socket::free(index);
        return refuse(slot, Native::NotAccepted);
    }
    let socket = socket::at(index);
    let stream = Stream { slot, side: Side::Client, incoming, outgoing };
    socket.receiver.lock().stream = Some(stream.clone());
    socket.sender.lock().stream = Some(stream);
    socket.unclaimed.store(true, Release);
    socket.nonblocking.store(in_progress || call::is_nonblocking(fd), Release);
    option::report_new(fd, socket, Side::Client, Path::Direct, Some((client, server)));
    table::set(fd, Kind::Socket(index));
    Ok(())
}

fn is_established(fd: i32) -> bool {
    let mut fds = [libc::pollfd { fd, events: libc::POLLOUT, revents: 0 }];
    call::poll(&mut fds, 0) == Ok(1) && fds[0].revents == libc::POLLOUT
}

/// A slot towards `address`, from a channel at hand or a new one.
fn slot_for(address: NetAddress) -> Result<Slot, Native> {
    if !address.is_loopback() && !is_local(address) {
        return Err(Native::NotLocal);
    }
    let standing = session::standing()?;
    let mut targets = TARGETS.lock();
    targets.get_or_init(HashMap::new);
    let targets = targets.get_mut().ok_or(Native::NoControl)?;
    if targets.len() >= TARGETS_MAX {
        targets.clear();
    }
    let registry = standing.node.registry();
    let target = targets.entry(address).or_insert(Target {
        epoch: 0,
        registry: 0,
        channels: Vec::new(),
        refused: None,
    });
    target.channels.retain(|channel| channel.state() == State::Active);
    if let Some(slot) = target.channels.iter().find_map(Channel::take_slot) {
        return Ok(slot);
    }
    if let Some(reason) = target.refused {
        if target.epoch == standing.epoch && target.registry == registry {
            return Err(reason);
        }
    }
    if target.channels.len() >= CHANNELS_PER_PAIR_MAX {
        return Err(Native::Full);
    }
    (target.epoch, target.registry, target.refused) = (standing.epoch, registry, None);
    let opened = session::open(address);
    if let Err(reason) = opened {
        if reason != Native::Full {
            target.refused = Some(reason);
        }
        return Err(reason);
    }
    for (entry, fd) in &opened?.entries {
        target.channels.extend(Channel::map(*entry, fd, &standing.node));
    }
    target.channels.last().and_then(Channel::take_slot).ok_or(Native::Corrupt)
}

/// Own addresses are asked of the kernel once each.
fn is_local(address: NetAddress) -> bool {
    static KNOWN: Lock<Vec<(std::net::IpAddr, bool)>> = Lock::new(Vec::new());
    let mut known = KNOWN.lock();
    if let Some((_, local)) = known.iter().find(|(ip, _)| *ip == address.ip) {
        return *local;
    }
    let local = call::is_local_ip(address.ip);
    if known.len() < 64 {
        known.push((address.ip, local));
    }
    local
}

/// Time left to an unclaimed offer; `None` once it is claimed or overdue.
pub fn offer_left_ns(socket: &Socket, stream: &Stream) -> Option<u64> {
    if stream.slot.state() == SlotState::Claimed {
        socket.unclaimed.store(false, Release);
        return None;
    }
    let now = clock::monotonic_ns();
    let ends = match socket.offer_ends_ns.load(Relaxed) {
        0 => {
            let ends = now + OFFER_DEADLINE_MS * 1_000_000;
            socket.offer_ends_ns.store(ends, Relaxed);
            ends
        }
        ends => ends,
    };
    (ends > now).then(|| ends - now)
}

/// Takes an offer back that is overdue, or that the other end has answered over the kernel's
/// connection already, and goes native; true when the caller must look again.
pub fn give_up_late_offer(fd: i32, index: u32, stream: &Stream) -> bool {
    let socket = socket::at(index);
    if !socket.unclaimed.load(Acquire) {
        return false;
    }
    let is_in_time = offer_left_ns(socket, stream).is_some();
    if is_in_time && !shadow::has_stray_bytes(fd, socket, &stream.incoming) {
        return false;
    }
    if !socket.unclaimed.load(Acquire) {
        return false; // it was claimed in time
    }
    let _critical = Critical::enter();
    let withdrawn = demote::withdraw(fd, index, socket, stream, Native::NotAccepted);
    if withdrawn {
        forget_channel(&stream.slot.channel);
    }
    true
}

/// Nobody accepts from this channel: its server may be gone. Ask anew next time.
fn forget_channel(channel: &Arc<Channel>) {
    session::check_alive();
    if let Some(targets) = TARGETS.lock().get_mut() {
        for target in targets.values_mut() {
            target.channels.retain(|known| !Arc::ptr_eq(known, channel));
        }
    }
}

/// In the child of a fork: the parent's channels are not for new connections of ours.
pub fn reset_in_forked_child() {
    TARGETS.reset_in_forked_child();
    std::mem::forget(TARGETS.lock().take());
}
