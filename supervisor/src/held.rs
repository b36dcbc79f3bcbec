//! Calls that are held up: by whom, and whether anybody still waits for their answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use heliostat_backend_seal::interrupt;
use heliostat_base::sync::Mutex;

use crate::signals::Coming;
use crate::supervisor::Supervisor;

/// A call that takes longer than this holds up others no more.
pub const TICK: Duration = Duration::from_millis(50);
/// While calls are held up it is looked whether their callers still live, and have no signal to
/// handle: at first each tick, then after another eighth of the time that the youngest has waited,
/// so that who waits for long costs little, and at least so often.
const ROUND: Duration = Duration::from_secs(1);
const PART_OF_WAIT: u32 = 8;

/// Calls that are held up, by their numbers and the threads of ours that wait in them: two may, one
/// that answers and one that was to give it the call.
#[derive(Default, Debug)]
pub struct HeldUp(Mutex<BTreeMap<(u64, i32), HeldCall>>);

/// A call that is held up.
#[derive(Debug)]
struct HeldCall {
    /// The thread that waits for its answer.
    caller: i32,
    since: Instant,
    /// How often it was entered: a thread that comes late to relieve it enters it once more, and takes
    /// out its own entry alone.
    times: u32,
}

impl HeldUp {
    /// A thread of ours waits in a call that a thread of the program's has made.
    pub fn insert(&self, call: u64, thread: i32, caller: i32) {
        if let Ok(mut held) = self.0.lock() {
            let new = || HeldCall { caller, since: Instant::now(), times: 0 };
            held.entry((call, thread)).or_insert_with(new).times += 1;
        }
    }

    /// It waits no more.
    pub fn remove(&self, call: u64, thread: i32) {
        if let Ok(mut held) = self.0.lock() {
            let Some(one) = held.get_mut(&(call, thread)) else { return };
            one.times -= 1;
            if one.times == 0 {
                held.remove(&(call, thread));
            }
        }
    }

    /// Whether that thread is known to wait in that call.
    #[cfg(all(test, loom))]
    pub fn has(&self, call: u64, thread: i32) -> bool {
        self.0.lock().unwrap().contains_key(&(call, thread))
    }

    /// Whether nobody waits.
    #[cfg(all(test, loom))]
    pub fn is_empty(&self) -> bool {
        self.0.lock().unwrap().is_empty()
    }

    /// Interrupts the threads whose callers have been killed, or have a signal to handle; when to
    /// look again, if any call is held up.
    pub fn end_orphaned(&self, supervisor: &Supervisor) -> Option<Duration> {
        let held = self.0.lock().ok()?;
        let (mut told, mut doubtful) = (BTreeSet::new(), Vec::new());
        for ((call, thread), one) in held.iter() {
            let (coming, process) = match supervisor.listener.is_waiting(*call) {
                true => supervisor.coming(one.caller),
                false => (Coming::Surely, 0),
            };
            match coming {
                Coming::No => {}
                Coming::Perhaps => doubtful.push((process, *thread)),
                Coming::Surely => {
                    told.insert(process);
                    let _ = interrupt(*thread);
                }
            }
        }
        // One thread of a process at a time: most often it handles the signal that all could.
        for (process, thread) in doubtful {
            if told.insert(process) {
                let _ = interrupt(thread);
            }
        }
        let youngest = held.values().map(|one| one.since.elapsed()).min()?;
        Some((youngest / PART_OF_WAIT).clamp(TICK, ROUND))
    }
}
