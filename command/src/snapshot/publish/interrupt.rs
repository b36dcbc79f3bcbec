//! The signals by which people end a publisher. It ends its regions in good order then, so that
//! consumers hear of it at once; the second such signal ends it as it would anyway.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use signal_hook::flag;

/// Whether somebody wants this process to end.
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Takes over SIGINT, SIGTERM and SIGHUP for the rest of the process's life.
    pub(super) fn listen() -> std::io::Result<Self> {
        let came = Arc::<AtomicBool>::default();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            // In this order: the first signal is not yet the second.
            flag::register_conditional_default(signal, came.clone())?;
            flag::register(signal, came.clone())?;
        }
        Ok(Self(came))
    }

    /// True once one of them came.
    pub(super) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
