//! A thread that owns a node: it sleeps until a peer, another thread or the time wants something.
//!
//! ```text
//! other threads --Remote::send--> commands --+
//! peers --the transport's descriptor---------+--> Program (on the node's thread) --> node
//! deadlines, signs of life ------------------+
//! ```
//!
//! An idle node wakes for its signs of life, and one without peers never. Where waits are short it looks on
//! for a moment before it sleeps (`lookout`), and it is rung for only while it sleeps (`bell`). What
//! happened is handed to the program for a short time at once; the rest waits while the node says that it
//! lives, reads what its peers say, and obeys. So a peer that asks for much keeps nobody from hearing of it.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{channel, Receiver, Sender, TryRecvError};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use heliostat_base::clock::monotonic_ns;
use heliostat_base::spin::yield_now;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::limits::{HEARTBEAT_NS, LINGER_NS_MAX};
use crate::node::{Node, NodeEvent};
use crate::transport::{Armed, Transport, TransportBroken};
use bell::{Bell, Ringer};
use lookout::Lookout;

mod bell;
mod lookout;

/// Commands obeyed before the network has its turn.
const COMMANDS_AT_ONCE: usize = 64;
/// How long events are handed over before the network has its turn: a fifth of the time after which a
/// sign of life is due.
const EVENTS_NS_MAX: u64 = HEARTBEAT_NS / 5;
/// The longest sleep: the kernel's clock goes no further.
const SLEEP_NS_MAX: u64 = 3_600_000_000_000;

/// What runs on a node's thread.
pub trait Program<T: Transport> {
    /// What other threads may ask of it.
    type Command: Send + 'static;

    /// Something happened at the node.
    fn event(&mut self, node: &mut Node<T>, now_ns: u64, event: NodeEvent);

    /// Another thread asks something.
    fn command(&mut self, node: &mut Node<T>, now_ns: u64, command: Self::Command);

    /// The thread has obeyed, and is about to send and to read. It may have been stopped for any time.
    fn wakes(&mut self, _node: &mut Node<T>, _now_ns: u64) {}

    /// When the program wants [`Program::pass_time`] though nothing happens.
    fn wake_ns(&self) -> Option<u64> {
        None
    }

    /// The time that it wanted has come.
    fn pass_time(&mut self, _node: &mut Node<T>, _now_ns: u64) {}

    /// What happened was told: the program does what it has kept for a turn of its own, for a short
    /// time. Whether there is more of that: then it has another turn before the thread sleeps.
    fn turn(&mut self, _node: &mut Node<T>, _now_ns: u64) -> bool {
        false
    }
}

/// The way to a node's thread. When the last one is dropped the node leaves its peers and the thread
/// ends.
#[derive(Debug)]
pub struct Remote<C> {
    commands: Sender<C>,
    ringer: Arc<Ringer>,
}

/// The thread has ended, by a transport that broke; the command comes back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriverGone<C>(pub C);

/// Why a thread ended.
pub type DriverEnd = Result<(), TransportBroken>;

/// A node's thread, and the way to it.
pub type Started<C> = (Remote<C>, JoinHandle<DriverEnd>);

/// Starts a thread for a node. Node and program are made on it, since some transports belong to the
/// thread that made them; an error there comes back.
pub fn start<T, P, E>(
    name: &str,
    make: impl FnOnce() -> Result<(Node<T>, P), E> + Send + 'static,
) -> Result<Started<P::Command>, StartError<E>>
where
    T: Transport,
    P: Program<T>,
    E: Send + 'static,
{
    let (bell, ringer) = Bell::create().map_err(StartError::System)?;
    let (commands, obeyed) = channel();
    let (made, is_made) = channel();
    let body = move || match make() {
        Ok((node, program)) => {
            // Whoever starts it waits for this.
            let _ = made.send(Ok(()));
            let (told, events, lookout) = (Vec::new(), VecDeque::new(), Lookout::default());
            Loop { node, program, commands: obeyed, bell, lookout, told, events }.run()
        }
        Err(error) => {
            let _ = made.send(Err(error));
            Ok(())
        }
    };
    let thread = Builder::new().name(name.to_string()).spawn(body).map_err(StartError::System)?;
    match is_made.recv() {
        Ok(Ok(())) => Ok((Remote { commands, ringer: Arc::new(ringer) }, thread)),
        Ok(Err(error)) => Err(StartError::Node(error)),
        Err(_) => Err(StartError::System(io::ErrorKind::BrokenPipe.into())),
    }
}

/// Why a thread was not started.
#[derive(Debug)]
pub enum StartError<E> {
    /// The system gave no thread or descriptor.
    System(io::Error),
    /// The node could not be made.
    Node(E),
}

impl<C> Remote<C> {
    /// Asks the program on the node's thread for something; never waits.
    pub fn send(&self, command: C) -> Result<(), DriverGone<C>> {
        self.commands.send(command).map_err(|unsent| DriverGone(unsent.0))?;
        self.ringer.ring();
        Ok(())
    }
}

impl<C> Clone for Remote<C> {
    fn clone(&self) -> Remote<C> {
        Remote { commands: self.commands.clone(), ringer: Arc::clone(&self.ringer) }
    }
}

struct Loop<T: Transport, P: Program<T>> {
    node: Node<T>,
    program: P,
    commands: Receiver<P::Command>,
    bell: Arc<Bell>,
    lookout: Lookout,
    /// Where the node tells what happened.
    told: Vec<NodeEvent>,
    /// What the program has not heard yet. The peers' windows and the calls' number limit it.
    events: VecDeque<NodeEvent>,
}

impl<T: Transport, P: Program<T>> Loop<T, P> {
    fn run(mut self) -> DriverEnd {
        loop {
            let now_ns = monotonic_ns();
            let obeyed = self.obey(now_ns);
            if obeyed == Obeyed::Over {
                return self.leave();
            }
            self.program.wakes(&mut self.node, now_ns);
            let is_idle = !self.progress(now_ns)? && obeyed == Obeyed::None;
            if self.program.wake_ns().is_some_and(|ns| ns <= now_ns) {
                self.program.pass_time(&mut self.node, now_ns);
            }
            let goes_on = self.program.turn(&mut self.node, now_ns);
            if !is_idle || goes_on {
                self.lookout.found(now_ns);
            } else if self.lookout.looks_on(now_ns, self.node.waiting().0 > 0) {
                yield_now();
            } else if self.node.arm() == Armed::Sleep {
                match self.rest()? {
                    Obeyed::None => {}
                    Obeyed::Some => self.lookout.found(now_ns),
                    Obeyed::Over => return self.leave(),
                }
            }
        }
    }

    /// Sleeps, unless there is a command that nobody has rung for: what became of those.
    fn rest(&mut self) -> Result<Obeyed, TransportBroken> {
        self.bell.lie_down();
        let obeyed = self.obey(monotonic_ns());
        if obeyed == Obeyed::None {
            self.lookout.sleeps();
            let wakes = [self.node.wake_ns(), self.program.wake_ns()];
            self.sleep(wakes.into_iter().flatten().min())?;
        }
        self.bell.rise();
        Ok(obeyed)
    }

    fn obey(&mut self, now_ns: u64) -> Obeyed {
        for count in 0..COMMANDS_AT_ONCE {
            match self.commands.try_recv() {
                Ok(command) => self.program.command(&mut self.node, now_ns, command),
                Err(TryRecvError::Empty) if count == 0 => return Obeyed::None,
                Err(TryRecvError::Empty) => return Obeyed::Some,
                Err(TryRecvError::Disconnected) => return Obeyed::Over,
            }
        }
        Obeyed::Some
    }

    /// Whether anything happened.
    fn progress(&mut self, now_ns: u64) -> Result<bool, TransportBroken> {
        let result = self.node.progress(now_ns, &mut self.told);
        self.events.extend(self.told.drain(..));
        let is_something = !self.events.is_empty();
        if is_something {
            self.hand_over();
        }
        result.map(|()| is_something)
    }

    /// Tells the program what happened, for as long as the network may be kept waiting.
    fn hand_over(&mut self) {
        let begun_ns = monotonic_ns();
        let mut now_ns = begun_ns;
        while now_ns.saturating_sub(begun_ns) < EVENTS_NS_MAX {
            let Some(event) = self.events.pop_front() else { return };
            self.program.event(&mut self.node, now_ns, event);
            now_ns = monotonic_ns();
        }
    }

    /// Sleeps until something is readable or the time has come.
    fn sleep(&mut self, until_ns: Option<u64>) -> DriverEnd {
        let left_ns = until_ns.map(|ns| ns.saturating_sub(monotonic_ns()).min(SLEEP_NS_MAX));
        let timeout = left_ns.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as i64,
        });
        let bell = PollFd::new(&*self.bell, PollFlags::IN);
        let descriptor = self.node.descriptor();
        let descriptor = descriptor.map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN));
        let mut fds: Vec<_> = std::iter::once(bell).chain(descriptor).collect();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(TransportBroken { code: errno.raw_os_error() }),
        }
        if !fds[0].revents().is_empty() {
            self.bell.drain();
        }
        Ok(())
    }

    /// Leaves all peers, and gives what was answered the time to go out.
    fn leave(mut self) -> DriverEnd {
        let links: Vec<_> = self.node.joined().map(|(_, link)| link).collect();
        let until_ns = monotonic_ns().saturating_add(LINGER_NS_MAX);
        links.into_iter().for_each(|link| self.node.leave(monotonic_ns(), link));
        while monotonic_ns() < until_ns && self.node.wake_ns().is_some() {
            self.progress(monotonic_ns())?;
            if self.events.is_empty() && self.node.arm() == Armed::Sleep {
                self.sleep(Some(until_ns.min(self.node.wake_ns().unwrap_or(0))))?;
            }
        }
        Ok(())
    }
}

/// What came of the commands.
#[derive(PartialEq, Eq)]
enum Obeyed {
    None,
    Some,
    Over,
}
