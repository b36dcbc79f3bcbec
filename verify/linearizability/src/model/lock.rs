//! A reader-writer lock with fencing tokens; used for writing only it is a plain lock.

use std::collections::BTreeMap;

use super::Model;

/// What is done with a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockOperation {
    /// It is acquired, for writing; a call that waits takes effect when it is granted.
    Write,
    /// It is acquired, for reading.
    Read,
    /// What the process holds is released.
    Release,
}

/// What is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockAnswer {
    /// It is held, with this token.
    Granted(u64),
    /// It was not free, or somebody else's turn. No promise is made when that is said: a lock may
    /// refuse who does not wait while others do.
    Busy,
    /// It was released.
    Done,
}

/// A lock that nobody holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LockModel;

/// Who holds it, whether for writing, and the largest token so far.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct LockState {
    holders: BTreeMap<u64, bool>,
    token: u64,
}

impl Model for LockModel {
    type Operation = LockOperation;
    type Answer = LockAnswer;
    type State = LockState;

    fn begin(&self) -> LockState {
        LockState::default()
    }

    fn step(
        &self,
        state: &LockState,
        process: u64,
        operation: &LockOperation,
        answer: Option<&LockAnswer>,
    ) -> Option<LockState> {
        let writes = match operation {
            LockOperation::Release => return released(state, process),
            _ if answer == Some(&LockAnswer::Busy) => return Some(state.clone()),
            LockOperation::Write => true,
            LockOperation::Read => false,
        };
        let is_free = match writes {
            true => state.holders.is_empty(),
            false => state.holders.values().all(|writes| !writes),
        };
        let mut after = state.clone();
        match answer {
            // What was granted to one that never heard of it has some token, which nobody knows.
            None => {}
            Some(LockAnswer::Granted(token)) if *token > state.token => after.token = *token,
            _ => return None,
        }
        (is_free && after.holders.insert(process, writes).is_none()).then_some(after)
    }
}

fn released(state: &LockState, process: u64) -> Option<LockState> {
    let mut after = state.clone();
    after.holders.remove(&process)?;
    Some(after)
}
