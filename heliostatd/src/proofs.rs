//! Sockets that clients show are looked at beside the event loop, because that may wait for their owner.
//!
//! Where a socket listens the kernel tells under the socket's lock, and so it changes an option. Whoever
//! has the socket too holds that lock for as long as it pleases: by a call that faults in memory whose
//! faults it answers itself. So a pool takes the question, as another one closes (`closer`): each user,
//! and each sealed program, has a line of its own and so many of the threads, and beyond a length of the
//! line it is refused.
//!
//! ```text
//! Listen, Join [socket] --> line of its user --> thread: examine --bell--> event loop: its answer
//!                             '-- full: refused
//! ```

mod lines;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use heliostat_abi::listener::Rule;
use heliostat_abi::name::ObjectId;
use heliostat_server_loop::pool::{Pool, Work};
use heliostat_service_grant::{Exceeded, Holder, Used};
use heliostat_service_net::Proof;
use rustix::event::{eventfd, EventfdFlags};

use crate::closer::ReceivedFd;
use crate::proof::{self, NoProof};

use lines::Lines;

/// Threads that examine: some may be kept by each user.
const THREADS_MAX: usize = 32;

/// What a socket was shown for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// To register its address.
    Listen,
    /// To be a worker of a shared listener, made by this rule where there is none.
    Join(Option<Rule>),
}

/// A socket that was shown, and by which request.
pub struct Shown {
    /// The session.
    pub session: ObjectId,
    /// The request's number.
    pub sequence: u32,
    /// Whose share it counts against.
    pub holder: Holder,
    /// What for.
    pub purpose: Purpose,
    /// The socket.
    pub socket: ReceivedFd,
}

/// What the kernel says of it.
pub struct Examined {
    /// The session.
    pub session: ObjectId,
    /// The request's number.
    pub sequence: u32,
    /// What it was shown for.
    pub purpose: Purpose,
    /// Where it listens.
    pub proof: Result<Proof, NoProof>,
    /// The socket, if it is used on.
    pub socket: Option<ReceivedFd>,
}

/// The pool, and what it has found.
pub struct Proofs {
    pool: Pool<Examining>,
    /// Sessions that wait, each for the request with this number.
    waiting: HashMap<ObjectId, u32>,
    found: Receiver<Examined>,
    bell: Arc<OwnedFd>,
}

struct Examining {
    found: Mutex<Sender<Examined>>,
    bell: Arc<OwnedFd>,
}

impl Proofs {
    /// Its threads start when they are needed.
    ///
    /// # Errors
    /// There is no descriptor.
    pub fn start() -> io::Result<Proofs> {
        let (sender, found) = channel();
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let examining = Examining { found: Mutex::new(sender), bell: bell.clone() };
        let waiting = HashMap::new();
        Ok(Proofs { pool: Pool::new(examining), waiting, found, bell })
    }

    /// Has a socket examined.
    ///
    /// # Errors
    /// Its holder has shown too many that are not examined yet.
    pub fn ask(&mut self, shown: Shown) -> Result<(), Exceeded> {
        let (session, sequence) = (shown.session, shown.sequence);
        // Without any thread the machine has none left: it waits in its line, and its session not for
        // ever.
        let _ = self.pool.start();
        self.pool.put(|lines| lines.push(shown))?;
        self.waiting.insert(session, sequence);
        Ok(())
    }

    /// What was found next, and whether its session still waits for it.
    pub fn take_found(&mut self) -> Option<(Examined, bool)> {
        let examined = self.found.try_recv().ok()?;
        let is_awaited = self.waiting.get(&examined.session) == Some(&examined.sequence);
        if is_awaited {
            self.waiting.remove(&examined.session);
        }
        Some((examined, is_awaited))
    }

    /// A session waits no more; for which request it did.
    pub fn forget(&mut self, session: ObjectId) -> Option<u32> {
        self.waiting.remove(&session)
    }

    /// Takes the bell's ring off.
    pub fn hear(&self) {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }

    /// How many sockets wait to be examined, or hang.
    pub fn used(&self, holder: Holder) -> Used {
        self.pool.with_queue(|lines| lines.used(holder))
    }
}

impl AsFd for Proofs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Work for Examining {
    type Queue = Lines;
    type Job = Shown;
    const NAME: &'static str = "examiner";
    const THREADS_MAX: usize = THREADS_MAX;

    fn next(lines: &mut Lines, _: Instant) -> Option<Shown> {
        lines.take()
    }

    fn due(_: &Lines) -> Option<Instant> {
        None
    }

    fn run(&self, shown: Shown, pool: &Pool<Self>) {
        let Shown { session, sequence, holder, purpose, socket } = shown;
        let proof = proof::examine(socket.as_fd());
        let socket = match purpose {
            // Before the answer: a client that closes its socket upon it finds the address free.
            Purpose::Listen => {
                let listening = socket.into_fd_if(proof.is_ok());
                listening.into_iter().for_each(proof::close);
                None
            }
            Purpose::Join(_) => Some(socket),
        };
        pool.with_queue(|lines| lines.done(holder));
        let examined = Examined { session, sequence, purpose, proof, socket };
        let _ = self.found.lock().unwrap_or_else(PoisonError::into_inner).send(examined);
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}
