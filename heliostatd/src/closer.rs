//! Closes foreign descriptors beside the event loop, because closing may wait for their owner.
//!
//! A descriptor that a client sent may be a socket that lingers, a file whose server is the client
//! itself, or a socket in which such descriptors wait; close(2) on any of them waits as long as that
//! client pleases. The threads of a pool take such waits upon themselves. Each user, and each sealed
//! program, has a line of its own and so many of the threads: whose descriptors hang waits for them,
//! and nobody else does. What waits in a line counts against its holder's descriptors (`quotas`).
//!
//! ```text
//! close      --> line --> thread: close(2)
//! close_last --> line --> still used --> used, looked at every 5 ms --> line
//! ```
//!
//! The end of much memory takes the kernel its time too, and is made here for that.

mod lines;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

use heliostat_base::mapping::SharedMapping;
use heliostat_server_loop::pool::{Pool, Work};
use heliostat_service_grant::{Holder, Used};
use rustix::net::sockopt::{set_socket_linger, socket_linger};

use lines::{Item, Lines};

/// Threads that close: one may be lost to each file system that hangs.
const CLOSERS_MAX: usize = 64;

/// The threads. They last as long as the process.
#[derive(Clone)]
pub struct Closer(Pool<Closing>);

/// The closer of what somebody has shown.
#[derive(Clone)]
pub struct CloserOf {
    closer: Closer,
    holder: Holder,
    is_shared: bool,
}

struct Closing;

impl Closer {
    /// Its threads start when they are needed.
    pub fn start() -> Closer {
        Closer(Pool::new(Closing))
    }

    /// One that counts against a holder's share.
    pub fn of(&self, holder: Holder) -> CloserOf {
        CloserOf { closer: self.clone(), holder, is_shared: false }
    }

    /// How many descriptors wait to be closed, or hang.
    pub fn used(&self, holder: Holder) -> Used {
        self.0.with_queue(|lines| lines.used(holder))
    }
}

impl CloserOf {
    /// One for what others use on: where it lingers, so does a thread, and its options stay.
    pub fn shared(self) -> CloserOf {
        CloserOf { is_shared: true, ..self }
    }

    /// Closes a descriptor soon.
    pub fn close(&self, fd: OwnedFd) {
        self.close_last(Arc::new(fd));
    }

    /// Closes a descriptor soon after everybody else has let go of it, so that nobody else's is the
    /// last close of its file, which may take long.
    pub fn close_last(&self, fd: Arc<OwnedFd>) {
        if self.closer.0.start().is_err() {
            // There never was a thread: the machine has none left, and somebody has to.
            return drop(fd);
        }
        let item = Item { fd, mapping: None, holder: self.holder, is_shared: self.is_shared };
        self.closer.0.put(|lines| lines.push(item));
    }

    /// Closes memory that nobody else uses: its mapping, and its descriptor. The kernel gives back a
    /// million pages in about a second.
    pub fn close_memory(&self, fd: OwnedFd, mapping: Option<Arc<SharedMapping>>) {
        if self.closer.0.start().is_err() {
            return drop((mapping, fd));
        }
        let is_shared = self.is_shared;
        let item = Item { fd: Arc::new(fd), mapping, holder: self.holder, is_shared };
        self.closer.0.put(|lines| lines.push(item));
    }
}

impl Work for Closing {
    type Queue = Lines;
    type Job = Item;
    const NAME: &'static str = "closer";
    const THREADS_MAX: usize = CLOSERS_MAX;

    fn next(lines: &mut Lines, now: Instant) -> Option<Item> {
        lines.take(now)
    }

    fn due(lines: &Lines) -> Option<Instant> {
        lines.due()
    }

    fn run(&self, item: Item, pool: &Pool<Self>) {
        let holder = item.holder;
        if let Some(mapping) = item.mapping {
            mapping.detach_pages();
        }
        match item.is_shared {
            true => drop(item.fd),
            false => close(item.fd),
        }
        pool.with_queue(|lines| lines.closed(holder));
    }
}

fn close(fd: Arc<OwnedFd>) {
    // What need not hold a thread does not. Nobody has reason to show a socket that lingers.
    if socket_linger(&fd).is_ok_and(|linger| linger.is_some_and(|time| !time.is_zero())) {
        let _ = set_socket_linger(&fd, None);
    }
}

impl heliostat_server_listener::Closer for CloserOf {
    fn close(&self, fd: OwnedFd) {
        CloserOf::close(self, fd);
    }

    fn waiting(&self) -> Used {
        self.closer.used(self.holder)
    }
}

/// A descriptor that a client showed. However it is let go of, the event loop does not close it.
pub struct ReceivedFd {
    /// There until the value is taken apart.
    fd: Option<OwnedFd>,
    closer: CloserOf,
}

impl ReceivedFd {
    /// A descriptor that has just come.
    pub fn new(fd: OwnedFd, closer: &CloserOf) -> ReceivedFd {
        ReceivedFd { fd: Some(fd), closer: closer.clone() }
    }

    /// The descriptor, for one who knows that its close does not wait, or what to do about that.
    pub fn into_fd(mut self) -> Option<OwnedFd> {
        self.fd.take()
    }

    /// The same where something holds; elsewhere it is let go of.
    pub fn into_fd_if(self, holds: bool) -> Option<OwnedFd> {
        holds.then(|| self.into_fd())?
    }
}

impl AsFd for ReceivedFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("only `into_fd` and the end take it").as_fd()
    }
}

impl AsRawFd for ReceivedFd {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Drop for ReceivedFd {
    fn drop(&mut self) {
        self.fd.take().into_iter().for_each(|fd| self.closer.close(fd));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::time::Duration;

    fn closer() -> CloserOf {
        Closer::start().of(Holder::user(1))
    }

    #[test]
    fn what_others_use_waits_for_them_and_delays_nobody() {
        let ((mut reader, writer), (mut other, quick)) =
            (std::io::pipe().unwrap(), std::io::pipe().unwrap());
        let (closer, shared) = (closer(), Arc::new(OwnedFd::from(writer)));
        closer.close_last(shared.clone());
        drop(ReceivedFd::new(quick.into(), &closer));
        let mut found = Vec::new();
        assert_eq!(other.read_to_end(&mut found).unwrap(), 0);
        assert_eq!(Arc::strong_count(&shared), 2);
        drop(shared);
        assert_eq!(reader.read_to_end(&mut found).unwrap(), 0);
    }

    #[test]
    fn what_others_used_is_closed_although_there_is_always_something_to_close() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let (closer, shared) = (closer(), Arc::new(OwnedFd::from(writer)));
        closer.close_last(shared.clone());
        drop(shared);
        let (ended, is_ended) = std::sync::mpsc::channel();
        let stream = std::thread::spawn(move || {
            let start = Instant::now();
            while is_ended.try_recv().is_err() {
                assert!(start.elapsed() < Duration::from_secs(60), "never closed");
                closer.close(std::io::pipe().unwrap().1.into());
            }
        });
        assert_eq!(reader.read_to_end(&mut Vec::new()).unwrap(), 0);
        ended.send(()).unwrap();
        stream.join().unwrap();
    }
}
