//! Programs that have begun, and what is known of the code in their files.
//!
//! Mended is what is sure to be one call: `mov eax,NUMBER; syscall`, of calls that are never
//! interrupted on the plain kernel. The `mov`, five bytes, becomes a jump to code behind the
//! text's end, in its last page, which makes the call until it is not interrupted (`sites`): of as
//! many calls as there is room for. The `syscall` stays, so that nothing changes for those that come
//! to it by another way. Why, and when: `mending`.

mod sites;

use std::collections::{BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

use rustix::fs::Stat;

pub use sites::{Mending, GIVE_UP, REPEATS, REPETITION_AT};

/// Files whose mending is remembered, and processes that have not asked yet.
const KNOWN_MAX: usize = 256;
const FRESH_MAX: usize = 4096;

/// What makes a file the same one.
type Identity = [u64; 6];

/// Programs that have begun, and what is known of their files.
#[derive(Default)]
pub struct Images {
    /// Processes that have been allowed an exec since their last question.
    fresh: Mutex<BTreeSet<i32>>,
    any_fresh: AtomicBool,
    /// Nothing to be mended where there is `None`.
    known: Mutex<HashMap<Identity, Option<Arc<Mending>>>>,
}

impl Images {
    /// A thread is about to execute what `status` is of.
    pub fn begins(&self, thread: i32, status: &Stat) {
        let known = self.known.lock().ok().and_then(|known| known.get(&identity(status)).cloned());
        if known == Some(None) {
            return;
        }
        if let Ok(mut fresh) = self.fresh.lock() {
            if fresh.len() >= FRESH_MAX {
                fresh.clear();
            }
            // One that is not its process's first goes on under that one's number, and is missed.
            fresh.insert(thread);
            self.any_fresh.store(true, SeqCst);
        }
    }

    /// Whether this is the first question of a thread after an exec.
    pub fn is_first(&self, thread: i32) -> bool {
        if !self.any_fresh.load(SeqCst) {
            return false;
        }
        let Ok(mut fresh) = self.fresh.lock() else { return false };
        let is_first = fresh.remove(&thread);
        self.any_fresh.store(!fresh.is_empty(), SeqCst);
        is_first
    }

    /// What is done to the code of a program's file, if anything.
    pub fn mending(&self, file: &OwnedFd) -> Option<Arc<Mending>> {
        let status = rustix::fs::fstat(file).ok()?;
        let identity = identity(&status);
        let found = self.known.lock().ok()?.get(&identity).cloned();
        match found {
            Some(known) => known,
            None => {
                let mending = is_program(&status).then(|| Mending::of(file)).flatten();
                self.remember(identity, mending.map(Arc::new))
            }
        }
    }

    fn remember(&self, file: Identity, mending: Option<Arc<Mending>>) -> Option<Arc<Mending>> {
        let mut known = self.known.lock().ok()?;
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(file, mending.clone());
        mending
    }
}

fn is_program(status: &Stat) -> bool {
    rustix::fs::FileType::from_raw_mode(status.st_mode) == rustix::fs::FileType::RegularFile
}

fn identity(status: &Stat) -> Identity {
    let modified = (status.st_mtime as u64).rotate_left(30) ^ status.st_mtime_nsec;
    let changed = status.st_ctime as u64;
    [status.st_dev, status.st_ino, status.st_size as u64, changed, status.st_ctime_nsec, modified]
}
