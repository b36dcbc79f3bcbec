//! The accepting side: finds the offer that belongs to a connection the kernel has accepted.

use std::sync::atomic::Ordering::Release;
use std::sync::Arc;
use std::time::Duration;

use heliostat_abi::channel::SlotState;
use heliostat_abi::code::Native;
use heliostat_abi::name::NetAddress;
use heliostat_abi::report::Path;
use heliostat_base::{clock, spin};

use super::channel::{Channel, Side, Slot};
use super::socket::{self, Stream};
use super::{identity, listen, option};
use crate::session;
use crate::table::{self, Kind};
use crate::thread::{self, Critical};

/// A client that is still inside connect(2) is waited for this long, then declined: its own
/// thread is between the handshake and the next two instructions, but may have lost its core. A
/// client process that let us wait in vain is not waited for again.
const CONNECTING_NS: u64 = 50_000_000;
/// Before that is slept, it is spun for.
const CONNECTING_SPIN_NS: u64 = 2_000;
/// One sleep; the client ends it by its offer.
const CONNECTING_NAP: Duration = Duration::from_millis(5);

/// After accept(2) on `listener` gave `fd`, connected to `peer`.
pub fn accepted(listener: i32, fd: i32, peer: NetAddress, nonblocking: bool) {
    let _critical = Critical::enter();
    let path = match claim(listener, peer) {
        Ok((index, slot, lanes)) => {
            return begin(fd, index, slot, lanes, nonblocking);
        }
        Err(reason) => Path::Native(reason),
    };
    if matches!(path, Path::Native(Native::PeerNotOurs)) {
        // A client that went native may mean that the control plane was restarted.
        session::check_alive();
    }
    begin_native(fd, Side::Server, path);
}

type Lanes = (heliostat_ring::stream::Lane, heliostat_ring::stream::Lane);

fn claim(listener: i32, peer: NetAddress) -> Result<(u32, Slot, Lanes), Native> {
    if !crate::is_enabled() {
        return Err(Native::Disabled);
    }
    let (channels, standing) = listen::channels(listener)?;
    let slot = find(&channels, peer).ok_or(Native::PeerNotOurs)?;
    let lanes = slot.lanes(Side::Server).ok_or(Native::Corrupt)?;
    // A place first: an offer that was claimed must be served.
    let index = socket::allocate().ok_or(Native::TableFull)?;
    match slot.claim(standing.id) {
        true => Ok((index, slot, lanes)),
        false => {
            socket::free(index);
            Err(Native::NotAccepted)
        }
    }
}

/// The offer whose client has `peer`'s address.
fn find(channels: &[Arc<Channel>], peer: NetAddress) -> Option<Slot> {
    let began = clock::monotonic_ns();
    let ends = began + CONNECTING_NS;
    loop {
        let mut connecting = Vec::new();
        // What a client that has ended left on offer may carry an address that is another's now.
        for slot in channels.iter().filter(|channel| channel.is_alive()).flat_map(offers_of) {
            match slot.state() {
                SlotState::Offered if matches(&slot, peer) => return Some(slot),
                SlotState::Connecting => connecting.push(slot),
                _ => {}
            }
        }
        if connecting.is_empty() {
            return None;
        }
        connecting.retain(|slot| !slot.channel.was_slow());
        let now = clock::monotonic_ns();
        if now > ends || connecting.is_empty() {
            connecting.iter().for_each(|slot| {
                slot.channel.note_slow();
                slot.decline();
            });
            return None;
        }
        // On one core the client runs only if we sleep: a yield may give the core back to us.
        if now - began < CONNECTING_SPIN_NS && !thread::peer_is_near() {
            spin::pause();
        } else if let Some(slot) = connecting.first() {
            slot.await_offer(CONNECTING_NAP);
        }
    }
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

fn matches(slot: &Slot, peer: NetAddress) -> bool {
    slot.offered_by().is_some_and(|(client, inode)| {
        client == peer && identity::check(&slot.channel, inode, peer).is_ok()
    })
}

fn begin(fd: i32, index: u32, slot: Slot, (incoming, outgoing): Lanes, nonblocking: bool) {
    let socket = socket::at(index);
    let ends = slot.ends().map(|(client, server)| (server, client));
    let stream = Stream { slot, side: Side::Server, incoming, outgoing };
    socket.receiver.lock().stream = Some(stream.clone());
    socket.sender.lock().stream = Some(stream);
    socket.nonblocking.store(nonblocking, Release);
    option::report_new(fd, socket, Side::Server, Path::Direct, ends);
    table::set(fd, Kind::Socket(index));
}

/// Lists a native connection, so that `explain` can say why.
pub fn begin_native(fd: i32, side: Side, path: Path) {
    let Path::Native(reason) = path else { return };
    let Some(index) = socket::allocate() else {
        crate::report::count_native(reason);
        return;
    };
    let socket = socket::at(index);
    socket.set_native(reason);
    option::report_new(fd, socket, side, path, None);
    table::set(fd, Kind::Socket(index));
}
