//! One thread that waits for descriptors with epoll: each registration tells once.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use super::workers::DoneList;

/// Descriptors told of in one call.
const EVENTS: usize = 16;
/// The event that ends the thread; no request has this place.
const OVER: u64 = u64::MAX;

/// The end of the thread in the ring. Dropped, it ends.
pub struct Watcher {
    epoll: Arc<OwnedFd>,
    over: OwnedFd,
    /// Kept open while they are watched, each once.
    watched: Vec<Arc<OwnedFd>>,
}

impl Watcher {
    /// Starts the thread. What is readable goes to `done`.
    pub fn start(done: &Arc<DoneList>) -> io::Result<Watcher> {
        // SAFETY: takes no pointer.
        let epoll = Arc::new(unsafe { opened(libc::epoll_create1(libc::EPOLL_CLOEXEC)) }?);
        // SAFETY: takes no pointer.
        let over = unsafe { opened(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)) }?;
        let watcher = Watcher { epoll, over, watched: Vec::new() };
        register(&watcher.epoll, libc::EPOLL_CTL_ADD, &watcher.over, libc::EPOLLIN, OVER)?;
        let (epoll, done) = (watcher.epoll.clone(), done.clone());
        std::thread::Builder::new().name("watcher".into()).spawn(move || serve(&epoll, &done))?;
        Ok(watcher)
    }

    /// Tells of the request with this place once the descriptor is readable.
    pub fn watch(&mut self, index: u32, fd: &Arc<OwnedFd>) -> io::Result<()> {
        let is_known = self.watched.iter().any(|known| Arc::ptr_eq(known, fd));
        let how = if is_known { libc::EPOLL_CTL_MOD } else { libc::EPOLL_CTL_ADD };
        let once = libc::EPOLLIN | libc::EPOLLONESHOT;
        register(&self.epoll, how, fd, once, u64::from(index))?;
        if !is_known {
            self.watched.push(fd.clone());
        }
        Ok(())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let one = 1u64;
        // SAFETY: `one` is eight readable bytes. The counter is far from full.
        let _ = unsafe { libc::write(self.over.as_raw_fd(), (&raw const one).cast(), 8) };
    }
}

fn serve(epoll: &OwnedFd, done: &DoneList) {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
    loop {
        let (start, count) = (events.as_mut_ptr(), EVENTS as i32);
        // SAFETY: there is room for `count` events.
        let answer = unsafe { libc::epoll_wait(epoll.as_raw_fd(), start, count, -1) };
        let found = match usize::try_from(answer) {
            Ok(found) => found,
            Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => continue,
            // Only a descriptor that is no epoll set could be the reason, and it is one.
            Err(_) => return,
        };
        for event in events.iter().take(found) {
            match event.u64 {
                OVER => return,
                index => done.put((index as u32, libc::POLLIN.into())),
            }
        }
    }
}

fn register(epoll: &OwnedFd, how: i32, fd: &OwnedFd, events: i32, data: u64) -> io::Result<()> {
    let mut event = libc::epoll_event { events: events as u32, u64: data };
    // SAFETY: `event` lives for the call.
    match unsafe { libc::epoll_ctl(epoll.as_raw_fd(), how, fd.as_raw_fd(), &mut event) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// # Safety
/// `answer` is what a call answered that opens a descriptor for nobody else.
unsafe fn opened(answer: i32) -> io::Result<OwnedFd> {
    match answer {
        ..0 => Err(io::Error::last_os_error()),
        // SAFETY: the caller's promise: it is new and nobody's.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}
