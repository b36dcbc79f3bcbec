//! A connection's line in the report: given when it begins, written anew when it goes native.

use std::collections::BTreeSet;
use std::sync::Arc;

use heliostat_abi::code::Native;
use heliostat_abi::name::NetAddress;
use heliostat_abi::session::report::{Counter, Entry, Path};
use heliostat_base::call;
use heliostat_base::sync::Ordering::Relaxed;
use heliostat_client::session;

use super::channel::Side;
use super::socket::{self, Socket};
use crate::report;
use crate::table::{self, DescriptorKind};

/// Gives a connection its line in the report; `ends` are its own and its peer's address, asked of
/// the kernel when not known.
pub fn begin(
    fd: i32,
    socket: &Socket,
    side: Side,
    path: Path,
    ends: Option<(NetAddress, NetAddress)>,
) {
    match path {
        Path::Direct => report::count(Counter::Direct),
        Path::Delegated => report::count(Counter::Delegated),
        Path::Native(reason) => report::count_native(reason),
    }
    socket.accepted.store(side == Side::Server, Relaxed);
    give_line(fd, socket, path, ends);
}

/// Lists a native connection, so that `explain` can say why; `peer` where it is known.
pub fn list_native(fd: i32, side: Side, path: Path, peer: Option<NetAddress>) {
    let Path::Native(reason) = path else { return };
    session::be_known();
    let Some(index) = socket::allocate() else {
        report::count_native(reason);
        return;
    };
    let socket = socket::at(index);
    socket.set_native(reason);
    begin(fd, socket, side, path, peer.and_then(|peer| ends_of(fd, Some(peer))));
    table::set(fd, DescriptorKind::Socket(index));
}

/// Lists an accepted connection of which nobody knows yet what it becomes; it is counted then.
pub fn list_undecided(fd: i32, socket: &Socket) {
    socket.accepted.store(true, Relaxed);
    give_line(fd, socket, Path::Native(Native::Undecided), None);
}

/// The line; `Side` is what `socket.accepted` says.
fn give_line(fd: i32, socket: &Socket, path: Path, ends: Option<(NetAddress, NetAddress)>) {
    let accepted = socket.accepted.load(Relaxed);
    let Some(ends) = ends.or_else(|| ends_of(fd, None)) else { return };
    let line = report::line(&entry_of(fd, socket, accepted, path, ends)).map(Arc::new);
    socket.receiver.lock().line = line.clone();
    socket.sender.lock().line = line;
}

/// In a forked child that is about to wait: lists the connections that it got from its parent, whose
/// lines stay the parent's. They were counted where they began.
pub fn list_inherited() {
    let mut seen = BTreeSet::new();
    for (fd, kind) in table::walk(0, u32::MAX) {
        let DescriptorKind::Socket(index) = kind else { continue };
        let socket = socket::at(index);
        if !seen.insert(index) || socket.receiver.lock().line.is_some() {
            continue;
        }
        session::be_known();
        give_line(fd, socket, socket.path(), None);
    }
}

/// A connection's ends; the kernel is asked for what is not known.
fn ends_of(fd: i32, peer: Option<NetAddress>) -> Option<(NetAddress, NetAddress)> {
    let local = NetAddress::new(call::local_address(fd)?);
    let peer = match peer {
        Some(known) => known,
        None => NetAddress::new(call::peer_address(fd)?),
    };
    Some((local, peer))
}

/// Rewrites the line of a connection that went native.
pub fn become_native(socket: &Socket, fd: i32, reason: Native) {
    let line = socket.receiver.lock().line.clone();
    let Some(line) = line else { return };
    if let Some(ends) = ends_of(fd, None) {
        line.write(&entry_of(fd, socket, line.accepted, Path::Native(reason), ends));
    }
}

fn entry_of(
    fd: i32,
    socket: &Socket,
    accepted: bool,
    path: Path,
    (local, peer): (NetAddress, NetAddress),
) -> Entry {
    let received = socket.receiver.lock().received;
    Entry { fd, path, accepted, local, peer, received, sent: socket.sender.lock().sent }
}

/// Adds bytes that the kernel moved on a native connection, for the report.
pub fn count_native(index: u32, received: u64, sent: u64) {
    let socket = socket::at(index);
    if !socket.is_native() || socket.generation() == 0 {
        return;
    }
    if received > 0 {
        let mut half = socket.receiver.lock();
        half.received += received;
        let total = half.received;
        half.line.iter().for_each(|line| line.received(total));
    }
    if sent > 0 {
        let mut half = socket.sender.lock();
        half.sent += sent;
        let total = half.sent;
        half.line.iter().for_each(|line| line.sent(total));
    }
}
