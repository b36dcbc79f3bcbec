//! Operations that wait for a lock on a file, and when each asks the kernel again.
//!
//! ```text
//! asked, not given --wait--> waiting --its time, or wake--> asked again --given--> over
//!                               ^                               |
//!                               +---- twice as long a pause ----+ not given
//! ```
//!
//! Who gives a lock back by way of a server loop wakes those that wait for the file. A program that locks the
//! file by itself tells nobody, so that each also asks by the clock, ever more seldom. A wait holds
//! no thread, and nothing of it is left once its operation has ended.

use heliostat_abi::name::ObjectId;

use super::unlocked::{Inode, Unlocked};

/// Pause before the second question.
const PAUSE_SHORTEST_NS: u64 = 1_000_000;
/// Longest pause: what a waiting program may lose to others who lock by themselves.
const PAUSE_LONGEST_NS: u64 = 100_000_000;

/// The operations of one session that wait for locks, at most as many as it may have under way.
#[derive(Debug, Default)]
pub struct LockWaits(Vec<Waiting>);

#[derive(Debug)]
struct Waiting {
    operation: ObjectId,
    file: Inode,
    pause_ns: u64,
    next_ns: u64,
    /// It was let go and has not asked yet.
    is_asking: bool,
}

impl LockWaits {
    /// The kernel has not given an operation its lock of a file.
    pub fn wait(&mut self, operation: ObjectId, file: Inode, now_ns: u64) {
        let next = |pause_ns| now_ns.saturating_add(pause_ns);
        match self.0.iter_mut().find(|waiting| waiting.operation == operation) {
            Some(waiting) => {
                waiting.pause_ns = (waiting.pause_ns * 2).min(PAUSE_LONGEST_NS);
                waiting.next_ns = next(waiting.pause_ns);
                waiting.is_asking = false;
            }
            None => self.0.push(Waiting {
                operation,
                file,
                pause_ns: PAUSE_SHORTEST_NS,
                next_ns: next(PAUSE_SHORTEST_NS),
                is_asking: false,
            }),
        }
    }

    /// An operation has ended; whether it had waited.
    pub fn forget(&mut self, operation: ObjectId) -> bool {
        let before = self.0.len();
        self.0.retain(|waiting| waiting.operation != operation);
        self.0.len() < before
    }

    /// Those whose time has come, each told once until it waits again.
    pub fn due(&mut self, now_ns: u64) -> Vec<ObjectId> {
        self.let_go(|waiting| waiting.next_ns <= now_ns)
    }

    /// Locks were given back: those that wait for one of such a file ask now.
    pub fn wake(&mut self, unlocked: &Unlocked) -> Vec<ObjectId> {
        self.let_go(|waiting| unlocked.has(waiting.file))
    }

    /// When the next one's time comes.
    pub fn next_ns(&self) -> Option<u64> {
        self.0.iter().filter(|waiting| !waiting.is_asking).map(|waiting| waiting.next_ns).min()
    }

    fn let_go(&mut self, is_meant: impl Fn(&Waiting) -> bool) -> Vec<ObjectId> {
        let meant = self.0.iter_mut().filter(|waiting| !waiting.is_asking && is_meant(waiting));
        let let_go = meant.map(|waiting| {
            waiting.is_asking = true;
            waiting.operation
        });
        let_go.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(index: u32) -> ObjectId {
        ObjectId { index, generation: 1 }
    }

    fn inode(number: u64) -> Inode {
        Inode { device: 1, number }
    }

    #[test]
    fn one_that_is_never_given_its_lock_asks_ever_more_seldom() {
        let (mut waits, mut now, mut asked) = (LockWaits::default(), 0, 0);
        waits.wait(operation(1), inode(1), now);
        while now < 10_000_000_000 {
            now = waits.next_ns().unwrap();
            assert_eq!(waits.due(now - 1), []);
            assert_eq!(waits.due(now), [operation(1)]);
            assert_eq!((waits.due(now), waits.next_ns()), (vec![], None), "it is asking");
            waits.wait(operation(1), inode(1), now);
            asked += 1;
        }
        assert!((100..120).contains(&asked), "{asked}");
    }

    #[test]
    fn those_that_wait_for_a_file_are_woken_once_and_one_that_ended_is_not() {
        let (mut waits, mut unlocked) = (LockWaits::default(), Unlocked::default());
        (0..3).for_each(|index| waits.wait(operation(index), inode(1), 5));
        waits.wait(operation(3), inode(2), 5);
        assert!(waits.forget(operation(1)) && !waits.forget(operation(1)));
        unlocked.insert(inode(1));
        assert_eq!(waits.wake(&unlocked), [operation(0), operation(2)]);
        assert_eq!((waits.wake(&unlocked), waits.due(u64::MAX)), (vec![], vec![operation(3)]));
        waits.wait(operation(2), inode(1), 6);
        assert_eq!(waits.wake(&unlocked), [operation(2)]);
        (0..4).for_each(|index| assert_eq!(waits.forget(operation(index)), index != 1));
        assert_eq!((waits.next_ns(), waits.wake(&unlocked)), (None, vec![]));
    }
}
