//! How many processes and threads a sealed program may have: each asks before it is born.
//!
//! An answer lets a birth happen, and nobody tells when it has. So whoever was let bear counts as one
//! more until it is seen to be done: it is gone, it asks again, or it waits in another call. Those
//! who may still be bearing are looked for first and the living counted afterwards, so that
//! a newborn is one or the other, and there are never more than the limit.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::Mutex;
use std::time::Duration;

use crate::proc::{numbers_in, read_proc};
use crate::tree;

/// How often it is looked again whether there is room, while somebody may be bearing, and how long
/// each time.
const LOOKS: usize = 50;
const PAUSE: Duration = Duration::from_millis(2);
/// Calls that bear (source: asm/unistd_64.h): clone, fork, vfork.
const BEARING: [i64; 3] = [libc::SYS_clone, libc::SYS_fork, libc::SYS_vfork];

/// How many more there may be.
#[derive(Debug)]
pub struct Births {
    most: Option<u32>,
    /// How many there are.
    living: fn() -> u32,
    /// Births until all are counted again; those who end in between are found then.
    room: AtomicU32,
    /// Threads that were let bear since the last count, or may still be at it.
    bearing: Mutex<BTreeSet<i32>>,
}

impl Births {
    /// `most` processes and threads; none: no limit.
    pub fn new(most: Option<u32>) -> Self {
        Self { most, living: tree::tasks, room: AtomicU32::new(0), bearing: Mutex::default() }
    }

    /// Whether all must be counted before the next is born, which may take a while.
    pub fn must_count(&self) -> bool {
        self.most.is_some() && self.room.load(SeqCst) == 0
    }

    /// A thread asks for anything: what it was let bear is born.
    pub fn asks(&self, thread: i32) {
        if self.most.is_none() {
            return;
        }
        if let Ok(mut bearing) = self.bearing.lock() {
            bearing.remove(&thread);
        }
    }

    /// Whether a thread may bear one more; takes its place.
    pub fn take_one(&self, proc: &OwnedFd, thread: i32) -> bool {
        let Some(most) = self.most else { return true };
        for _ in 0..LOOKS {
            let Ok(mut bearing) = self.bearing.lock() else { return false };
            if self.room.load(SeqCst) == 0 {
                bearing.retain(|one| *one != thread && may_bear(proc, *one));
                let taken = (self.living)().saturating_add(bearing.len() as u32);
                self.room.store(most.saturating_sub(taken), SeqCst);
            }
            if self.room.fetch_update(SeqCst, SeqCst, |room| room.checked_sub(1)).is_ok() {
                bearing.insert(thread);
                return true;
            }
            if bearing.is_empty() {
                return false;
            }
            drop(bearing);
            std::thread::sleep(PAUSE);
        }
        false
    }
}

/// Whether a process may have the memory of its parent, which waits for it to execute something
/// (vfork(2)).
pub fn is_lent(proc: &OwnedFd, thread: i32) -> bool {
    if tree::has_executed(thread) {
        return false;
    }
    let Some(parent) = tree::parent_of(thread) else { return true };
    numbers_in(proc, &format!("{parent}/task")).into_iter().any(|one| may_bear(proc, one))
}

/// Whether a thread may still be in the call that it was let make (proc(5), syscall). One that runs
/// may be anywhere.
fn may_bear(proc: &OwnedFd, thread: i32) -> bool {
    let Some(text) = read_proc(proc, &format!("{thread}/syscall")) else {
        let none = rustix::fs::AtFlags::empty();
        return rustix::fs::statat(proc, thread.to_string(), none).is_ok();
    };
    let word = text.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
    let number = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
    number.is_none_or(|number| BEARING.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use heliostat_backend_seal::own_thread;
    use std::sync::atomic::AtomicBool;
    use std::sync::Arc;
    use std::thread::JoinHandle;

    fn proc() -> OwnedFd {
        let flags = rustix::fs::OFlags::PATH;
        rustix::fs::open("/proc", flags, rustix::fs::Mode::empty()).expect("/proc")
    }

    fn births(most: u32, living: fn() -> u32) -> Births {
        Births { living, ..Births::new(Some(most)) }
    }

    /// A thread that runs until it is told; it may be in any call. Its number.
    fn runner(stop: &Arc<AtomicBool>) -> (i32, JoinHandle<()>) {
        let (told, hears) = std::sync::mpsc::channel();
        let stopped = stop.clone();
        let runs = std::thread::spawn(move || {
            let _ = told.send(own_thread());
            while !stopped.load(SeqCst) {
                std::hint::spin_loop();
            }
        });
        (hears.recv().expect("its number"), runs)
    }

    #[test]
    fn without_a_limit_everybody_is_born() {
        let births = Births::new(None);
        assert!(births.take_one(&proc(), own_thread()) && !births.must_count());
    }

    #[test]
    fn who_asks_again_has_born_and_room_is_counted_anew() {
        let three = births(3, || 0);
        // Nobody is born in earnest, so that each count finds room for three.
        let born = (0..10).filter(|_| three.take_one(&proc(), own_thread())).count();
        assert_eq!(born, 10);
        assert!(!births(5, || 5).take_one(&proc(), own_thread()));
    }

    #[test]
    fn those_who_may_still_be_bearing_count() {
        let (proc, stop) = (proc(), Arc::new(AtomicBool::new(false)));
        let ((one, first), (other, second)) = (runner(&stop), runner(&stop));
        let (births, third) = (births(2, || 0), i32::MAX);
        assert!(births.take_one(&proc, one) && births.take_one(&proc, other));
        assert!(!births.take_one(&proc, third), "two are on their way");
        births.asks(one);
        assert!(births.take_one(&proc, third), "one asks for something else");
        stop.store(true, SeqCst);
        first.join().and_then(|()| second.join()).expect("they end");
        assert!(births.take_one(&proc, third), "they are gone");
    }
}
