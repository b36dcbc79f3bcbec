//! For whom a thread waits: a user whose programs let one wait in vain is not waited for again soon.
//!
//! A program has as many connections, channels and sessions as it likes, so what is remembered of one
//! of them costs a hostile one nothing. Its user is named by the control plane. Accounts are few, and
//! users may share one: who is not waited for loses nothing but the shortest way.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use heliostat_base::clock;

use super::channel::Side;
use super::socket::Stream;

const ACCOUNTS: usize = 256;
/// All processes that accept: a client knows their user by no word but theirs.
const ACCEPTORS: usize = ACCOUNTS - 1;
/// After a wait in vain, of some ms, nobody is waited for so long: one part in a hundred at most.
const PAUSE_NS: u64 = 500_000_000;
/// Each further one doubles the pause, up to two seconds.
const LEVEL_MAX: u64 = 2;
/// The level lies above the time at which the pause ends, which two years fit into.
const LEVEL_SHIFT: u32 = 56;
const TIME: u64 = (1 << LEVEL_SHIFT) - 1;

static KNOWN: [AtomicU64; ACCOUNTS] = [const { AtomicU64::new(0) }; ACCOUNTS];

/// The account of one user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Account(usize);

impl Account {
    /// Of the user whose process has the other end.
    pub fn of_peer(stream: &Stream) -> Self {
        match stream.side {
            Side::Client => Self(ACCEPTORS),
            Side::Server => Self::of_user(stream.slot.channel.entry.peer_uid),
        }
    }

    /// Of a user.
    pub fn of_user(uid: u32) -> Self {
        Self(uid as usize % ACCEPTORS)
    }

    /// False while a wait would be one too many.
    pub fn allows_wait(self) -> bool {
        KNOWN[self.0].load(Relaxed) & TIME <= clock::monotonic_ns()
    }

    /// Notes what came of a wait.
    pub fn learn(self, is_in_vain: bool) {
        let known = &KNOWN[self.0];
        let next = match is_in_vain {
            true => lengthened(known.load(Relaxed), clock::monotonic_ns()),
            false => 0,
        };
        known.store(next, Relaxed);
    }
}

fn lengthened(known: u64, now: u64) -> u64 {
    let level = (known >> LEVEL_SHIFT).min(LEVEL_MAX);
    let until = now.saturating_add(PAUSE_NS << level).min(TIME);
    (level + 1).min(LEVEL_MAX) << LEVEL_SHIFT | until
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_in_vain_makes_the_pause_longer_up_to_two_seconds() {
        let (mut known, mut pauses) = (0, Vec::new());
        for _ in 0..5 {
            known = lengthened(known, 1_000);
            pauses.push(((known & TIME) - 1_000) / PAUSE_NS);
        }
        assert_eq!(pauses, [1, 2, 4, 4, 4]);
    }

    #[test]
    fn a_user_is_not_waited_for_after_a_wait_in_vain_and_others_are() {
        let (one, other) = (Account::of_user(70_001), Account::of_user(70_002));
        one.learn(true);
        assert!(!one.allows_wait() && other.allows_wait());
        one.learn(false);
        assert!(one.allows_wait());
    }
}
