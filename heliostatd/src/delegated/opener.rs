//! Opens files by name as the session's user, beside the event loop, because opening may wait.
//!
//! The kernel judges: the thread takes the user's and groups' numbers on before it opens, so a name
//! leads no further than that user's own open(2) would. What the rules say comes afterwards. A lease
//! that keeps a writer out is given back by the event loop meanwhile; the opener asks again until
//! then, between the wishes of others, so that it never sleeps in the kernel.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::time::{Duration, Instant};

use std::os::unix::ffi::OsStrExt;

use heliostat_abi::delegated::{READ, WRITE};
use heliostat_control::rights::Subject;
use rustix::fs::{open, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{geteuid, Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::message::{News, Wish};

/// How long a file that a lease keeps is asked for again, and how long between.
const PATIENCE: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(1);

/// A wish, and when it ends in vain.
struct Open {
    wish: Wish,
    subject: Subject,
    until: Instant,
}

/// The opener's end in the event loop.
pub struct Opener(Sender<(Wish, Subject)>);

impl Opener {
    /// Starts the thread; it ends with the value. What it finds goes to `news`.
    pub fn start(news: Sender<News>, bell: Arc<OwnedFd>) -> std::io::Result<Opener> {
        let (sender, wishes) = channel::<(Wish, Subject)>();
        let work = move || {
            open_all(&wishes, |wish, found| {
                let _ = news.send(News::Found(wish, found));
                let _ = rustix::io::write(&bell, &1u64.to_ne_bytes());
            });
        };
        std::thread::Builder::new().name("opener".into()).spawn(work)?;
        Ok(Opener(sender))
    }

    /// Opens a file soon. The server loop bounds each session's wishes.
    pub fn open(&self, wish: Wish, subject: Subject) {
        // Without its thread nobody gets a file; the session's operation times out or is cancelled.
        let _ = self.0.send((wish, subject));
    }
}

/// Until nobody can wish any more.
fn open_all(wishes: &Receiver<(Wish, Subject)>, tell: impl Fn(Wish, Result<OwnedFd, i32>)) {
    let mut waiting: Vec<Open> = Vec::new();
    let mut looked = Instant::now();
    loop {
        let next = match waiting.is_empty() {
            true => wishes.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => wishes.recv_timeout(PAUSE),
        };
        match next {
            Ok((wish, subject)) => {
                let until = Instant::now() + PATIENCE;
                waiting.extend(attempt(Open { wish, subject, until }, &tell));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if looked.elapsed() >= PAUSE {
            let again = std::mem::take(&mut waiting);
            waiting.extend(again.into_iter().filter_map(|open| attempt(open, &tell)));
            looked = Instant::now();
        }
    }
}

/// Opens and tells; `Some` when a lease is in the way and there is time.
fn attempt(open: Open, tell: &impl Fn(Wish, Result<OwnedFd, i32>)) -> Option<Open> {
    match open_as(&open.subject, &open.wish) {
        Err(libc::EAGAIN) if Instant::now() < open.until => Some(open),
        found => {
            tell(open.wish, found);
            None
        }
    }
}

fn open_as(subject: &Subject, wish: &Wish) -> Result<OwnedFd, i32> {
    let is_root = geteuid().is_root();
    if is_root {
        become_user(subject).map_err(Errno::raw_os_error)?;
    }
    let answer = open_named(wish);
    if is_root && set_thread_res_uid(None::<Uid>, Uid::ROOT, None::<Uid>).is_err() {
        return Err(libc::EPERM);
    }
    answer.map_err(Errno::raw_os_error)
}

/// This thread's rights are the user's from now on; root stays the saved user, to come back to.
fn become_user(subject: &Subject) -> Result<(), Errno> {
    let groups: Vec<Gid> = subject.groups.iter().map(|group| Gid::from_raw(*group)).collect();
    set_thread_groups(&groups)?;
    set_thread_res_gid(None::<Gid>, Gid::from_raw(subject.gid), None::<Gid>)?;
    set_thread_res_uid(None::<Uid>, Uid::from_raw(subject.uid), None::<Uid>)
}

fn open_named(wish: &Wish) -> Result<OwnedFd, Errno> {
    let path = Path::new(std::ffi::OsStr::from_bytes(&wish.name));
    if !path.is_absolute() {
        return Err(Errno::INVAL);
    }
    let access = match wish.access & (READ | WRITE) {
        READ => OFlags::RDONLY,
        WRITE => OFlags::WRONLY,
        _ => OFlags::RDWR,
    };
    // NONBLOCK: neither a FIFO nor a lease makes this thread wait.
    let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    open(path, flags, Mode::empty())
}
