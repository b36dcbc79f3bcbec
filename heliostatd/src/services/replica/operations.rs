//! Operations of server loops on regions on several nodes: from the form in which they go to one node.

use heliostat_abi::memory::peer::{
    PeerAction, PeerAnswer, PeerHandle, PeerOperation, PeerRefusal, Range,
};
use heliostat_abi::memory::Rights;
use heliostat_server_memory::{Answer, NoAnswer, Replicated};
use heliostat_server_replica::{Action, Answered, Failed, Submitter, OPERATION_BYTES_MAX};

use crate::state::replica::{number_of, HandleTable, ReplicatedHandle};

/// Gives operations to the thread of replicas.
pub struct Operations {
    submitter: Submitter,
    handles: HandleTable,
}

impl Operations {
    /// By these handles.
    pub fn new(submitter: Submitter, handles: HandleTable) -> Operations {
        Operations { submitter, handles }
    }

    fn begin(
        &self,
        number: u64,
        header: &[u8],
        payload: &[u8],
    ) -> Result<(ReplicatedHandle, Action, u64), PeerRefusal> {
        let handle = self.handles.get(number).ok_or(PeerRefusal::NoHandle)?;
        let asked = PeerOperation::decode(header, payload.len());
        let asked = asked.map_err(|_| PeerRefusal::Malformed)?;
        let (wanted, whole) = needs(&asked.action);
        if !handle.rights.have(wanted) {
            return Err(PeerRefusal::Denied);
        }
        if whole.offset.checked_add(whole.bytes).is_none_or(|end| end > handle.bytes) {
            return Err(PeerRefusal::Range);
        }
        let source = |it: PeerHandle| self.handles.get(number_of(it));
        let action = match asked.action {
            PeerAction::Copy { source: from, .. }
                if source(from).is_none_or(|it| it.region != handle.region) =>
            {
                return Err(PeerRefusal::NoHandle);
            }
            PeerAction::Copy { from, bytes, .. }
                if from.checked_add(bytes).is_none_or(|end| end > handle.bytes) =>
            {
                return Err(PeerRefusal::Range);
            }
            action => action_of(action, payload),
        };
        let bytes = action.range().1;
        Ok((handle, action, bytes))
    }
}

impl Replicated for Operations {
    fn operate(
        &self,
        handle: PeerHandle,
        header: Vec<u8>,
        payload: Vec<u8>,
        then: Box<dyn FnOnce(Answer) + Send>,
    ) {
        match self.begin(number_of(handle), &header, &payload) {
            Ok((handle, action, bytes)) => {
                let ReplicatedHandle { region, user, .. } = handle;
                let is_compare = match action {
                    Action::CompareSwap { expected, .. } => Some(expected),
                    _ => None,
                };
                let told = move |result| then(answer_of(result, bytes, is_compare));
                self.submitter.submit(region, user, action, told);
            }
            Err(refusal) => then(Ok((PeerAnswer::refused(refusal), Vec::new()))),
        }
    }
}

/// What an operation needs, and the whole of which it is a part.
fn needs(action: &PeerAction) -> (Rights, Range) {
    let word = |offset| Range { offset, bytes: 8 };
    match *action {
        PeerAction::Read { of, .. } => (Rights::READ, of),
        PeerAction::Write { of, .. } | PeerAction::Set { of, .. } => (Rights::WRITE, of),
        PeerAction::Copy { to, bytes, .. } => {
            (Rights::READ.and(Rights::WRITE), Range { offset: to, bytes })
        }
        PeerAction::FetchAdd { offset, .. }
        | PeerAction::CompareSwap { offset, .. }
        | PeerAction::Swap { offset, .. } => (Rights::ATOMIC, word(offset)),
    }
}

fn action_of(action: PeerAction, payload: &[u8]) -> Action {
    match action {
        PeerAction::Read { part, .. } => Action::Read { offset: part.offset, bytes: part.bytes },
        PeerAction::Write { part, .. } => {
            Action::Write { offset: part.offset, bytes: payload.into() }
        }
        PeerAction::Set { part, value, .. } => {
            Action::Set { offset: part.offset, bytes: part.bytes, value }
        }
        PeerAction::Copy { to, from, bytes, done, .. } => {
            let part = OPERATION_BYTES_MAX.min(bytes - done);
            // Where they overlap nothing may be overwritten that is still to be copied.
            let at = if to > from { bytes - done - part } else { done };
            Action::Copy { from: from + at, to: to + at, bytes: part }
        }
        PeerAction::FetchAdd { offset, more } => Action::FetchAdd { offset, more },
        PeerAction::CompareSwap { offset, expected, new } => {
            Action::CompareSwap { offset, expected, new }
        }
        PeerAction::Swap { offset, new } => Action::Swap { offset, new },
    }
}

fn answer_of(result: Result<Answered, Failed>, bytes: u64, expected: Option<u64>) -> Answer {
    let refused = |why| Ok((PeerAnswer::refused(why), Vec::new()));
    match result {
        Ok(Answered { word, read, .. }) => {
            let is_other = expected.is_some_and(|expected| expected != word);
            let done = if is_other { 0 } else { bytes };
            Ok((PeerAnswer { result: Ok(done), word }, read))
        }
        Err(Failed::NotDone) => Err(NoAnswer::NotSent),
        Err(Failed::Unknown) => Err(NoAnswer::Late),
        Err(Failed::Gone) => refused(PeerRefusal::Stale),
        Err(Failed::Range) => refused(PeerRefusal::Range),
        Err(Failed::Denied) => refused(PeerRefusal::Denied),
    }
}
