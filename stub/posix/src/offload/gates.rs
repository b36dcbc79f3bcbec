//! Which calls are looked at: those of groups that may go to executors now, and a few that must be seen.
//!
//! ```text
//! judged plain -> gate shut: sites that are caught for offload alone pass by the hook (a load and a jump),
//!                            others are answered as without offload
//!       ^              |
//!       '-- open <-----+-- it is time to measure again: asked at every so many calls that are caught anyway
//! ```
//! The words are changed seldom, by any thread, and each time all of them from the rules: who reads an old
//! one makes a call plainly that might be offloaded, or the other way round, and both are good.

use heliostat_abi::offload::Group;
use heliostat_base::sync::Ordering::Relaxed;
use heliostat_base::sync::{AtomicU32, AtomicU64};

use super::calls::{judged, How, Judgement, Why, CALLS_MAX, JUDGED};
use super::{is_open, program};

const GROUPS: usize = Group::ALL.len();

/// A word for each group: zero while its calls pass by.
static GATES: [AtomicU32; GROUPS] = [const { AtomicU32::new(0) }; GROUPS];
/// A bit for each call that is to be looked at.
static SEEN: [AtomicU64; CALLS_MAX / 64] = [const { AtomicU64::new(0) }; CALLS_MAX / 64];

/// Whether a call is to be looked at.
#[inline(always)]
pub fn is_seen(number: u64) -> bool {
    let word = SEEN.get(number as usize / 64);
    word.is_some_and(|word| word.load(Relaxed) & 1 << (number % 64) != 0)
}

/// The gate of sites that are caught for offload alone; none for calls that are always seen.
pub fn of(number: u32) -> Option<&'static AtomicU32> {
    let judged = judged(number)?;
    let is_made =
        matches!(judged.judgement, Judgement::Made(_)) && !is_always_seen(judged.judgement);
    is_made.then(|| &GATES[judged.group as usize])
}

/// Calls after which others could not be offloaded: whether they can be is noted, or their end told.
const fn is_always_seen(judgement: Judgement) -> bool {
    matches!(judgement, Judgement::Plain(Why::Ends | Why::Life) | Judgement::Made(How::Option))
}

/// Opens and shuts gates by what is asked for and measured.
pub fn set() {
    set_by(|group| program().is_some() && is_open(group));
}

/// Nothing is looked at any more: offload has ended.
pub fn shut_all() {
    set_by(|_| false);
}

fn set_by(is_open: impl Fn(Group) -> bool) {
    let open = Group::ALL.map(is_open);
    let mut seen = [0u64; CALLS_MAX / 64];
    for it in JUDGED {
        let is_made = matches!(it.judgement, Judgement::Made(_)) && open[it.group as usize];
        if is_made || is_always_seen(it.judgement) {
            seen[it.call as usize / 64] |= 1 << (it.call as usize % 64);
        }
    }
    SEEN.iter().zip(seen).for_each(|(word, seen)| word.store(seen, Relaxed));
    GATES.iter().zip(open).for_each(|(gate, open)| gate.store(u32::from(open), Relaxed));
}

#[cfg(test)]
mod tests {
    use heliostat_base::sys::Sysno;

    use super::*;

    #[test]
    fn only_calls_of_open_groups_are_seen_and_those_that_end_offload() {
        set_by(|group| group == Group::Metadata);
        assert!(is_seen(Sysno::stat as u64) && !is_seen(Sysno::read as u64));
        assert!(is_seen(Sysno::setuid as u64) && is_seen(Sysno::setsockopt as u64));
        let gate = |number: Sysno| of(number as u32).map(|word| word.load(Relaxed));
        assert_eq!((gate(Sysno::stat), gate(Sysno::read)), (Some(1), Some(0)));
        assert_eq!((gate(Sysno::setsockopt), gate(Sysno::prctl)), (None, None));
        assert!(!is_seen(u64::MAX), "a number that is none");
        shut_all();
        assert!(!is_seen(Sysno::stat as u64) && is_seen(Sysno::setuid as u64));
    }
}
