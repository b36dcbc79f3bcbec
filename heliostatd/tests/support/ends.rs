//! The end of what a test's threads do.

use std::sync::atomic::{AtomicBool, Ordering};

/// Ends what goes on in a scope's threads, by a failure too: the scope waits for them.
pub struct Ends<'a>(pub &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
