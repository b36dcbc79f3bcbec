//! A semaphore.

use std::collections::BTreeMap;

use super::Model;

/// What is done with a semaphore.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SemaphoreOperation {
    /// So many permits are acquired.
    Acquire(u32),
    /// All that the process has are released.
    Release,
}

/// What is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SemaphoreAnswer {
    /// They are held, or were released.
    Done,
    /// There were not so many, or it was somebody else's turn.
    Busy,
}

/// A semaphore of so many permits, all of them free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SemaphoreModel(pub u32);

impl Model for SemaphoreModel {
    type Operation = SemaphoreOperation;
    type Answer = SemaphoreAnswer;
    type State = BTreeMap<u64, u32>;

    fn begin(&self) -> BTreeMap<u64, u32> {
        BTreeMap::new()
    }

    fn step(
        &self,
        held: &BTreeMap<u64, u32>,
        process: u64,
        operation: &SemaphoreOperation,
        answer: Option<&SemaphoreAnswer>,
    ) -> Option<BTreeMap<u64, u32>> {
        let mut after = held.clone();
        match operation {
            SemaphoreOperation::Release => after.remove(&process).map(|_| after),
            _ if answer == Some(&SemaphoreAnswer::Busy) => Some(after),
            SemaphoreOperation::Acquire(count) => {
                *after.entry(process).or_default() += count;
                let taken: u64 = after.values().map(|count| u64::from(*count)).sum();
                (taken <= u64::from(self.0)).then_some(after)
            }
        }
    }
}
