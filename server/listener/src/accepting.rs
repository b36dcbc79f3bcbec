//! accept(2) that holds nobody up.
//!
//! The listening socket's open file is its workers' as well, and each may let it block at any moment:
//! whoever has been told of a connection and finds it taken would wait. So an io_uring accepts, which
//! does not wait whatever the file says. Where the kernel gives none, a thread for each socket that has
//! connections accepts: it waits at most for that socket's next one.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use heliostat_backend_uring::Acceptor;
use rustix::net::{accept_with, SocketFlags};
use tracing::info;

use crate::closing::{Foreign, Owner};

/// Connections accepted at once: orders and workers wait meanwhile.
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
    /// From which of the listener's sockets.
    pub token: u64,
    /// In order; an error is the last.
    pub accepted: Vec<Accepted>,
}

/// Where threads put what they have accepted.
pub struct Inbox {
    batches: Mutex<Vec<Batch>>,
    /// One for each socket at most.
    threads: Mutex<Vec<JoinHandle<()>>>,
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
        let bell = rustix::io::fcntl_dupfd_cloexec(bell, 0)?;
        let (batches, threads) = (Mutex::default(), Mutex::default());
        Ok(Accepting::Threads(Arc::new(Inbox { batches, threads, bell })))
    }

    /// Ends with its threads, each of which may be kept: who waits for this counts them by that.
    pub fn end(self) {
        if let Accepting::Threads(inbox) = self {
            let mut threads = inbox.threads.lock().unwrap_or_else(PoisonError::into_inner);
            let threads = std::mem::take(&mut *threads);
            threads.into_iter().for_each(|thread| _ = thread.join());
        }
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
        token: u64,
        socket: Arc<Foreign>,
        owner: Owner,
    ) -> io::Result<()> {
        let inbox = self.clone();
        let thread = std::thread::Builder::new().name("listener-accept".into());
        let started = thread.spawn(move || {
            let accepted = accept_all(&socket, &owner);
            // Its last descriptor may be this one.
            drop(socket);
            let batch = Batch { token, accepted };
            inbox.batches.lock().unwrap_or_else(PoisonError::into_inner).push(batch);
            let _ = rustix::io::write(&inbox.bell, &1u64.to_ne_bytes());
        })?;
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|thread| !thread.is_finished());
        threads.push(started);
        Ok(())
    }
}

fn accept_all(socket: &Foreign, owner: &Owner) -> Vec<Accepted> {
    let mut accepted = Vec::new();
    while accepted.len() < ACCEPTED_MAX {
        // Seldom does somebody let it block between this and the next call.
        let _ = rustix::io::ioctl_fionbio(socket, true);
        let one = accept_with(socket.as_fd(), SocketFlags::CLOEXEC);
        let is_error = one.is_err();
        accepted.push(one.map(|fd| owner.own(fd)).map_err(io::Error::from));
        if is_error {
            break;
        }
    }
    accepted
}
