//! Regions that are moved: to other pieces of their node's memory or to another node, while handles stay.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use heliostat_abi::code::Code;
use heliostat_abi::memory::{MemoryReply, MemoryRequest, MoveStage, MoveState};
use heliostat_client::ControlError;

use super::region::{Place, HOPS_MAX};
use super::{MemoryError, Region};
use crate::ask::AskMemory;

/// How long it takes until the control plane is asked how a move stands, at first and later.
const PAUSE: Duration = Duration::from_micros(500);
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// How long a doubt is waited for: a node that was only cut off is joined again by then.
const DOUBT_MAX: Duration = Duration::from_secs(10);

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
        self.wherever(|place| self.move_region(place, 0))
    }

    /// Moves it to another node; returns when it is there. Whoever has a handle, on whatever node, goes
    /// on with that: the next call finds the region there, and calls meanwhile wait for that. It has
    /// another identity there, and the same name, user, rights and life.
    ///
    /// # Errors
    /// As `relocate`; `NotMoved` too where that node refuses it, or is lost. Where that node is lost at
    /// the very end, and not back within 10 s, `InDoubt`: the region serves nobody until that node says
    /// which of both has it, and is not lost.
    pub fn move_to(&self, node: u64) -> Result<(), MemoryError> {
        self.wherever(|place| self.move_region(place, node))
    }

    fn move_region(&self, place: &Place, node: u64) -> Result<(), MemoryError> {
        let handle = place.handle;
        let mut request = MemoryRequest::Move { handle, node };
        let (mut pause, mut doubted) = (PAUSE, None);
        loop {
            let state = self.ask_move(&request)?;
            if state.stage == MoveStage::Doubt {
                let since: Instant = *doubted.get_or_insert_with(Instant::now);
                if since.elapsed() >= DOUBT_MAX {
                    return Err(MemoryError::InDoubt { region: self.id(), node: state.node });
                }
            }
            if let Some(ended) = self.ended(&state) {
                return ended;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
            request = MemoryRequest::MoveState { handle };
        }
    }

    /// Does something with the region where it is. What was refused since it has moved to another node
    /// is done there.
    #[inline]
    pub(crate) fn wherever<T>(
        &self,
        mut act: impl FnMut(&Place) -> Result<T, MemoryError>,
    ) -> Result<T, MemoryError> {
        let place = self.place();
        match act(&place) {
            Err(error @ MemoryError::Stale { .. }) => self.again(&place, error, act),
            other => other,
        }
    }

    #[cold]
    fn again<T>(
        &self,
        place: &Arc<Place>,
        error: MemoryError,
        mut act: impl FnMut(&Place) -> Result<T, MemoryError>,
    ) -> Result<T, MemoryError> {
        let mut place = place.clone();
        for _ in 0..HOPS_MAX {
            if !self.follow(&place)? {
                return Err(error);
            }
            place = self.place.load_full();
            match act(&place) {
                Err(MemoryError::Stale { .. }) => {}
                other => return other,
            }
        }
        Err(error)
    }

    /// Finds the region on the node that it has moved to; false where it has ended.
    fn follow(&self, known: &Arc<Place>) -> Result<bool, MemoryError> {
        let _following = self.following.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&self.place.load_full(), known) {
            return Ok(true);
        }
        let asked = MemoryRequest::MoveState { handle: known.handle };
        let state = match self.ask_move(&asked) {
            Ok(state) if state.stage == MoveStage::Done && state.node != 0 => state,
            Ok(_) | Err(MemoryError::Stale { .. } | MemoryError::Control(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
        let (region, rights) = (state.region, self.rights);
        let there = self.memory.on(state.node);
        let (place, _) = Place::ask(&there, MemoryRequest::MapRegion { region, rights })?;
        self.place.store(Arc::new(place));
        // After the new one: the region lives by either.
        let _ = self.tell_control(&MemoryRequest::Unmap { handle: known.handle });
        Ok(true)
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
        let (region, process) = (self.id(), state.process);
        match state.stage {
            MoveStage::Leaving | MoveStage::Copying | MoveStage::Doubt => None,
            MoveStage::Done => Some(Ok(())),
            MoveStage::Held => Some(Err(MemoryError::Held { region, process })),
            MoveStage::Failed => Some(Err(MemoryError::NotMoved { region })),
            MoveStage::None => Some(Err(MemoryError::Corrupt)),
        }
    }
}

/// The node that a region has moved to whose name was asked for.
pub(crate) fn moved_to(error: &MemoryError) -> Option<u64> {
    match error {
        MemoryError::Control(ControlError::Refused { code: Code::Moved, limit, .. }) => {
            Some(*limit)
        }
        _ => None,
    }
}
