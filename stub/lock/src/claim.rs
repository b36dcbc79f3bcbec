//! What is claimed of something that is open.

use std::sync::Arc;

use heliostat_abi::lock::{Claim, LockRequest, Outcome};

use crate::ask::AskLock;
use crate::held::Held;
use crate::opened::{Opened, Patience};
use crate::pending::Pending;
use crate::waiting::Waiting;
use crate::LockError;

/// Claims, and waits as long as that. `None` where it was not enough.
pub(crate) fn claim(
    opened: &Arc<Opened>,
    claim: Claim,
    patience: Patience,
) -> Result<Option<Held>, LockError> {
    match patience {
        Patience::Never => try_claim(opened, claim),
        _ => request(opened, claim)?.wait_until(patience.deadline()),
    }
}

/// Claims, and has a ticket that waits or has been granted.
pub(crate) fn request(opened: &Arc<Opened>, claim: Claim) -> Result<Pending, LockError> {
    let request = LockRequest::Acquire { handle: opened.handle, claim, wait: true };
    let event = opened.shared.waits.begin(&opened.shared.control, &request);
    let event = event.map_err(|error| error.of_node(opened.node))?;
    Ok(Pending::new(Waiting::new(opened.clone(), event)))
}

fn try_claim(opened: &Arc<Opened>, claim: Claim) -> Result<Option<Held>, LockError> {
    let request = LockRequest::Acquire { handle: opened.handle, claim, wait: false };
    let event = opened.shared.control.event(&request);
    let event = event.map_err(|error| error.of_node(opened.node))?.ok_or(LockError::Corrupt)?;
    match event.outcome {
        Outcome::Busy => Ok(None),
        outcome => Held::new(opened.clone(), event.ticket, outcome).map(Some),
    }
}
