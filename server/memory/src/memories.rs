//! What one loop keeps of memory regions besides its sessions' handles.

use std::sync::Arc;

use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::SharedMapping;
use heliostat_server_loop::{Event, Events, Gate, RegionPage};
use heliostat_server_node::Caller;

use super::message::MemoryEvent;
use super::there::Replicated;
use super::ways::Ways;

/// Memory regions on one loop.
pub struct Memories {
    pub(crate) page: RegionPage,
    events: Events<Memories>,
    /// All loops, by number: where the answers of other nodes come in.
    pub(crate) gates: Arc<[Gate<Memories>]>,
    /// The way to other nodes, if there are any.
    pub(crate) caller: Option<Caller>,
    /// The way to regions on several nodes.
    pub(crate) replicated: Option<Arc<dyn Replicated>>,
    /// What is on that way.
    pub(crate) ways: Ways,
}

impl Memories {
    /// The part of one loop. The region page is the control plane's own; what is released it hears by
    /// `events`.
    pub fn new(page: Arc<SharedMapping>, events: Events<Memories>) -> Self {
        let (gates, caller, ways) = (Arc::from([]), None, Ways::default());
        Self { page: RegionPage::new(page), events, gates, caller, replicated: None, ways }
    }

    /// The same of a node that others are joined to. `gates` are those of all loops.
    pub fn with_caller(self, gates: Arc<[Gate<Memories>]>, caller: Caller) -> Self {
        Self { gates, caller: Some(caller), ..self }
    }

    /// The same with regions on several nodes.
    pub fn with_replicated(self, replicated: Arc<dyn Replicated>) -> Self {
        Self { replicated: Some(replicated), ..self }
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
