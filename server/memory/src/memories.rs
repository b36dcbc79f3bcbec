//! What one loop keeps of memory regions besides its sessions' handles.

use std::sync::Arc;

use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::SharedMapping;
use heliostat_server_loop::{Event, Events, RegionPage};

use super::message::MemoryEvent;

/// Memory regions on one loop.
pub struct Memories {
    pub(crate) page: RegionPage,
    events: Events<Memories>,
}

impl Memories {
    /// The part of one loop. The region page is the control plane's own; what is released it hears by
    /// `events`.
    pub fn new(page: Arc<SharedMapping>, events: Events<Memories>) -> Self {
        Self { page: RegionPage::new(page), events }
    }

    /// What says that a handle is released, once it is dropped.
    pub(crate) fn farewell(&self, session: ObjectId, handle: ObjectId) -> Farewell {
        Farewell { events: self.events.clone(), session, handle }
    }
}

/// Says `Released` when it is dropped.
pub(crate) struct Farewell {
    events: Events<Memories>,
    session: ObjectId,
    handle: ObjectId,
}

impl Drop for Farewell {
    fn drop(&mut self) {
        let Self { session, handle, .. } = *self;
        self.events.send(Event::Service(MemoryEvent::Released { session, handle }));
    }
}
