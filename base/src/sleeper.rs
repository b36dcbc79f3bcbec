//! Who sleeps: a word that spares the bell of a thread that is awake.
//!
//! A thread that takes work from others sleeps on a bell that is a system call to ring (an eventfd, a
//! socket). Its word says whether it does, so that nobody rings while it looks anyway.
//!
//! ```text
//! word   0 awake    1 sleeps, or is about to
//!
//!   sleeper                              sender
//!   word := 1                            publish
//!   full fence            [sleep]        full fence            [sleep]
//!   look again; if there is something:   word == 0 ? nothing more to do
//!      do not sleep                      exchange word with 0; if it was not 0: ring
//!   sleep until the bell rings
//!   word := 0
//! ```
//! Of the two fences one comes first. If the sleeper's does, the sender sees the word; if the sender's
//! does, the sleeper sees what was published. The word carries nothing else, so it is relaxed.
//!
//! A bell may ring late, for a sleeper that has found the work by itself: it then ends its next sleep at
//! once, which costs a look. `ring`'s doorbell is the same between processes, in their shared memory.

use crate::sync::{full_fence, AtomicU32, Ordering};

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// Whether one thread sleeps. It belongs beside the bell that wakes the thread.
#[derive(Debug)]
pub struct Sleeper {
    word: AtomicU32,
}

impl Sleeper {
    /// Of a thread that is awake.
    #[cfg(not(loom))]
    pub const fn awake() -> Sleeper {
        Sleeper { word: AtomicU32::new(AWAKE) }
    }

    /// The same, whose word loom has to make while a model runs.
    #[cfg(loom)]
    pub fn awake() -> Sleeper {
        Sleeper { word: AtomicU32::new(AWAKE) }
    }

    /// Says that the calling thread is about to sleep. After this it looks for work once more, and sleeps
    /// only if there is none; whether it has slept or not it then calls [`Self::rise`].
    pub fn lie_down(&self) {
        self.word.store(ASLEEP, Ordering::Relaxed);
        full_fence(); // [sleep]
    }

    /// Says that the calling thread is awake.
    pub fn rise(&self) {
        self.word.store(AWAKE, Ordering::Relaxed);
    }

    /// Whether the caller, who has published some work, has to ring the bell. Of several who ask at once
    /// one has to.
    #[inline]
    pub fn must_ring(&self) -> bool {
        full_fence(); // [sleep]
        self.word.load(Ordering::Relaxed) != AWAKE
            && self.word.swap(AWAKE, Ordering::Relaxed) != AWAKE
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_who_sleeps_is_rung_for_and_only_once() {
        let sleeper = Sleeper::awake();
        assert!(!sleeper.must_ring());
        sleeper.lie_down();
        assert_eq!([sleeper.must_ring(), sleeper.must_ring()], [true, false]);
        sleeper.lie_down();
        sleeper.rise();
        assert!(!sleeper.must_ring());
    }
}
