//! Closes foreign descriptors beside the event loop, because closing may wait for their owner.
//!
//! A descriptor that a client sent may be a socket that lingers, a file whose server is the client
//! itself, or a socket in which such descriptors wait; close(2) on any of them waits as long as that
//! client pleases. A few threads take such waits upon themselves: one that hangs is lost until that
//! owner lets it go, and whoever goes to close something sees to it that another is there. When all
//! of them hang, what is to be closed waits; it is bounded by the descriptors that the process may
//! have (RLIMIT_NOFILE).
//!
//! ```text
//! Shown, close --> queue --> thread: close(2)
//! close_last --> queue --> still used --> used, looked at every 5 ms --> queue
//! ```

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{set_socket_linger, socket_linger};

/// Threads at most.
const THREADS_MAX: usize = 32;
/// How often those that others still use are looked at.
const LOOK: Duration = Duration::from_millis(5);

/// An end of the queue. The threads last as long as the process.
#[derive(Clone)]
pub struct Closer(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Something is to be closed.
    news: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Arc<OwnedFd>>,
    /// Those that others still use.
    used: Vec<Arc<OwnedFd>>,
    /// When these were last looked at.
    looked: Option<Instant>,
    threads: usize,
    idle: usize,
    /// A thread sleeps no longer than until the next look.
    is_watched: bool,
}

impl Closer {
    /// A queue; its threads start when they are needed.
    pub fn start() -> Closer {
        Closer(Arc::new(Shared { state: Mutex::default(), news: Condvar::new() }))
    }

    /// Closes a descriptor soon.
    pub fn close(&self, fd: OwnedFd) {
        self.close_last(Arc::new(fd));
    }

    /// Closes a descriptor soon after everybody else has let go of it, so that nobody else's is the
    /// last close of its file, which may take long.
    pub fn close_last(&self, fd: Arc<OwnedFd>) {
        let mut state = self.0.lock();
        if state.threads == 0 && self.0.add_thread(&mut state).is_err() {
            // There never was a thread: the machine has none left, and somebody has to.
            return drop(fd);
        }
        state.queue.push_back(fd);
        drop(state);
        self.0.news.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_thread(self: &Arc<Self>, state: &mut State) -> std::io::Result<()> {
        let shared = self.clone();
        std::thread::Builder::new().name("closer".into()).spawn(move || shared.work())?;
        state.threads += 1;
        // From now on, although it has yet to run: nobody need start another one meanwhile.
        state.idle += 1;
        Ok(())
    }

    fn work(self: &Arc<Self>) {
        let mut state = self.lock();
        state.idle -= 1;
        loop {
            state.look(Instant::now());
            let Some(fd) = state.queue.pop_front() else {
                state = self.sleep(state);
                continue;
            };
            if Arc::strong_count(&fd) > 1 {
                state.used.push(fd);
                continue;
            }
            // Somebody is there for the next while this thread is away, perhaps for ever. Where
            // none can be had, the next waits for this one.
            if state.idle == 0 && state.threads < THREADS_MAX {
                let _ = self.add_thread(&mut state);
            }
            drop(state);
            close(fd);
            state = self.lock();
        }
    }

    fn sleep<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.idle += 1;
        let watches = !state.used.is_empty() && !state.is_watched;
        let mut state = if watches {
            state.is_watched = true;
            let answer = self.news.wait_timeout(state, LOOK);
            let mut state = answer.unwrap_or_else(PoisonError::into_inner).0;
            state.is_watched = false;
            state
        } else {
            self.news.wait(state).unwrap_or_else(PoisonError::into_inner)
        };
        state.idle -= 1;
        state
    }
}

impl State {
    /// Puts those that nobody else uses any more in line, at their time.
    fn look(&mut self, now: Instant) {
        if self.used.is_empty() || self.looked.is_some_and(|looked| now < looked + LOOK) {
            return;
        }
        self.looked = Some(now);
        let all = std::mem::take(&mut self.used);
        let (used, free) = all.into_iter().partition(|fd| Arc::strong_count(fd) > 1);
        (self.used, self.queue) = (used, self.queue.drain(..).chain::<Vec<_>>(free).collect());
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
