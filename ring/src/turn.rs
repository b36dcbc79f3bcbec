//! Whose turn it is among processes that share one end of a ring, though any of them may die or stop.
//!
//! ```text
//! word   0: nobody's    generation << 8 | number + 1 | WAITERS: a member's
//!
//! take       nobody's: exchange                                                         [turn]
//!            a member's: look, then say WAITERS and sleep for a slice at most           [sleep]
//!            a member's that was dead a slice ago as well: exchange, and mend           [death]
//! give back  exchange with 0; somebody may sleep: wake one                      [turn], [sleep]
//!
//! member   life << 0 | generation << 32
//! succeed    exchange a dead one's with the next generation's, who lives    [death], [succession]
//! ```
//! Whoever sees a member's turn also sees that it has succeeded: to who knows only the one before it
//! would look dead, and lose its turn.
//!
//! Each member's life is a word that the kernel changes when the process dies (`base/src/alive.rs`),
//! and it changes while other threads of that process may still make their last few steps. So the
//! turn of a dead member is taken from it only when it was found dead twice, a slice apart. Who takes
//! a dead one's turn has to see to what it left half done. Its number may have a successor by then,
//! who lives: the generation in the word tells whose the turn is. The successor is no exception. It
//! may find its number's turn taken, and takes it from the dead as others do.
//!
//! A member that stops in its turn holds up the others, which wait for [`PATIENCE`] and then give up.
//! All words are foreign: whatever stands in them costs members of the same session their time.

use std::time::Duration;

use heliostat_abi::file::delegated::joint::MEMBERS_MAX;
use heliostat_base::alive;
use heliostat_base::spin::Spin;

use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{futex_wait, futex_wake_one, now_ns, AtomicU32, AtomicU64};

/// Turns of looking before sleeping: a turn lasts as long as some copies of a cache line or two.
const SPIN_TURNS: u32 = if cfg!(loom) { 1 } else { 64 };
/// One that was woken and then killed has passed its wake-up to nobody: the others look again.
const SLICE: Duration = Duration::from_millis(20);
/// How long a member has to have been dead before its turn, or its number, is taken from it.
const DEAD_FOR_NS: u64 = if cfg!(loom) { 0 } else { 20_000_000 };
/// The same, for who waits for it.
pub const DEAD_FOR: Duration = Duration::from_nanos(DEAD_FOR_NS);
/// How long a member waits for one that lives and does not give its turn back.
pub const PATIENCE: Duration = Duration::from_millis(100);
const WAITERS: u32 = 1 << 31;
const NUMBER_MASK: u32 = 0xff;
const GENERATION_SHIFT: u32 = 8;
/// The last generation that a number has: no turn could tell another one from the first.
pub const GENERATION_MAX: u32 = (1 << 23) - 1;

/// What a turn needs of the memory that the members share.
pub trait Members: Send + Sync + 'static {
    /// Whose turn it is.
    fn turn(&self) -> &AtomicU32;
    /// The word with the life and the generation of a number; `None` where there is no such number.
    fn member(&self, number: u32) -> Option<&AtomicU64>;
    /// Whether slices end by themselves; in a model without a death they must not have to.
    #[cfg(loom)]
    fn time_passes(&self) -> bool;
}

/// A member's number, and how many have had it with this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberId {
    /// Its number.
    pub number: u32,
    /// From 1 on.
    pub generation: u32,
}

impl MemberId {
    /// Who comes after whoever a number's word is of; `None` while that one lives, and when as many
    /// have had the number as may.
    pub fn after(number: u32, seen: u64) -> Option<MemberId> {
        let (life, generation) = (seen as u32, (seen >> 32) as u32);
        let is_free = !alive::is_kept(life) && generation < GENERATION_MAX;
        is_free.then(|| MemberId { number, generation: generation + 1 })
    }

    /// Takes the number, if its word is still `seen`: from then on this is who has it, and lives as
    /// long as the kernel leaves `life` alone.
    pub fn succeed(self, word: &AtomicU64, seen: u64, life: u32) -> bool {
        let own = u64::from(self.generation) << 32 | u64::from(life);
        // [death] of whom it was; [succession]
        word.compare_exchange(seen, own, AcqRel, Relaxed).is_ok()
    }

    /// The member's turn.
    fn to_turn(self) -> u32 {
        self.generation << GENERATION_SHIFT | (self.number + 1)
    }

    /// Whose turn a word says that it is, if it can be anybody's.
    fn of_turn(holder: u32) -> Option<MemberId> {
        let number = (holder & NUMBER_MASK).checked_sub(1)?;
        Some(MemberId { number, generation: holder >> GENERATION_SHIFT })
    }
}

/// How a turn was come by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// It was nobody's.
    Free,
    /// It was a dead member's, who may have left something half done.
    FromDead,
}

/// A member has had its turn for too long, or one writes over the word all the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Busy;

/// One member's end. Used by one thread of it at a time.
pub struct Turn<M: Members> {
    members: M,
    own: u32,
}

impl<M: Members> Turn<M> {
    /// Of this member, whose life stands.
    pub fn new(members: M, member: MemberId) -> Turn<M> {
        Turn { members, own: member.to_turn() }
    }

    /// Takes the turn, which is given back by [`Turn::give_back`].
    ///
    /// # Errors
    /// A member that lives does not give it back, or the word does not rest.
    #[inline]
    pub fn take(&self) -> Result<Taken, Busy> {
        let word = self.members.turn();
        // [turn], [succession]
        match word.compare_exchange(0, self.own, AcqRel, Relaxed) {
            Ok(_) => Ok(Taken::Free),
            Err(_) => self.take_slowly(word),
        }
    }

    #[cold]
    fn take_slowly(&self, word: &AtomicU32) -> Result<Taken, Busy> {
        let mut spin = Spin::new();
        for _ in 0..SPIN_TURNS {
            let seen = word.load(Relaxed);
            if is_free(seen) && self.exchange(word, seen, seen & WAITERS) {
                return Ok(Taken::Free);
            }
            spin.turn();
        }
        let until_ns = now_ns() + PATIENCE.as_nanos() as u64;
        // By then also a dead one's turn is taken that was first seen at the end of the patience, unless
        // the word changes all the time, as only one does that writes what no member writes.
        let last_ns = until_ns + 2 * (DEAD_FOR_NS + SLICE.as_nanos() as u64);
        let mut suspect: Option<(u32, u64)> = None;
        loop {
            let seen = word.load(Acquire); // [succession]
            let now_ns = now_ns();
            if now_ns > last_ns {
                return Err(Busy);
            }
            if is_free(seen) {
                // [sleep] Others may sleep here too, which who has slept does not know.
                if self.exchange(word, seen, WAITERS) {
                    return Ok(Taken::Free);
                }
                continue;
            }
            let holder = seen & !WAITERS;
            if self.lives(holder) {
                suspect = None;
                if now_ns > until_ns {
                    return Err(Busy);
                }
            } else if let Some((_, since_ns)) = suspect.filter(|(who, _)| *who == holder) {
                let is_long_ago = now_ns - since_ns >= DEAD_FOR_NS;
                if is_long_ago && self.exchange(word, seen, WAITERS) {
                    return Ok(Taken::FromDead);
                }
            } else {
                suspect = Some((holder, now_ns));
                continue;
            }
            self.sleep(word, seen);
        }
    }

    /// Sleeps while the word is `seen`, for a slice at most.
    fn sleep(&self, word: &AtomicU32, seen: u32) {
        let asleep = seen | WAITERS;
        // [sleep]
        let stands =
            seen == asleep || word.compare_exchange(seen, asleep, Relaxed, Relaxed).is_ok();
        #[cfg(loom)]
        if self.members.time_passes() {
            return crate::sync::yield_now();
        }
        if stands {
            futex_wait(word, asleep, Some(SLICE));
        }
    }

    /// Gives the turn back.
    #[inline]
    pub fn give_back(&self) {
        let word = self.members.turn();
        // [turn], [sleep]
        if word.swap(0, Release) & WAITERS != 0 {
            futex_wake_one(word);
        }
    }

    fn exchange(&self, word: &AtomicU32, seen: u32, waiters: u32) -> bool {
        word.compare_exchange(seen, self.own | waiters, AcqRel, Relaxed).is_ok()
        // [turn], [succession]
    }

    fn lives(&self, holder: u32) -> bool {
        let Some(holder) = MemberId::of_turn(holder) else { return false };
        let Some(word) = self.members.member(holder.number) else { return false };
        // [death], [succession]
        let (found, generation) = (word.load(Acquire), u64::from(holder.generation));
        alive::is_kept(found as u32) && found >> 32 == generation
    }
}

const _: () = assert!(MEMBERS_MAX < NUMBER_MASK);
const _: () = assert!(GENERATION_MAX << GENERATION_SHIFT | NUMBER_MASK == !WAITERS);

fn is_free(word: u32) -> bool {
    word & !WAITERS == 0
}

#[cfg(all(test, loom))]
pub(crate) mod models;
