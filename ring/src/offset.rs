//! Where an open file is read next: in the kernel's hands, or in ours.
//!
//! One word, so that a read needs no lock: it copies, then advances the word from what it has
//! seen; who comes second copies again. As with the kernel's own lock, each byte is read once.
//!
//! ```text
//!            63..62  61      60..48   47..0
//! kernel's   0       shared  version  calls that may be moving it now
//! ours       1               version  the offset
//! moving     2               version  the offset, on its way from one to the other
//! ```
//! Ours only while nobody else can look at the kernel's: another process (fork, exec, a passed
//! descriptor) makes it the kernel's for ever, a call that needs it (sendfile, a lock from the
//! offset on) for as long as it takes. The version tells a reader, and a call that ends, that their
//! word has been given to another file.
//!
//! Orders (`models` shows them under loom): `O1` every step of the word is an exchange that acquires
//! what its last owner did to the kernel's offset, and releases what this one did. While it is moving
//! its mover alone touches both, and the word of another file that begins there is left as it is.

use heliostat_base::spin::Spin;

use crate::sync::AtomicU64;
use crate::sync::Ordering::{AcqRel, Acquire, SeqCst};

const STATE: u64 = 3 << 62;
const OURS: u64 = 1 << 62;
const MOVING: u64 = 2 << 62;
const SHARED: u64 = 1 << 61;
const VERSION: u64 = 0x1fff << VERSION_SHIFT;
const VERSION_SHIFT: u32 = 48;
const VERSION_ONE: u64 = 1 << VERSION_SHIFT;
const VALUE: u64 = VERSION_ONE - 1;

/// Offsets above this stay the kernel's; far above what is mapped.
pub const OFFSET_MAX: u64 = 1 << 46;

/// The kernel's offset of an open file.
pub trait Kernels {
    /// Where it is; `None` where the kernel does not say.
    fn offset(&self) -> Option<u64>;
    /// Moves it.
    fn seek(&self, offset: u64);
}

/// The offset of an open file.
#[derive(Debug)]
pub struct Offset(AtomicU64);

/// An offset of ours, as it was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen(u64);

impl Seen {
    /// Bytes from the start of the file.
    #[inline(always)]
    pub fn offset(self) -> u64 {
        self.0 & VALUE
    }
}

/// Which file a call has entered: the version of its word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entered(pub u16);

impl Offset {
    /// The kernel's.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The kernel's.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The kernel's, for another file than before.
    pub fn begin(&self, is_shared: bool) {
        let shared = if is_shared { SHARED } else { 0 };
        let next = |word: u64| Some((word & VERSION).wrapping_add(VERSION_ONE) & VERSION | shared);
        let _ = self.0.fetch_update(AcqRel, Acquire, next); // O1
    }

    /// The offset, if it is ours now.
    #[inline(always)]
    pub fn ours(&self) -> Option<Seen> {
        let word = self.0.load(Acquire); // O1
        (word & STATE == OURS).then_some(Seen(word))
    }

    /// Moves it to `offset`, if nobody has moved it since it was seen.
    #[inline(always)]
    pub fn advance(&self, seen: Seen, offset: u64) -> bool {
        debug_assert!(offset <= OFFSET_MAX);
        let next = seen.0 & !VALUE | offset;
        self.0.compare_exchange(seen.0, next, AcqRel, Acquire).is_ok() // O1
    }

    /// True when another process may move it.
    pub fn is_shared(&self) -> bool {
        let word = self.0.load(Acquire);
        word & STATE == 0 && word & SHARED != 0
    }

    /// Takes the offset over from the kernel; false when it may not be taken now.
    pub fn adopt(&self, kernels: &impl Kernels) -> bool {
        let word = self.0.load(Acquire);
        let is_free = word & (STATE | SHARED | VALUE) == 0;
        let moving = word | MOVING;
        // O1
        if !is_free || self.0.compare_exchange(word, moving, SeqCst, Acquire).is_err() {
            return word & STATE == OURS;
        }
        let next = match kernels.offset() {
            Some(offset) if offset <= OFFSET_MAX => word | OURS | offset,
            _ => word,
        };
        self.publish(moving, next) && next != word
    }

    /// Gives the offset back to the kernel, for a call that needs it there: it is not taken again
    /// until `leave` has been called as often. `None`, and nothing to leave, when it can never be
    /// taken.
    pub fn enter(&self, kernels: &impl Kernels) -> Option<Entered> {
        let word = self.settle(kernels, |word| match word & SHARED {
            0 => word + 1,
            _ => word,
        });
        (word & SHARED == 0).then_some(Entered(((word & VERSION) >> VERSION_SHIFT) as u16))
    }

    /// The call is over. Where the word is another file's by now, that file's calls are its own.
    pub fn leave(&self, entered: Entered) {
        let one_less = |word: u64| {
            let is_its = (word & VERSION) >> VERSION_SHIFT == u64::from(entered.0);
            (is_its && word & STATE == 0 && word & VALUE > 0).then(|| word - 1)
        };
        let _ = self.0.fetch_update(AcqRel, Acquire, one_less); // O1
    }

    /// Gives the offset back to the kernel; for ever, if `is_shared`.
    pub fn give_back(&self, kernels: &impl Kernels, is_shared: bool) {
        self.settle(kernels, |word| word | if is_shared { SHARED } else { 0 });
    }

    /// In the child of a fork: what another thread was in the middle of is ended here.
    pub fn end_move(&self, kernels: &impl Kernels) {
        let word = self.0.load(Acquire);
        if word & STATE != 0 {
            kernels.seek(word & VALUE);
            self.0.store(word & VERSION | SHARED, SeqCst);
        }
    }

    /// Makes it the kernel's and changes the kernel's word by `change`; the word after that.
    fn settle(&self, kernels: &impl Kernels, change: impl Fn(u64) -> u64) -> u64 {
        let mut turn = Spin::new();
        loop {
            let word = self.0.load(Acquire);
            let next = match word & STATE {
                0 => change(word),
                OURS => word & !STATE | MOVING,
                _ => {
                    // Another thread is in its lseek(2); it holds back its handlers meanwhile.
                    turn.turn();
                    continue;
                }
            };
            // O1
            if next != word && self.0.compare_exchange(word, next, SeqCst, Acquire).is_err() {
                continue;
            }
            if next & STATE == 0 {
                return next;
            }
            kernels.seek(word & VALUE);
            self.publish(next, word & VERSION);
        }
    }

    /// Ends a move; false where the descriptor was closed meanwhile, and the word is another file's.
    fn publish(&self, moving: u64, next: u64) -> bool {
        self.0.compare_exchange(moving, next, SeqCst, Acquire).is_ok() // O1
    }
}

#[cfg(not(loom))]
impl Default for Offset {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, loom))]
mod models;
