//! The memory service as its server loop sees it: from operations and orders to what serves them.

use heliostat_abi::file::delegated::{OneRead, Operation};
use heliostat_abi::name::ObjectId;
use heliostat_server_loop::{Engine, Object, Parts, Service, Session, Sessions, Step, Turn};

use super::elsewhere;
use super::handles::Handles;
use super::memories::Memories;
use super::message::{Hold, MemoryEvent, MemoryOrder};
use super::serve;

/// What sessions open on loops of other services. Handles come from the control plane.
pub enum NoObject {}

impl Object for NoObject {}

impl Parts for Memories {
    type Object = NoObject;
    type PerSession = Handles;
    type Request = ();
    type Order = MemoryOrder;
    type Event = MemoryEvent;

    // A write of a region on another node is a way there and back, and the next one need not wait.
    const KEEPS_ORDER: bool = false;
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

    fn bytes(session: &mut Session<Self>, id: ObjectId, operation: &Operation) -> u64 {
        serve::bytes(session, id, operation)
    }

    fn close(_: &mut Engine<Self>, _: ObjectId, object: NoObject) {
        match object {}
    }

    fn left(engine: &mut Engine<Self>, _: ObjectId, session: &mut Session<Self>) {
        engine.service.ways.forget((session.id, session.serial));
    }

    fn clock(sessions: &mut Sessions<Self>) {
        elsewhere::pass_time(sessions);
    }

    fn carry_out(sessions: &mut Sessions<Self>, order: MemoryOrder) {
        match order {
            MemoryOrder::Hold(hold) => take(sessions, *hold),
            MemoryOrder::Limit { session, handle, meter } => {
                if let Some((session, _)) = sessions.session(session) {
                    session.service.limit(handle, meter);
                }
            }
            MemoryOrder::Class { session, handle, class } => {
                if let Some((session, _)) = sessions.session(session) {
                    session.service.set_class(handle, class);
                }
            }
            MemoryOrder::Drop { session, handle } => {
                let session = sessions.session(session);
                session.into_iter().for_each(|(session, _)| session.service.give_back(handle));
                sessions.resume_named(|handles, _| handles.take_woken());
            }
            MemoryOrder::Place { region, area, epoch } => sessions.resume_named(|handles, _| {
                handles.place(region, &area, epoch);
                handles.take_woken()
            }),
            MemoryOrder::Lose { region } => sessions.resume_named(|handles, _| {
                handles.lose(region);
                handles.take_woken()
            }),
            MemoryOrder::HoldThere { session, handle, there } => {
                let session = sessions.session(session).map(|(session, _)| session);
                session.into_iter().for_each(|it| it.service.elsewhere.insert(handle, there));
            }
            MemoryOrder::LosePeer(peer) => sessions.resume_named(|handles, _| {
                handles.elsewhere.lose(peer);
                Vec::new()
            }),
            MemoryOrder::Answered(answered) => elsewhere::answered(sessions, *answered),
            MemoryOrder::Leave { region, epoch } => {
                // Orders are carried out between turns, and the word keeps the next ones out.
                let number = sessions.engine.number;
                sessions.engine.tell(MemoryEvent::Left { number, region, epoch });
            }
        }
    }

    fn completed(_: &mut Sessions<Self>, (): (), _: i32) {}
}

/// Takes a handle in. Where its session has ended it is released at once.
fn take(sessions: &mut Sessions<Memories>, hold: Hold) {
    let farewell = sessions.engine.service.farewell(hold.session, hold.handle);
    if let Some((session, _)) = sessions.session(hold.session) {
        session.service.insert(hold, farewell);
    }
}
