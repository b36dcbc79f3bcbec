//! accept(2) that holds nobody up.
//!
//! The listening socket's open file is its workers' as well, and each may let it block at any moment:
//! whoever has been told of a connection and finds it taken would wait. So an io_uring accepts, which
//! does not wait whatever the file says. Where the kernel gives none, a thread for each socket that has
//! connections accepts: it waits at most for that socket's next one.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use heliostat_abi::listener::Handed;
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_backend_uring::Acceptor;
use rustix::event::epoll::EventFlags;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{accept_with, getpeername, SocketFlags};
use tracing::{debug, info, warn};

use crate::closing::{Foreign, Owner};
use crate::hand::PAUSE_NS;
use crate::state::State;

/// Connections accepted at once: others want the lock.
pub const ACCEPTED_MAX: usize = 16;

/// What came of one accept(2).
pub type Accepted = io::Result<Foreign>;

/// How connections are accepted.
pub enum Accepting {
    /// By a ring, at once.
    Ring(Box<Acceptor>),
    /// By threads, which put what they have here.
    Threads(Arc<Inbox>),
}

/// What a thread has accepted.
pub struct Batch {
    /// For which listener.
    pub listener: ObjectId,
    /// From which of its sockets.
    pub token: u64,
    /// In order; an error is the last.
    pub accepted: Vec<Accepted>,
}

/// Where threads put what they have accepted.
pub struct Inbox {
    batches: Mutex<Vec<Batch>>,
    /// Rings when there is something.
    bell: OwnedFd,
}

impl Accepting {
    /// By a ring where the kernel gives one.
    ///
    /// # Errors
    /// There is no descriptor.
    pub fn best(bell: &OwnedFd) -> io::Result<Accepting> {
        match Acceptor::create() {
            Ok(ring) => Ok(Accepting::Ring(Box::new(ring))),
            Err(error) => {
                info!(%error, "connections of shared listeners are accepted by threads");
                Self::threads(bell)
            }
        }
    }

    /// By threads.
    ///
    /// # Errors
    /// There is no descriptor.
    pub fn threads(bell: &OwnedFd) -> io::Result<Accepting> {
        let (batches, bell) = (Mutex::default(), rustix::io::fcntl_dupfd_cloexec(bell, 0)?);
        Ok(Accepting::Threads(Arc::new(Inbox { batches, bell })))
    }
}

impl Inbox {
    /// Takes all that is there.
    pub fn take(&self) -> Vec<Batch> {
        std::mem::take(&mut *self.batches.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Accepts in a thread what there is now.
    ///
    /// # Errors
    /// The machine has no thread left.
    pub fn accept(
        self: &Arc<Inbox>,
        (listener, token): (ObjectId, u64),
        socket: Arc<Foreign>,
        owner: Owner,
    ) -> io::Result<()> {
        let inbox = self.clone();
        let thread = std::thread::Builder::new().name("listener-accept".into());
        thread.spawn(move || {
            let accepted = accept_all(&socket, &owner);
            // Its last descriptor may be this one.
            drop(socket);
            let batch = Batch { listener, token, accepted };
            inbox.batches.lock().unwrap_or_else(PoisonError::into_inner).push(batch);
            let _ = rustix::io::write(&inbox.bell, &1u64.to_ne_bytes());
        })?;
        Ok(())
    }
}

fn accept_all(socket: &Foreign, owner: &Owner) -> Vec<Accepted> {
    let mut accepted = Vec::new();
    while accepted.len() < ACCEPTED_MAX {
        // Seldom does somebody let it block between this and the next call.
        if let Ok(flags) = rustix::fs::fcntl_getfl(socket) {
            let _ = rustix::fs::fcntl_setfl(socket, flags | OFlags::NONBLOCK);
        }
        let one = accept_with(socket.as_fd(), SocketFlags::CLOEXEC);
        let is_error = one.is_err();
        accepted.push(one.map(|fd| owner.own(fd)).map_err(io::Error::from));
        if is_error {
            break;
        }
    }
    accepted
}

impl State {
    /// A listening socket has connections.
    pub fn accept_some(&mut self, id: ObjectId, token: u64, now_ns: u64) {
        for _ in 0..ACCEPTED_MAX {
            let Some(listener) = self.listeners.get_mut(&id) else { return };
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
                    let whose = (socket.fd.clone(), listener.owner.clone());
                    socket.is_away = inbox.accept((id, token), whose.0, whose.1).is_ok();
                    if !socket.is_away {
                        listener.pause_until_ns = now_ns + PAUSE_NS;
                    }
                    self.poll.change(&*socket.fd, token, EventFlags::empty());
                    break;
                }
            };
            if self.receive(id, token, accepted, now_ns).is_break() {
                break;
            }
            self.close_where_full(id, now_ns);
        }
        self.settle(id, now_ns);
    }

    /// Threads have accepted something.
    pub fn take_accepted(&mut self, now_ns: u64) {
        let Accepting::Threads(inbox) = &self.accepting else { return };
        for Batch { listener: id, token, accepted } in inbox.clone().take() {
            for one in accepted {
                let _ = self.receive(id, token, one, now_ns);
            }
            let Some(listener) = self.listeners.get_mut(&id) else { continue };
            if let Some(socket) = listener.sockets.iter_mut().find(|it| it.token == token) {
                socket.is_away = false;
                let flags = if listener.is_open { EventFlags::IN } else { EventFlags::empty() };
                self.poll.change(&*socket.fd, token, flags);
            }
            self.settle(id, now_ns);
        }
    }

    /// What came of one accept(2). Breaks where the next one has to wait.
    fn receive(
        &mut self,
        id: ObjectId,
        token: u64,
        accepted: Accepted,
        now_ns: u64,
    ) -> ControlFlow<()> {
        let Some(listener) = self.listeners.get_mut(&id) else { return ControlFlow::Break(()) };
        let error = match accepted {
            Ok(fd) => {
                listener.counts.accepted += 1;
                let serial = listener.counts.accepted;
                let peer = getpeername(&fd).ok().flatten();
                let peer = peer.and_then(|any| SocketAddr::try_from(any).ok());
                // Who has gone already has no address any more.
                let peer = peer.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)));
                self.arrive(id, Handed { peer: NetAddress::new(peer), serial }, fd, now_ns);
                return ControlFlow::Continue(());
            }
            Err(error) => error,
        };
        match Errno::from_io_error(&error) {
            None | Some(Errno::AGAIN) if error.kind() == ErrorKind::WouldBlock => {}
            Some(Errno::INVAL | Errno::BADF | Errno::NOTSOCK) => {
                warn!(listener = %id, "a listening socket of it listens no more");
                self.drop_socket(id, token);
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

    fn close_where_full(&mut self, id: ObjectId, now_ns: u64) {
        let is_full = |it: &crate::listener::SharedListener| !it.held.unplaced.is_empty();
        if self.listeners.get(&id).is_some_and(is_full) {
            self.settle(id, now_ns);
        }
    }

    /// A listening socket listens no more.
    pub fn drop_socket(&mut self, id: ObjectId, token: u64) {
        let Some(listener) = self.listeners.get_mut(&id) else { return };
        let gone = listener.sockets.iter().position(|it| it.token == token);
        if let Some(at) = gone {
            let socket = listener.sockets.swap_remove(at);
            self.poll.ignore(&*socket.fd);
        }
        self.sources.remove(&token);
    }
}
