//! What ends of operations leave to be done once nobody has the session with the loop.

use std::task::Waker;

/// Whom they wake, and what they drop. Either may do anything: ask the same session, end an operation,
/// give a region back. So it is done by `act`, without any lock.
#[derive(Default)]
pub(crate) struct After {
    wakers: Vec<Waker>,
    gone: Vec<Box<dyn Send>>,
}

impl After {
    /// Wakes it later.
    pub(crate) fn wake(&mut self, waker: Option<Waker>) {
        self.wakers.extend(waker);
    }

    /// Drops it later.
    pub(crate) fn drop_later(&mut self, gone: impl Send + 'static) {
        self.gone.push(Box::new(gone));
    }

    /// Does it. The caller holds no lock.
    pub(crate) fn act(self) {
        self.wakers.into_iter().for_each(Waker::wake);
        drop(self.gone);
    }
}
