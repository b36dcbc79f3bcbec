//! Where a receiver has its calls, and who was there when a call met one.

use std::sync::Arc;

use heliostat_abi::rpc::operation::NOBODY_WAITED;
use heliostat_base::mapping::SharedMapping;
use heliostat_server_loop::{OperationId, Sessions};

use super::rpcs::Rpcs;

/// Who was there when a call met its receiver.
pub(crate) enum Met {
    Both,
    /// The receiver is free.
    NoCaller,
    /// The call waits for another.
    NoReceiver,
}

/// Where a receiver has its calls.
pub(crate) struct Place {
    pub window: Arc<SharedMapping>,
    pub at: u64,
    /// The flags of the next head.
    pub flags: u32,
}

pub(crate) fn place_of(sessions: &mut Sessions<Rpcs>, receiver: OperationId) -> Option<Place> {
    let (session, _) = sessions.at(receiver.seat)?;
    let entry = session.operations.get(receiver.operation)?;
    let at = entry.operation.pieces.at(0).map_or(0, |piece| piece.offset);
    let is_unheard = session.service.is_unheard(receiver.operation);
    let flags = if is_unheard { NOBODY_WAITED } else { 0 };
    Some(Place { window: session.window.clone(), at, flags })
}
