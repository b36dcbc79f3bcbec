//! Connections that listening sockets have are taken, as many as there is room for.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::sync::Arc;

use heliostat_abi::listener::Handed;
use heliostat_abi::name::NetAddress;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::getpeername;
use tracing::{debug, warn};

use crate::accepting::{Accepted, Accepting, Batch, ACCEPTED_MAX};
use crate::closing::Foreign;
use crate::hand::PAUSE_NS;
use crate::listener::Listening;
use crate::plugin::Plugin;
use crate::state::{Source, State};

impl State {
    /// A listening socket that is watched for nothing yet.
    pub fn add_socket(&mut self, token: u64, socket: Foreign) {
        self.sources.insert(token, Source::Socket);
        let flags = if self.listener.is_open { EventFlags::IN } else { EventFlags::empty() };
        self.poll.change(&socket, token, flags);
        let fd = Arc::new(socket);
        self.listener.sockets.push(Listening { token, fd, is_away: false });
    }

    /// A plug-in that is watched for nothing yet.
    pub fn set_plugin(&mut self, token: u64, socket: Foreign, now_ns: u64) {
        self.end_plugin(now_ns);
        self.sources.insert(token, Source::Plugin);
        self.poll.change(&socket, token, EventFlags::IN);
        self.listener.plugin = Some(Plugin::new(socket, token));
        self.settle(now_ns);
    }

    /// A listening socket has connections.
    pub fn accept_some(&mut self, token: u64, now_ns: u64) {
        for _ in 0..ACCEPTED_MAX {
            let listener = &mut self.listener;
            if !listener.is_open {
                break;
            }
            let Some(socket) =
                listener.sockets.iter_mut().find(|it| it.token == token && !it.is_away)
            else {
                return;
            };
            let accepted = match &mut self.accepting {
                Accepting::Ring(ring) => {
                    ring.accept(socket.fd.as_fd()).map(|fd| listener.owner.own(fd))
                }
                Accepting::Threads(inbox) => {
                    // It has a batch at a time, and is not looked at meanwhile.
                    let (fd, owner) = (socket.fd.clone(), listener.owner.clone());
                    socket.is_away = inbox.accept(token, fd, owner).is_ok();
                    if !socket.is_away {
                        listener.pause_until_ns = now_ns + PAUSE_NS;
                    }
                    self.poll.change(&*socket.fd, token, EventFlags::empty());
                    break;
                }
            };
            if self.receive(token, accepted, now_ns).is_break() {
                break;
            }
            if !self.listener.held.unplaced.is_empty() {
                self.settle(now_ns);
            }
        }
        self.settle(now_ns);
    }

    /// Threads have accepted something.
    pub fn take_accepted(&mut self, now_ns: u64) {
        let Accepting::Threads(inbox) = &self.accepting else { return };
        for Batch { token, accepted } in inbox.clone().take() {
            for one in accepted {
                let _ = self.receive(token, one, now_ns);
            }
            let listener = &mut self.listener;
            if let Some(socket) = listener.sockets.iter_mut().find(|it| it.token == token) {
                socket.is_away = false;
                let flags = if listener.is_open { EventFlags::IN } else { EventFlags::empty() };
                self.poll.change(&*socket.fd, token, flags);
            }
            self.settle(now_ns);
        }
    }

    /// What came of one accept(2). Breaks where the next one has to wait.
    fn receive(&mut self, token: u64, accepted: Accepted, now_ns: u64) -> ControlFlow<()> {
        let listener = &mut self.listener;
        let error = match accepted {
            Ok(fd) => {
                listener.counts.accepted += 1;
                let serial = listener.counts.accepted;
                let peer = getpeername(&fd).ok().flatten();
                let peer = peer.and_then(|any| SocketAddr::try_from(any).ok());
                // Who has gone already has no address any more.
                let peer = peer.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)));
                self.arrive(Handed { peer: NetAddress::new(peer), serial }, fd, now_ns);
                return ControlFlow::Continue(());
            }
            Err(error) => error,
        };
        match Errno::from_io_error(&error) {
            None | Some(Errno::AGAIN) if error.kind() == ErrorKind::WouldBlock => {}
            Some(Errno::INVAL | Errno::BADF | Errno::NOTSOCK) => {
                warn!(listener = %listener.id, "a listening socket of it listens no more");
                self.drop_socket(token);
            }
            None | Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                warn!(%error, "nothing can be accepted for a shared listener");
                listener.pause_until_ns = now_ns + PAUSE_NS;
            }
            // Errors of the connection itself (accept(2)).
            Some(_) => {
                debug!(%error, "a connection ended before it was accepted");
                return ControlFlow::Continue(());
            }
        }
        ControlFlow::Break(())
    }

    /// A listening socket listens no more.
    pub fn drop_socket(&mut self, token: u64) {
        let gone = self.listener.sockets.iter().position(|it| it.token == token);
        if let Some(at) = gone {
            let socket = self.listener.sockets.swap_remove(at);
            self.poll.ignore(&*socket.fd);
        }
        self.sources.remove(&token);
    }
}
