//! Calls that are held up: by whom, and whether anybody still waits for their answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use heliostat_backend_seal::interrupt;

use crate::house::House;
use crate::signals::Coming;

/// A call that takes longer than this holds up others no more.
pub const TICK: Duration = Duration::from_millis(50);
/// While calls are held up it is looked whether their callers still live, and have no signal to
/// handle: at first each tick, then after another eighth of the time that the youngest has waited,
/// so that who waits for long costs little, and at least so often.
const ROUND: Duration = Duration::from_secs(1);
const PART_OF_WAIT: u32 = 8;

/// Calls that are held up, by their numbers and the threads of ours that wait in them: two may, one
/// that answers and one that was to give it the call.
#[derive(Default)]
pub struct HeldUp(Mutex<BTreeMap<(u64, i32), Held>>);

/// A call that is held up.
struct Held {
    /// The thread that waits for its answer.
    caller: i32,
    since: Instant,
}

impl HeldUp {
    /// A thread of ours waits in a call that a thread of the program's has made.
    pub fn insert(&self, call: u64, thread: i32, caller: i32) {
        if let Ok(mut held) = self.0.lock() {
            held.insert((call, thread), Held { caller, since: Instant::now() });
        }
    }

    /// It waits no more.
    pub fn remove(&self, call: u64, thread: i32) {
        if let Ok(mut held) = self.0.lock() {
            held.remove(&(call, thread));
        }
    }

    /// Interrupts the threads whose callers have been killed, or have a signal to handle; when to
    /// look again, if any call is held up.
    pub fn end_orphaned(&self, house: &House) -> Option<Duration> {
        let held = self.0.lock().ok()?;
        let (mut told, mut doubtful) = (BTreeSet::new(), Vec::new());
        for ((call, thread), one) in held.iter() {
            let (coming, process) = match house.listener.is_waiting(*call) {
                true => house.coming(one.caller),
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
