//! Regions that are moved: to other pieces of their node's memory, while handles on them stay.

use std::time::Duration;

use heliostat_abi::code::{Code, Thing};
use heliostat_abi::memory::{MemoryReply, MemoryRequest, MoveStage, MoveState};
use heliostat_client::ControlError;

use super::{MemoryError, Region};
use crate::ask::AskMemory;

/// How long it takes until the control plane is asked how a move stands, at first and later.
const PAUSE: Duration = Duration::from_micros(500);
const PAUSE_MAX: Duration = Duration::from_millis(20);

impl Region {
    /// Has its bytes lie elsewhere on its node, in one piece; returns when they do. Handles stay as they
    /// are: whoever uses it meanwhile waits for the copy. A program that is in it for longer than two
    /// seconds, as by [`MappedBytes`](super::MappedBytes), keeps it where it is.
    ///
    /// # Errors
    /// `Held` names who did not leave, `NotMoved` where there was no memory; then it is where it was.
    /// `Control` without MANAGE, at a limit (its bytes count twice meanwhile), or while it moves already;
    /// `Stale`, `Gone`, `Unreachable`.
    pub fn relocate(&self) -> Result<(), MemoryError> {
        let mut request = MemoryRequest::Move { handle: self.handle, node: 0 };
        let mut pause = PAUSE;
        loop {
            let state = self.ask_move(&request)?;
            if let Some(ended) = self.ended(&state) {
                return ended;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
            request = MemoryRequest::MoveState { handle: self.handle };
        }
    }

    fn ask_move(&self, request: &MemoryRequest) -> Result<MoveState, MemoryError> {
        let answer = self.shared().control.ask_own(request, &[]);
        match answer.map_err(|error| self.of_control(error))? {
            (MemoryReply::Moving(state), _) => Ok(state),
            _ => Err(MemoryError::Corrupt),
        }
    }

    /// How a move ended, if it has.
    fn ended(&self, state: &MoveState) -> Option<Result<(), MemoryError>> {
        let (region, process) = (self.id, state.process);
        match state.stage {
            MoveStage::Leaving | MoveStage::Copying => None,
            MoveStage::Done => Some(Ok(())),
            MoveStage::Held => Some(Err(MemoryError::Held { region, process })),
            MoveStage::Failed => Some(Err(MemoryError::NotMoved { region })),
            MoveStage::None => Some(Err(MemoryError::Corrupt)),
        }
    }
}

/// Whether a region has as many pieces as it may have: in one piece it can grow on.
pub(crate) fn is_in_pieces(error: &MemoryError) -> bool {
    let MemoryError::Control(ControlError::Refused { code, bound, .. }) = error else {
        return false;
    };
    *code == Code::Full && bound.thing == Thing::MemoryPieces
}
