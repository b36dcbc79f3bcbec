//! Connect and Listen: new sockets, for who may reach their address.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use heliostat_abi::file::delegated::Operation;
use heliostat_abi::listener::rule::Peek;
use heliostat_abi::listener::Rule;
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::socket::operation::{
    BACKLOG_MAX, BY_ADDRESS, BY_CONTENT, BY_LOAD, BY_TURN, RULES, SHARED_BIT,
};
use heliostat_abi::socket::Access;
use heliostat_server_loop::{Parts, Step, Turn};
use heliostat_service_listener::Member;
use rustix::io::Errno;
use rustix::net::{self, sockopt, AddressFamily, SocketFlags, SocketType};

use super::address::{destination, own_of, put, socket_address, take};
use super::budget::Budget;
use super::guest::Guest;
use super::listener::{Listener, ListenerKey};
use super::message::SocketEvent;
use super::socket::Kind;
use super::sockets::Sockets;
use super::wait::{wait, For};

/// Begins to connect, or looks what has become of it.
pub(crate) fn connect(turn: &mut Turn<'_, Sockets>, asked: &Operation) -> Step {
    if let Some(socket) = turn.session.service.connecting.get(&turn.id.operation).copied() {
        return connected(turn, socket);
    }
    let (to, _) = match judged(turn, asked, Access::Connect) {
        Ok(judged) => judged,
        Err(errno) => return turn.fail(errno),
    };
    let begun = new_socket(to).and_then(|socket| {
        // Small answers are what these connections are for; nobody can set it later.
        sockopt::set_tcp_nodelay(&socket, true)?;
        match net::connect(&socket, &socket_address(to)) {
            Ok(()) => Ok((socket, false)),
            Err(Errno::INPROGRESS) => Ok((socket, true)),
            Err(errno) => Err(errno),
        }
    });
    let (descriptor, is_connecting) = match begun {
        Ok(begun) => begun,
        Err(errno) => return turn.fail(errno.raw_os_error()),
    };
    let kind = Kind::Connection { is_connecting, of: None };
    let socket = match Sockets::insert(turn.engine, turn.session, turn.id.seat, descriptor, kind) {
        Ok(socket) => socket,
        Err((errno, _)) => return turn.fail(errno),
    };
    if !is_connecting {
        return end_with_socket(turn, socket);
    }
    turn.session.service.connecting.insert(turn.id.operation, socket);
    wait(turn, socket, For::Room)
}

/// The connection is established, has failed, or takes longer.
fn connected(turn: &mut Turn<'_, Sockets>, id: ObjectId) -> Step {
    let Some(socket) = turn.session.objects.get_mut(id) else { return turn.fail(libc::EBADF) };
    let error = sockopt::socket_error(&socket.descriptor);
    if let Ok(Err(errno)) = error {
        // `ended` names the socket as one that nobody knows, and it is let go of.
        turn.engine.service.cut(turn.session.id, turn.id.operation);
        return turn.fail(errno.raw_os_error());
    }
    if net::getpeername(&socket.descriptor).ok().flatten().is_none() {
        return wait(turn, id, For::Room);
    }
    if let Kind::Connection { is_connecting, .. } = &mut socket.kind {
        *is_connecting = false;
    }
    turn.session.service.connecting.remove(&turn.id.operation);
    end_with_socket(turn, id)
}

fn end_with_socket(turn: &mut Turn<'_, Sockets>, id: ObjectId) -> Step {
    turn.session.end_with(turn.engine, turn.id.operation, i64::from(id.index), id.generation);
    Step::Over
}

/// Listens: alone, or with others of the user.
pub(crate) fn listen(turn: &mut Turn<'_, Sockets>, asked: &Operation) -> Step {
    let (at, guest) = match judged(turn, asked, Access::Listen) {
        Ok(judged) => judged,
        Err(errno) => return turn.fail(errno),
    };
    let is_shared = asked.argument & SHARED_BIT != 0;
    let key = is_shared.then_some((guest.user, at));
    let open = || {
        let backlog = (asked.argument & !(SHARED_BIT | RULES)).min(BACKLOG_MAX) as i32;
        let opened = open_listener(at, backlog, key, guest.budget.clone());
        opened.map_err(|errno| errno.raw_os_error())
    };
    let listeners = turn.engine.service.listeners.clone();
    let rule = rule_of(asked.argument);
    let joined = match key {
        Some(key) => listeners.share(key, open, |listener| join(turn, listener, &guest, rule)),
        None => open().and_then(|listener| join(turn, &listener, &guest, rule)),
    };
    match joined {
        Ok((id, address)) => {
            if let Some(piece) = asked.pieces.as_slice().first() {
                put(&turn.session.window, piece, address);
            }
            end_with_socket(turn, id)
        }
        Err(errno) => turn.fail(errno),
    }
}

/// The rule that Listen's argument names.
fn rule_of(argument: u64) -> Option<Rule> {
    match argument & RULES {
        BY_LOAD => Some(Rule::LeastLoad),
        BY_TURN => Some(Rule::RoundRobin),
        BY_ADDRESS => Some(Rule::Address),
        BY_CONTENT => Some(Rule::Content(Peek::USUAL)),
        _ => None,
    }
}

/// Makes the session a member of a listener: its name for it, and the address.
fn join(
    turn: &mut Turn<'_, Sockets>,
    listener: &Arc<Listener>,
    guest: &Guest,
    rule: Option<Rule>,
) -> Result<(ObjectId, NetAddress), i32> {
    let descriptor = listener.socket.try_clone().map_err(|_| libc::ENFILE)?;
    let kind = Kind::Listener(listener.clone());
    let inserted = Sockets::insert(turn.engine, turn.session, turn.id.seat, descriptor, kind);
    let id = inserted.map_err(|(errno, _)| errno)?;
    // Who runs the node has the last word on what it has configured.
    let rule = guest.judge.rule(listener.address).or(rule);
    listener.join(Member::new(turn.session.id, id), turn.engine.number, rule);
    Ok((id, listener.address))
}

/// The address in an operation's piece and whose session it is, where that one may reach it.
fn judged(
    turn: &mut Turn<'_, Sockets>,
    asked: &Operation,
    access: Access,
) -> Result<(NetAddress, Guest), i32> {
    let guest = turn.session.service.guest.clone().ok_or(libc::EACCES)?;
    let piece = asked.pieces.as_slice().first().ok_or(libc::EINVAL)?;
    let named = take(&turn.session.window, piece).ok_or(libc::EINVAL)?;
    let address = if access == Access::Connect { destination(named) } else { named };
    if let Err(errno) = guest.judge.judge(access, address) {
        let refusals = &turn.session.service.refusals;
        if refusals.add() {
            let event = SocketEvent::Refused(turn.session.id, access, address, refusals.clone());
            turn.engine.tell(event);
        }
        return Err(errno);
    }
    Ok((address, guest))
}

fn new_socket(address: NetAddress) -> Result<OwnedFd, Errno> {
    let family = if address.ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    net::socket_with(family, SocketType::STREAM, flags, None)
}

fn open_listener(
    at: NetAddress,
    backlog: i32,
    key: Option<ListenerKey>,
    budget: Arc<Budget>,
) -> Result<Arc<Listener>, Errno> {
    // The listener has a descriptor of its own, beside those of its members.
    let slot = budget.take().ok_or(Errno::NFILE)?;
    let socket = new_socket(at)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    net::bind(&socket, &socket_address(at))?;
    net::listen(&socket, backlog)?;
    let address = own_of(&socket).unwrap_or(at);
    // Who asks for any port gets one, and others find it by that.
    let key = key.map(|(user, _)| (user, address));
    Ok(Listener::new(socket, key, address, (budget, slot)))
}
