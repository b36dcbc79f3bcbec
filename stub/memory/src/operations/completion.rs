//! Completions as futures, which any executor may poll.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{Completed, Operations};

/// The completion of one operation. Once it waits for one of a server loop, a thread of this process
/// does so. Dropped before, it gives the operation up.
pub struct Completion {
    operations: Operations,
    number: Option<u64>,
}

/// The completions of several operations, in the order in which they were submitted. Dropped before all
/// have completed, it gives up the others.
pub struct Batch {
    waits: Vec<Completion>,
    completed: Vec<Option<Completed>>,
}

impl Completion {
    pub(super) fn new(operations: Operations, number: u64) -> Self {
        Self { operations, number: Some(number) }
    }

    /// Waits for it, without an executor.
    pub fn wait(mut self) -> Completed {
        loop {
            if let Some(completed) = self.take(None) {
                return completed;
            }
            self.operations.inner.memory.shared.pause(None);
        }
    }

    fn take(&mut self, context: Option<&Context<'_>>) -> Option<Completed> {
        let shared = &self.operations.inner.memory.shared;
        shared.attend_if_free();
        let waker = context.map(Context::waker);
        let completed = self.operations.inner.ends.take_of(self.number?, waker)?;
        self.number = None;
        Some(completed)
    }
}

impl Future for Completion {
    type Output = Completed;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Completed> {
        if let Some(completed) = self.take(Some(context)) {
            return Poll::Ready(completed);
        }
        if self.operations.inner.memory.shared.drive().is_err() {
            // Nobody waits on our behalf, so that has to be looked again.
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        let given_up = self.number.and_then(|number| self.operations.inner.ends.give_up(number));
        if let Some(job) = given_up {
            self.operations.inner.cancel_jobs(&[job]);
        }
    }
}

impl Batch {
    pub(super) fn new(waits: Vec<Completion>) -> Self {
        let completed = waits.iter().map(|_| None).collect();
        Self { waits, completed }
    }

    /// Waits for all, without an executor.
    pub fn wait(self) -> Vec<Completed> {
        self.waits.into_iter().map(Completion::wait).collect()
    }
}

impl Future for Batch {
    type Output = Vec<Completed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Vec<Completed>> {
        let Batch { waits, completed } = &mut *self;
        for (wait, completed) in waits.iter_mut().zip(completed.iter_mut()) {
            if completed.is_none() {
                match Pin::new(wait).poll(context) {
                    Poll::Ready(found) => *completed = Some(found),
                    Poll::Pending => return Poll::Pending,
                }
            }
        }
        Poll::Ready(completed.drain(..).flatten().collect())
    }
}
