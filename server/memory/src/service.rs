//! The memory service as its server loop sees it: from operations and orders to what serves them.

use std::sync::Arc;

use heliostat_abi::file::delegated::OneRead;
use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::SharedMapping;
use heliostat_server_loop::{
    Engine, Events, Object, Parts, RegionPage, Service, Session, Sessions, Step, Turn,
};

use super::handles::Handles;
use super::message::{Farewell, Hold, MemoryEvent, MemoryOrder};
use super::serve;

/// Memory regions on one loop.
pub struct Memories {
    pub(crate) page: RegionPage,
    events: Events<Memories>,
}

/// What sessions open on loops of other services. Handles come from the control plane.
pub enum NoObject {}

impl Object for NoObject {}

impl Memories {
    /// The part of one loop. The region page is the control plane's own; what is released it hears by
    /// `events`.
    pub fn new(page: Arc<SharedMapping>, events: Events<Memories>) -> Self {
        Self { page: RegionPage::new(page), events }
    }
}

impl Parts for Memories {
    type Object = NoObject;
    type PerSession = Handles;
    type Request = ();
    type Order = MemoryOrder;
    type Event = MemoryEvent;
}

impl Service for Memories {
    fn serve(turn: &mut Turn<'_, Self>) -> Step {
        serve::serve(turn)
    }

    fn read_at_once(
        engine: &mut Engine<Self>,
        session: &mut Session<Self>,
        read: &OneRead,
        left: &mut i64,
    ) -> Option<u64> {
        serve::read_at_once(engine, session, read, left)
    }

    fn close(_: &mut Engine<Self>, _: ObjectId, object: NoObject) {
        match object {}
    }

    fn carry_out(sessions: &mut Sessions<Self>, order: MemoryOrder) {
        match order {
            MemoryOrder::Hold(hold) => take(sessions, *hold),
            MemoryOrder::Drop { session, handle } => {
                let session = sessions.session(session);
                session.into_iter().for_each(|(session, _)| session.service.remove(handle));
                sessions.resume_named(|handles, _| handles.take_woken());
            }
            MemoryOrder::Place { region, area } => sessions.resume_named(|handles, _| {
                handles.place(region, &area);
                handles.take_woken()
            }),
            MemoryOrder::Leave { region } => {
                // Orders are carried out between turns, and the word keeps the next ones out.
                let number = sessions.engine.number;
                sessions.engine.tell(MemoryEvent::Left { number, region });
            }
        }
    }

    fn completed(_: &mut Sessions<Self>, (): (), _: i32) {}
}

/// Takes a handle in. Where its session has ended it is released at once.
fn take(sessions: &mut Sessions<Memories>, hold: Hold) {
    let events = sessions.engine.service.events.clone();
    let farewell = Farewell { events, session: hold.session, handle: hold.handle };
    if let Some((session, _)) = sessions.session(hold.session) {
        session.service.insert(hold, farewell);
    }
}
