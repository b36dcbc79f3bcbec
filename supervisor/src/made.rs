//! Sockets that the supervisor makes for the program, where it cannot copy the program's own.
//!
//! The default filters of containers refuse pidfd_getfd(2). There socket(2) is asked about: the
//! supervisor makes the socket, hands it in and keeps a descriptor of its own, by which it connects,
//! binds and sends later; which one a number of the program's means, the kernel's number of the
//! socket says (proc(5)). A connection ends with its last descriptor, so ours must not outlive the
//! program's. A stream is let go once it is connected or listens: then it asks nothing more that
//! the supervisor would have to do. The rest, datagrams and sockets that nothing has been done with
//! yet, is looked for in the tables of the program's processes now and then, and let go when it is
//! in none.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use heliostat_base::fd::OwnedFd;
use heliostat_base::sys::Errno;
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};

use crate::errno::errno;

/// Sockets that are kept at most. When all are in use, the next socket(2) fails with ENFILE.
const KEPT_MAX: usize = 4096;
/// Listeners that are remembered, so that a second listen(2) is answered.
const LISTENERS_MAX: usize = 256;
/// How long it takes to look again for what the program has closed: at first, and at most, since
/// each look that finds nothing doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(10);

/// The file system of sockets, and the number of one there.
pub type Identity = (u64, u64);

/// All of them.
pub struct Made {
    kept: Mutex<BTreeMap<Identity, Kept>>,
    listeners: Mutex<VecDeque<Identity>>,
    /// Wakes the thread that lets go.
    bell: Option<std::os::fd::OwnedFd>,
    /// That thread sleeps for longer than a first pause.
    sleeps: AtomicBool,
}

/// One.
struct Kept {
    fd: Arc<OwnedFd>,
    /// The call that made it: until that is answered, no table of the program's has it.
    call: u64,
    /// A connection is being made, and nobody waits for it.
    connects: bool,
}

impl Made {
    /// None yet.
    pub fn new() -> Self {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok();
        let (kept, listeners) = (Mutex::default(), Mutex::default());
        Self { kept, listeners, bell, sleeps: AtomicBool::new(false) }
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<Identity, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no more can be kept.
    pub fn is_full(&self) -> bool {
        self.kept().len() >= KEPT_MAX
    }

    /// Keeps a socket that a call has made.
    ///
    /// # Errors
    /// Those of fstat(2).
    pub fn insert(&self, fd: OwnedFd, call: u64) -> Result<(), Errno> {
        let status = rustix::fs::fstat(&fd).map_err(errno)?;
        let one = Kept { fd: Arc::new(fd), call, connects: false };
        self.kept().insert((status.st_dev, status.st_ino), one);
        self.wake_if_asleep();
        Ok(())
    }

    /// A descriptor of a socket, if it is kept.
    ///
    /// # Errors
    /// EMFILE.
    pub fn get(&self, identity: Identity) -> Result<Option<OwnedFd>, Errno> {
        self.kept().get(&identity).map(|one| one.fd.duplicate()).transpose()
    }

    /// Whether a socket is one that listens.
    pub fn has_listener(&self, identity: Identity) -> bool {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.contains(&identity)
    }

    /// Keeps a socket no longer: it is connected.
    pub fn let_go(&self, fd: &OwnedFd) {
        if let Ok(status) = rustix::fs::fstat(fd) {
            self.kept().remove(&(status.st_dev, status.st_ino));
        }
    }

    /// Keeps a socket no longer: it listens.
    pub fn listens(&self, fd: &OwnedFd) {
        let Ok(status) = rustix::fs::fstat(fd) else { return };
        let identity = (status.st_dev, status.st_ino);
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        if listeners.len() == LISTENERS_MAX {
            listeners.pop_front();
        }
        listeners.push_back(identity);
        drop(listeners);
        self.kept().remove(&identity);
    }

    /// A socket's connection is being made, and nobody waits for that: it is let go then.
    pub fn connects(&self, fd: &OwnedFd) {
        let Ok(status) = rustix::fs::fstat(fd) else { return };
        if let Some(one) = self.kept().get_mut(&(status.st_dev, status.st_ino)) {
            one.connects = true;
        }
        self.wake();
    }

    /// Those whose making has been answered, so that the program has them, or has closed them.
    pub fn handed_in(&self, is_waiting: impl Fn(u64) -> bool) -> BTreeSet<Identity> {
        let kept = self.kept();
        let handed_in = kept.iter().filter(|(_, one)| !is_waiting(one.call));
        handed_in.map(|(identity, _)| *identity).collect()
    }

    /// Keeps these no longer; whether any was kept.
    pub fn let_go_all(&self, closed: &BTreeSet<Identity>) -> bool {
        let mut kept = self.kept();
        closed.iter().filter(|identity| kept.remove(identity).is_some()).count() > 0
    }

    /// Lets go what is connected or closed, as long as the program runs; `let_go_closed` looks for
    /// the latter, and tells whether there was any.
    pub fn keep(&self, let_go_closed: impl Fn() -> bool) {
        let mut pause = FIRST_PAUSE;
        loop {
            let is_empty = self.kept().is_empty();
            self.sleeps.store(is_empty || pause > FIRST_PAUSE, SeqCst);
            let is_woken = self.wait((!is_empty).then_some(pause));
            let found = match is_woken {
                true => true,
                false => let_go_closed(),
            };
            pause = if found { FIRST_PAUSE } else { (pause * 2).min(LAST_PAUSE) };
        }
    }

    /// Waits for connections, the bell, or the end of the pause; false if only that has come.
    fn wait(&self, pause: Option<Duration>) -> bool {
        let connecting: Vec<_> =
            self.kept().values().filter(|one| one.connects).map(|one| one.fd.clone()).collect();
        let mut waited: Vec<_> =
            connecting.iter().map(|fd| PollFd::new(&**fd, PollFlags::OUT)).collect();
        waited.extend(self.bell.iter().map(|bell| PollFd::new(bell, PollFlags::IN)));
        let pause = pause.map(|pause| Timespec {
            tv_sec: pause.as_secs() as i64,
            tv_nsec: i64::from(pause.subsec_nanos()),
        });
        let ready = poll(&mut waited, pause.as_ref()).unwrap_or(0);
        let done: Vec<_> = waited.iter().map(|one| !one.revents().is_empty()).collect();
        drop(waited);
        for (fd, _) in connecting.iter().zip(done).filter(|(_, is_done)| *is_done) {
            self.end_connecting(fd);
        }
        if let Some(bell) = &self.bell {
            let _ = rustix::io::read(bell, &mut [0; 8]);
        }
        ready > 0
    }

    /// One that could not be connected may be tried again.
    fn end_connecting(&self, fd: &OwnedFd) {
        if rustix::net::getpeername(fd).is_ok() {
            return self.let_go(fd);
        }
        let Ok(status) = rustix::fs::fstat(fd) else { return };
        if let Some(one) = self.kept().get_mut(&(status.st_dev, status.st_ino)) {
            one.connects = false;
        }
    }

    fn wake_if_asleep(&self) {
        if self.sleeps.swap(false, SeqCst) {
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(bell) = &self.bell {
            let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
        }
    }
}
