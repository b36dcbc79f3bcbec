//! The connecting side: asks once per address, offers a slot per connection.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, OnceLock};

use heliostat_abi::code::Native;
use heliostat_abi::limits::{CHANNELS_PER_PAIR_MAX, OFFER_OVERDUE_MS};
use heliostat_abi::name::NetAddress;
use heliostat_abi::session::node::State;
use heliostat_abi::session::report::Path;
use heliostat_abi::stream::channel::SlotState;
use heliostat_base::lock::Lock;
use heliostat_base::sys::Errno;
use heliostat_base::{call, clock};
use heliostat_client::session;

use super::channel::{Channel, Side, Slot};
use super::connecting::{self, Progress};
use super::socket::{self, Socket, Stage, Stream};
use super::watch::early;
use super::{delegated, handover, kernel, report_line, requests, shadow, switch};
use crate::table::{self, DescriptorKind};
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
        DescriptorKind::Unknown if !kernel::is_tcp(fd) => return Ticket::NotOurs,
        DescriptorKind::Unknown | DescriptorKind::Early => {}
        DescriptorKind::Polled if kernel::is_tcp(fd) => {
            return Ticket::Native(Native::PolledBefore)
        }
        _ => return Ticket::NotOurs,
    }
    let address = NetAddress::new(address);
    if !crate::is_enabled() {
        return Ticket::Native(crate::native_as_a_whole());
    }
    let slot = match slot_for(address) {
        Ok(slot) => slot,
        Err(reason) => return Ticket::Native(reason),
    };
    if let Err(reason) = handover::silence(fd) {
        slot.abandon();
        early::restore(fd);
        return Ticket::Native(reason);
    }
    Ticket::Slot(slot, address)
}

/// How far connect(2) has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reached {
    /// There is no connection.
    Failed,
    /// The handshake goes on.
    UnderWay,
    /// There is one, and connect(2) said so, or did not wait to say it.
    Established { in_progress: bool },
}

/// After connect(2) gave `answer`.
pub fn end(fd: i32, ticket: Ticket, answer: Result<usize, Errno>) {
    let _critical = Critical::enter();
    match (ticket, reached(fd, answer)) {
        (Ticket::NotOurs, _) => {}
        (Ticket::Native(_), Reached::Failed) => {}
        (Ticket::Native(reason), Reached::UnderWay) => begin_later(fd, reason),
        (Ticket::Native(reason), Reached::Established { .. }) => {
            if let Err(reason) = delegated::connected(fd, reason) {
                begin_later(fd, reason);
            }
        }
        (Ticket::Slot(slot, _), Reached::Failed) => {
            slot.abandon();
            early::restore(fd);
        }
        // On this node a handshake ends inside connect(2); only a full backlog holds one up.
        (Ticket::Slot(slot, _), Reached::UnderWay) => {
            slot.abandon();
            begin_native(fd, Native::NotAccepted);
        }
        (Ticket::Slot(slot, address), Reached::Established { in_progress }) => {
            match offer(fd, slot, address, in_progress) {
                Ok(index) => handover::become_stream(fd, index),
                Err(reason) => begin_native(fd, reason),
            }
        }
    }
}

/// Where connect(2) did not wait, the socket tells, whose error stays for the program to fetch.
fn reached(fd: i32, answer: Result<usize, Errno>) -> Reached {
    match answer {
        Ok(_) => return Reached::Established { in_progress: false },
        Err(Errno(libc::EINPROGRESS)) => {}
        Err(_) => return Reached::Failed,
    }
    match connecting::progress(fd) {
        Progress::Established => Reached::Established { in_progress: true },
        Progress::Failed => Reached::Failed,
        Progress::UnderWay => Reached::UnderWay,
    }
}

/// Native, at least until its program knows of it.
fn begin_later(fd: i32, reason: Native) {
    if !connecting::begin(fd, reason) {
        begin_native(fd, reason);
    }
}

fn begin_native(fd: i32, reason: Native) {
    early::restore(fd);
    early::forget(fd);
    report_line::list_native(fd, Side::Client, Path::Native(reason), None);
}

/// Puts the connected socket on offer.
fn offer(fd: i32, slot: Slot, server: NetAddress, in_progress: bool) -> Result<u32, Native> {
    let refuse = |slot: Slot, reason| {
        slot.abandon();
        Err(reason)
    };
    let Some(client) = call::local_address(fd).map(NetAddress::new) else {
        return refuse(slot, Native::NotLocal);
    };
    // Looked at by a server of another user, which it may have become since it began to listen.
    let inode = call::inode(fd).unwrap_or(0);
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
    socket.offered_at_ns.store(clock::monotonic_ns(), Relaxed);
    socket.set_stage(Stage::Offered);
    socket.nonblocking.store(in_progress || call::is_nonblocking(fd), Release);
    shadow::options::note_early(fd, socket);
    report_line::begin(fd, socket, Side::Client, Path::Direct, Some((client, server)));
    table::set(fd, DescriptorKind::Socket(index));
    Ok(index)
}

/// A slot towards `address`, from a channel at hand or a new one.
fn slot_for(address: NetAddress) -> Result<Slot, Native> {
    if !kernel::is_on_this_node(address) {
        return Err(Native::NotLocal);
    }
    let standing = requests::standing()?;
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
    if !target.channels.is_empty() && reclaim_overdue() {
        if let Some(slot) = target.channels.iter().find_map(Channel::take_slot) {
            return Ok(slot);
        }
    }
    if target.channels.len() >= CHANNELS_PER_PAIR_MAX {
        return Err(Native::Full);
    }
    (target.epoch, target.registry, target.refused) = (standing.epoch, registry, None);
    let opened = requests::open(address);
    if let Err(reason) = opened {
        if !matches!(reason, Native::Full | Native::TableFull) {
            target.refused = Some(reason);
        }
        return Err(reason);
    }
    for (entry, fd) in &opened?.entries {
        target.channels.extend(Channel::map(*entry, fd, &standing.node));
    }
    target.channels.last().and_then(Channel::take_slot).ok_or(Native::Corrupt)
}

/// Offers that nobody has answered for long give their slots back, for a new connection: theirs are
/// native from here on, as they were in all that was sent. False when there were none.
fn reclaim_overdue() -> bool {
    let now = clock::monotonic_ns();
    let is_overdue = |socket: &Socket| {
        socket.stage() == Stage::Offered
            && socket.stream().is_some_and(|stream| stream.slot.state() == SlotState::Offered)
            && now.saturating_sub(socket.offered_at_ns.load(Relaxed)) > OFFER_OVERDUE_MS * 1_000_000
    };
    let mut found = false;
    for (fd, kind) in table::walk(0, u32::MAX) {
        if let DescriptorKind::Socket(index) = kind {
            found |=
                is_overdue(socket::at(index)) && switch::withdraw(fd, index, Native::NotAccepted);
        }
    }
    found
}

/// Nobody accepts from this channel: its server may be gone. Ask anew next time.
pub fn forget_channel(channel: &Arc<Channel>) {
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
