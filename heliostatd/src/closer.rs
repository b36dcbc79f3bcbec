//! Closes foreign descriptors beside the event loop, because closing may wait for their owner.
//!
//! A descriptor that a client sent may be a socket that lingers, a file whose server is the client
//! itself, or a socket in which such descriptors wait; close(2) on any of them waits as long as that
//! client pleases. The threads of a pool take such waits upon themselves. When all of them hang,
//! what is to be closed waits; it is bounded by the descriptors that the process may have
//! (RLIMIT_NOFILE).
//!
//! ```text
//! Shown, close --> unused --> thread: close(2)
//! close_last --> unused --> still used --> used, looked at every 5 ms --> unused
//! ```

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{set_socket_linger, socket_linger};

use crate::pool::{Pool, Work};

/// How often those that others still use are looked at.
const LOOK: Duration = Duration::from_millis(5);

/// An end of the queue. The threads last as long as the process.
#[derive(Clone)]
pub struct Closer(Pool<Closing>);

struct Closing;

#[derive(Default)]
struct Queue {
    unused: VecDeque<Arc<OwnedFd>>,
    /// Those that others still use.
    used: Vec<Arc<OwnedFd>>,
    /// When these were last looked at.
    looked: Option<Instant>,
}

impl Closer {
    /// A queue; its threads start when they are needed.
    pub fn start() -> Closer {
        Closer(Pool::new(Closing))
    }

    /// Closes a descriptor soon.
    pub fn close(&self, fd: OwnedFd) {
        self.close_last(Arc::new(fd));
    }

    /// Closes a descriptor soon after everybody else has let go of it, so that nobody else's is the
    /// last close of its file, which may take long.
    pub fn close_last(&self, fd: Arc<OwnedFd>) {
        if self.0.start().is_err() {
            // There never was a thread: the machine has none left, and somebody has to.
            return drop(fd);
        }
        self.0.put(|queue| queue.unused.push_back(fd));
    }
}

impl Work for Closing {
    type Queue = Queue;
    type Job = Arc<OwnedFd>;
    const NAME: &'static str = "closer";
    const THREADS_MAX: usize = 32;

    fn next(queue: &mut Queue, now: Instant) -> Option<Arc<OwnedFd>> {
        queue.look(now);
        loop {
            let fd = queue.unused.pop_front()?;
            if Arc::strong_count(&fd) == 1 {
                return Some(fd);
            }
            queue.used.push(fd);
        }
    }

    fn due(queue: &Queue) -> Option<Instant> {
        let next_look = || queue.looked.map_or_else(Instant::now, |looked| looked + LOOK);
        (!queue.used.is_empty()).then(next_look)
    }

    fn run(&self, fd: Arc<OwnedFd>, _: &Pool<Self>) {
        close(fd);
    }
}

impl Queue {
    /// Puts those that nobody else uses any more in line, at their time.
    fn look(&mut self, now: Instant) {
        if self.used.is_empty() || self.looked.is_some_and(|looked| now < looked + LOOK) {
            return;
        }
        self.looked = Some(now);
        let all = std::mem::take(&mut self.used);
        let (used, free): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|fd| Arc::strong_count(fd) > 1);
        self.used = used;
        self.unused.extend(free);
    }
}

fn close(fd: Arc<OwnedFd>) {
    // What need not hold a thread does not. Nobody has reason to show a socket that lingers.
    if socket_linger(&fd).is_ok_and(|linger| linger.is_some_and(|time| !time.is_zero())) {
        let _ = set_socket_linger(&fd, None);
    }
}

/// A descriptor that a client showed. However it is let go of, the event loop does not close it.
pub struct Shown {
    /// There until the value is taken apart.
    fd: Option<OwnedFd>,
    closer: Closer,
}

impl Shown {
    /// A descriptor that has just come.
    pub fn new(fd: OwnedFd, closer: &Closer) -> Shown {
        Shown { fd: Some(fd), closer: closer.clone() }
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

impl AsFd for Shown {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("only `into_fd` and the end take it").as_fd()
    }
}

impl AsRawFd for Shown {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.fd.take().into_iter().for_each(|fd| self.closer.close(fd));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn what_others_use_waits_for_them_and_delays_nobody() {
        let ((mut reader, writer), (mut other, quick)) =
            (std::io::pipe().unwrap(), std::io::pipe().unwrap());
        let (closer, shared) = (Closer::start(), Arc::new(OwnedFd::from(writer)));
        closer.close_last(shared.clone());
        drop(Shown::new(quick.into(), &closer));
        let mut found = Vec::new();
        assert_eq!(other.read_to_end(&mut found).unwrap(), 0);
        assert_eq!(Arc::strong_count(&shared), 2);
        drop(shared);
        assert_eq!(reader.read_to_end(&mut found).unwrap(), 0);
    }

    #[test]
    fn what_others_used_is_closed_although_there_is_always_something_to_close() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let (closer, shared) = (Closer::start(), Arc::new(OwnedFd::from(writer)));
        closer.close_last(shared.clone());
        drop(shared);
        let (ended, is_ended) = std::sync::mpsc::channel();
        let stream = std::thread::spawn(move || {
            let start = Instant::now();
            while is_ended.try_recv().is_err() {
                assert!(start.elapsed() < Duration::from_secs(20), "never closed");
                closer.close(std::io::pipe().unwrap().1.into());
            }
        });
        assert_eq!(reader.read_to_end(&mut Vec::new()).unwrap(), 0);
        ended.send(()).unwrap();
        stream.join().unwrap();
    }
}
