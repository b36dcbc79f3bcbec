//! One chunk of a remapped memory: what it shows, and who holds it to change that.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU8};
use std::time::Duration;

use heliostat_base::futex;

pub(super) const PROTECTED: u32 = 0;
pub(super) const WRITABLE: u32 = 1;
pub(super) const HELD: u32 = 2;

/// No colour.
pub(super) const NONE: u8 = u8::MAX;

/// A lost wake-up costs this much; there is none, but a handler should not bet on it.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

pub(super) struct Chunk {
    pub(super) state: AtomicU32,
    /// Colour that the memory shows.
    pub(super) current: AtomicU8,
    /// Colour that no version alive shows, nor the memory.
    pub(super) spare: AtomicU8,
    /// Colours whose slots were asked to be made one huge page, a bit for each.
    pub(super) gathered: AtomicU16,
}

impl Chunk {
    /// Shows colour 0 and may be written; has no spare slot yet.
    pub(super) fn writable() -> Self {
        Self {
            state: AtomicU32::new(WRITABLE),
            current: AtomicU8::new(0),
            spare: AtomicU8::new(NONE),
            gathered: AtomicU16::new(0),
        }
    }

    pub(super) fn hold(&self, state: u32) -> bool {
        self.state.compare_exchange(state, HELD, Acquire, Relaxed).is_ok()
    }

    /// Holds the chunk if it was written; waits for who holds it.
    pub(super) fn hold_written(&self) -> bool {
        loop {
            match self.state.load(Acquire) {
                PROTECTED => return false,
                HELD => self.wait(),
                _ if self.hold(WRITABLE) => return true,
                _ => {}
            }
        }
    }

    pub(super) fn release(&self, state: u32) {
        self.state.store(state, Release);
        futex::wake(&self.state, u32::MAX);
    }

    pub(super) fn wait(&self) {
        let _ = futex::wait(&self.state, HELD, Some(LOOK_AGAIN));
    }
}
