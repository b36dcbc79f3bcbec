//! Logs of durable files in areas, which threads with their users' rights put into their files.
//!
//! ```text
//! user --> logs that wait --> a few threads, each with one log at a time --> nobody waits for it any more
//! ```
//! A file that hangs keeps one thread, and the others of its user go on; no user waits for another one.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heliostat_backend_block::{Durability, FileDevice, Run, SharedFile};
use heliostat_backend_durable::Outcome;
use heliostat_backend_log::Log;
use tracing::warn;

use super::{apart, in_area, options, recover, rights, say, start, Told};

/// Users whose logs are recovered at once. Those of more are recovered when they are used.
const USERS_MAX: usize = 64;
/// Logs of one user that are recovered at once: with so many files that hang, that user's further logs
/// wait as well.
const OF_USER_MAX: usize = 4;

/// Areas whose logs are being recovered, by their generation.
#[derive(Clone, Debug, Default)]
pub struct Recovering(Arc<Mutex<HashSet<u64>>>);

impl Recovering {
    /// Whether this one is.
    pub fn has(&self, generation: u64) -> bool {
        self.set().contains(&generation)
    }

    /// Whether any is.
    pub fn has_any(&self) -> bool {
        !self.set().is_empty()
    }

    fn set(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A log in an area that an earlier run of the machine has left something in.
#[derive(Debug)]
pub struct LeftLog {
    /// The area's name for ever, and for people.
    pub generation: u64,
    /// Its name, for people.
    pub name: String,
    /// Whose it is.
    pub owner: u32,
    /// Where it lies.
    pub runs: Vec<Run>,
}

/// Recovers logs in areas, whose device is driven as the store's is.
pub fn recover_areas(logs: Vec<LeftLog>, file: &SharedFile, by: Durability) -> Recovering {
    let recovering = Recovering::default();
    recovering.set().extend(logs.iter().map(|log| log.generation));
    let mut users: BTreeMap<u32, VecDeque<LeftLog>> = BTreeMap::new();
    logs.into_iter().for_each(|log| users.entry(log.owner).or_default().push_back(log));
    for (number, (owner, logs)) in users.into_iter().enumerate() {
        let (threads, logs) = (logs.len().min(OF_USER_MAX), Mutex::new(logs));
        let (file, recovering) = (file.clone(), recovering.clone());
        let user = Arc::new(User { owner, logs, file, by, recovering });
        for _ in 0..if number < USERS_MAX { threads } else { 0 } {
            let user = user.clone();
            start("recover-areas", move || user.recover());
        }
    }
    recovering
}

/// The logs of one user.
struct User {
    owner: u32,
    logs: Mutex<VecDeque<LeftLog>>,
    file: SharedFile,
    by: Durability,
    recovering: Recovering,
}

impl User {
    /// One log after the other.
    fn recover(&self) {
        while let Some(log) = self.next() {
            let _until_then = Held { recovering: &self.recovering, generation: log.generation };
            say(&log.name, self.recover_one(&log));
        }
    }

    fn next(&self) -> Option<LeftLog> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn recover_one(&self, log: &LeftLog) -> Told {
        // Of many logs not all were looked at.
        if !super::is_left(&self.file, &log.runs) {
            return Ok(Outcome::default());
        }
        // Opened anew: what hangs does not keep the device from the next control plane.
        let file = self.file.grant(&[], true).map_err(|error| error.to_string())?;
        apart(Some(file.as_fd()), || {
            rights::become_user(self.owner)?;
            let own = file.try_clone().map_err(|error| error.to_string())?;
            let device = FileDevice::adopt(own, options(Some(self.by)));
            let device = device.map_err(|error| error.to_string())?;
            let (device, area) = in_area(device, &log.runs).ok_or("no way to its device")?;
            let opened = Log::open(Box::new(device), area, Default::default());
            recover(&opened.map_err(|error| error.to_string())?)
        })
    }
}

/// Those that no thread has taken: there are too many users, or the kernel has no thread.
impl Drop for User {
    fn drop(&mut self) {
        while let Some(log) = self.next() {
            warn!(area = log.name, owner = log.owner, "its log is recovered when it is used");
            self.recovering.set().remove(&log.generation);
        }
    }
}

/// Until it is gone nobody else writes the area, whatever becomes of the thread.
struct Held<'a> {
    recovering: &'a Recovering,
    generation: u64,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.recovering.set().remove(&self.generation);
    }
}
