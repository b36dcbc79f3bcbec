//! The accepting side: finds the offer that belongs to a connection the kernel has accepted.

pub mod later;

use std::collections::HashMap;
use std::io::IoSlice;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::Arc;

use heliostat_abi::code::Native;
use heliostat_abi::limits::{CANDIDATES_MAX, SLOTS_LOOKED_AT_MAX, UNDECIDED_MS};
use heliostat_abi::name::NetAddress;
use heliostat_abi::session::report::Path;
use heliostat_abi::stream::channel::SlotState;
use heliostat_base::lock::Guard;
use heliostat_base::{call, clock, spin};
use heliostat_client::session;

use super::channel::{Channel, Side, Slot};
use super::early::proof;
use super::socket::{self, Connection, Receiver, Socket, Stage, Stream};
use super::undecided::{is_from, Lanes, Undecided};
use super::watch::early;
use super::{delegated, handover, kernel, listen, report_line, shadow};
use crate::table::{self, DescriptorKind};
use crate::thread::Critical;
use crate::Answer;

/// An offer comes a few instructions after the handshake, where its client runs on.
const CONNECTING_SPIN_NS: u64 = 2_000;
/// Before a fork, which needs an answer now, the client's thread is given this long to run, by yields.
const CONNECTING_YIELD_NS: u64 = 200_000;
/// After that by short sleeps, since others may take what is yielded: this long at most.
const CONNECTING_SLEEP_NS: u64 = 3_000_000;
const NAP_NS: u64 = 100_000;
/// After a wait in vain nobody waits for so long: clients that stay in connect(2), whoever they are,
/// cost an acceptor that forks one part in twenty of its time, and one that does not fork nothing.
const IMPATIENCE_NS: u64 = 60_000_000;

/// More than this is not sent on a connection that is undecided: it would have to be waited for.
const UNDECIDED_BYTES: usize = 4096;

/// Monotonic time before which no undecided connection is waited for.
static IMPATIENT_UNTIL_NS: AtomicU64 = AtomicU64::new(0);

/// After accept(2) on `listener` gave `fd`, connected to `peer`.
pub fn accepted(listener: i32, fd: i32, peer: NetAddress, nonblocking: bool) {
    let _critical = Critical::enter();
    later::look();
    let answer = candidates(listener, peer).and_then(|undecided| {
        let index = socket::allocate().ok_or(Native::TableFull)?;
        Ok((index, undecided))
    });
    let (index, undecided) = match answer {
        Ok(found) => found,
        Err(reason) => {
            doubt_control_plane(reason);
            if let Err(reason) = delegated::accepted(fd, reason) {
                let known = Some(peer).filter(|peer| peer.port != 0);
                report_line::list_native(fd, Side::Server, Path::Native(reason), known);
            }
            return;
        }
    };
    session::be_known();
    let socket = socket::at(index);
    socket.nonblocking.store(nonblocking, Release);
    socket.receiver.lock().undecided = Some(Box::new(undecided));
    socket.set_stage(Stage::Undecided);
    table::set(fd, DescriptorKind::Socket(index));
    decide_soon(fd, index, |waited| waited < CONNECTING_SPIN_NS, spin::pause);
    if socket.stage() == Stage::Undecided {
        report_line::list_undecided(fd, socket);
        later::keep(fd, index);
    }
}

/// Decides for good, because this process forks: on a busy core the client may be inside connect(2)
/// still, and runs when this thread does not.
#[cold]
pub fn decide_at_last(fd: i32, index: u32) {
    let is_open = || socket::at(index).stage() == Stage::Undecided;
    if is_open() && clock::monotonic_ns() >= IMPATIENT_UNTIL_NS.load(Relaxed) {
        decide_soon(fd, index, |waited| waited < CONNECTING_YIELD_NS, spin::yield_now);
        let nap = || _ = call::ppoll(&mut [], Some(NAP_NS), None);
        if is_open() {
            decide_soon(fd, index, |waited| waited < CONNECTING_SLEEP_NS, nap);
        }
        if is_open() {
            IMPATIENT_UNTIL_NS.store(clock::monotonic_ns() + IMPATIENCE_NS, Relaxed);
        }
    }
    decide(fd, index, Some(Native::Crossed));
}

/// send(2) on a connection whose offer may still come: what the kernel takes at once is counted. More
/// than that makes it native, which the kernel then goes on with.
#[cold]
pub fn send_undecided(fd: i32, index: u32, buffers: &[IoSlice<'_>], flags: i32) -> Answer {
    let _critical = Critical::enter();
    let socket = socket::at(index);
    let wanted: usize = buffers.iter().map(|buffer| buffer.len()).sum();
    if wanted <= UNDECIDED_BYTES {
        let mut receiver = socket.receiver.lock();
        if let Some(undecided) = &mut receiver.undecided {
            undecided.candidates.iter().for_each(Slot::note_written);
            let now = flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            if let Ok(count) = call::send_many(fd, buffers, now) {
                undecided.sent += count as u64;
                drop(receiver);
                socket.sender.lock().count_sent(count);
                return Some(Ok(count));
            }
        }
    }
    decide(fd, index, Some(Native::Crossed));
    None
}

/// Before the accepting side writes, or says what has come: it may know more of the offer now.
#[cold]
pub fn learn_more(fd: i32, index: u32) {
    let socket = socket::at(index);
    match socket.stage() {
        Stage::Undecided => decide(fd, index, None),
        Stage::Accepted => {
            if let Some(stream) = socket.stream() {
                _ = proof::look(Connection::new(fd, socket, &stream));
            }
        }
        _ => {}
    }
}

fn decide_soon(fd: i32, index: u32, may_wait: impl Fn(u64) -> bool, pause: impl Fn()) {
    let began = clock::monotonic_ns();
    loop {
        decide(fd, index, None);
        let is_open = socket::at(index).stage() == Stage::Undecided;
        if !is_open || !may_wait(clock::monotonic_ns() - began) {
            return;
        }
        pause();
    }
}

/// The slots in which the offer of a connection just accepted may lie; there is at least one.
fn candidates(listener: i32, peer: NetAddress) -> Result<Undecided, Native> {
    if !crate::is_enabled() {
        return Err(crate::native_as_a_whole());
    }
    let (channels, standing) = listen::channels(listener)?;
    let candidates = among(&channels, peer);
    if candidates.is_empty() {
        return Err(no_offer(peer));
    }
    let ends_at_ns = clock::monotonic_ns() + UNDECIDED_MS * 1_000_000;
    Ok(Undecided { peer, candidates, acceptor: standing.id, taken: 0, sent: 0, ends_at_ns })
}

/// The offer of `peer`, or all that may become it. No user has more slots looked at, nor waited for,
/// than its share: what others offer, or never do, costs a connection nothing.
fn among(channels: &[Arc<Channel>], peer: NetAddress) -> Vec<Slot> {
    let mut candidates = Vec::new();
    let mut looks: HashMap<u32, (usize, usize)> = HashMap::new();
    // What a client that has ended left on offer may carry an address that is another's now.
    for channel in channels.iter().filter(|channel| channel.offers() != 0 && channel.is_alive()) {
        let (looked, waited) = looks.entry(channel.entry.peer_uid).or_default();
        for slot in offers_of(channel).take(SLOTS_LOOKED_AT_MAX - *looked) {
            *looked += 1;
            match slot.state() {
                SlotState::Offered if is_from(&slot, peer) => return vec![slot],
                SlotState::Connecting if *waited < CANDIDATES_MAX => {
                    *waited += 1;
                    candidates.push(slot);
                }
                _ => {}
            }
        }
    }
    candidates
}

fn no_offer(peer: NetAddress) -> Native {
    if !kernel::is_on_this_node(peer) {
        return Native::NotLocal;
    }
    Native::NoOffer
}

fn offers_of(channel: &Arc<Channel>) -> impl Iterator<Item = Slot> + '_ {
    let mut bits = channel.offers();
    std::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let index = bits.trailing_zeros();
        bits &= bits - 1;
        channel.slot(index)
    })
}

/// Looks for the offer of an undecided connection, and claims it. Where it cannot come any more, or
/// an answer is needed now, `at_last`, the connection is native from here on.
pub fn decide(fd: i32, index: u32, at_last: Option<Native>) {
    if let Some(reason) = decide_under_locks(fd, index, at_last) {
        doubt_control_plane(reason);
    }
}

/// A client that went native may mean that the control plane was restarted. Who looks waits for other
/// threads that ask it, and holds no lock that a close(2) takes.
fn doubt_control_plane(reason: Native) {
    if reason == Native::NoOffer {
        session::check_alive();
    }
}

/// As `decide`, and asks nobody; why it went native, if it did now.
fn decide_under_locks(fd: i32, index: u32, at_last: Option<Native>) -> Option<Native> {
    let socket = socket::at(index);
    if socket.stage() != Stage::Undecided {
        return None;
    }
    let _critical = Critical::enter();
    let mut receiver = socket.receiver.lock();
    let undecided = receiver.undecided.as_mut()?;
    // Who sleeps on the shadow now would hear no bell.
    let sleeps = socket.sleepers.load(Acquire) > 0;
    let found = if sleeps { None } else { undecided.find() };
    let reason = match found {
        Some(slot) => {
            let claimed = handover::silence(fd).and_then(|()| {
                // Without random bytes nothing can be proven.
                let secret = proof::new_secret().ok_or(Native::Identity)?;
                undecided.claim(&slot, &secret).map(|lanes| (lanes, secret))
            });
            match claimed {
                Ok((lanes, secret)) => {
                    socket.set_secret(&secret);
                    let moved = (undecided.taken, undecided.sent);
                    receiver.undecided = None;
                    begin(fd, index, receiver, slot, lanes, moved);
                    return None;
                }
                Err(reason) => Some(reason),
            }
        }
        None if !sleeps && undecided.candidates.is_empty() => Some(no_offer(undecided.peer)),
        None if clock::monotonic_ns() > undecided.ends_at_ns => at_last.or(Some(Native::Crossed)),
        None => at_last,
    };
    let reason = reason?;
    receiver.undecided = None;
    drop(receiver);
    go_native(fd, socket, reason);
    early::restore(fd);
    early::forget(fd);
    Some(reason)
}

fn begin(
    fd: i32,
    index: u32,
    mut receiver: Guard<'_, Receiver>,
    slot: Slot,
    (incoming, outgoing): Lanes,
    (taken, sent): (u64, u64),
) {
    let socket = socket::at(index);
    let ends = slot.ends().map(|(client, server)| (server, client));
    incoming.note_taken(taken);
    outgoing.extend_prefix(sent);
    let stream = Stream { slot, side: Side::Server, incoming, outgoing };
    receiver.stream = Some(stream.clone());
    socket.sender.lock().stream = Some(stream);
    socket.set_stage(Stage::Accepted);
    drop(receiver);
    shadow::options::note_early(fd, socket);
    report_line::begin(fd, socket, Side::Server, Path::Direct, ends);
    handover::become_stream(fd, index);
}

fn go_native(fd: i32, socket: &Socket, reason: Native) {
    socket.set_stage(Stage::Settled);
    socket.set_native(reason);
    report_line::begin(fd, socket, Side::Server, Path::Native(reason), None);
}
