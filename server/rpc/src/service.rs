//! Remote procedure calls as their server loop sees them: from operations and orders to what serves them.

use heliostat_abi::name::ObjectId;
use heliostat_server_loop::{Engine, Object, Parts, Service, Session, Sessions, Step, Turn};

use super::answer::{answer_all, end_orphans, settle};
use super::between::Link;
use super::deliver::match_all;
use super::far;
use super::function::{Function, Line};
use super::lines::{end_all, end_some};
use super::member::Member;
use super::message::{Role, RpcEvent, RpcOrder};
use super::rpcs::Rpcs;
use super::serve;

/// What sessions open on loops of other services. Functions come from the control plane.
pub enum NoObject {}

impl Object for NoObject {}

impl Parts for Rpcs {
    type Object = NoObject;
    type PerSession = Member;
    type Request = ();
    type Order = RpcOrder;
    type Event = RpcEvent;

    fn cut(&mut self, session: ObjectId, operation: ObjectId) {
        self.cut.push((session, operation));
    }
}

impl Service for Rpcs {
    fn serve(turn: &mut Turn<'_, Self>) -> Step {
        serve::serve(turn)
    }

    fn close(_: &mut Engine<Self>, _: ObjectId, object: NoObject) {
        match object {}
    }

    fn left(engine: &mut Engine<Self>, seat: ObjectId, _: &mut Session<Self>) {
        engine.service.forget(seat);
    }

    fn clock(sessions: &mut Sessions<Self>) {
        far::pass_time(sessions);
        // The loop may sleep before its next round.
        Self::swept(sessions);
    }

    fn swept(sessions: &mut Sessions<Self>) {
        if !sessions.engine.service.has_news() {
            return;
        }
        far::attend_cut(sessions);
        settle(sessions);
        end_orphans(sessions);
        answer_all(sessions);
        match_all(sessions);
        far::pump(sessions);
        for seat in std::mem::take(&mut sessions.engine.service.unrung) {
            if let Some((session, _)) = sessions.at(seat) {
                session.ring();
            }
        }
    }

    fn carry_out(sessions: &mut Sessions<Self>, order: RpcOrder) {
        match order {
            RpcOrder::Serve(info) => {
                let functions = &mut sessions.engine.service.functions;
                functions.entry(info.function).or_insert_with(|| Function::new(info));
            }
            RpcOrder::Gone { function } => end_all(sessions, function),
            RpcOrder::Grant { session, who, function, role } => {
                let wake_ns = sessions.engine.service.wake_ns;
                let Some(seat) = sessions.seat(session) else { return };
                let Some((found, _)) = sessions.at(seat) else { return };
                found.service.set_role(function, who, role);
                found.service.wake_ns = wake_ns;
                end_what_it_may_not(sessions, seat, function, role);
            }
            RpcOrder::Joined { peer, caller } => {
                let links = &mut sessions.engine.service.links;
                links.entry(peer.link).or_insert_with(|| Link::new(peer, caller));
            }
            RpcOrder::Lost(peer) => far::lose(sessions, peer),
            RpcOrder::GrantThere { session, who, function, there } => {
                let wake_ns = sessions.engine.service.wake_ns;
                let Some((found, _)) = sessions.session(session) else { return };
                let Some(there) = there else { return found.service.forget(function) };
                found.service.set_role(function, who, Role { calls: true, serves: false });
                found.service.there.insert(function, there);
                found.service.wake_ns = wake_ns;
            }
            RpcOrder::GrantUser { session, peer, user, function, may_call } => {
                far::grant(sessions, session, (peer, user), (function, may_call));
            }
            RpcOrder::Asked(asked) => far::accept(sessions, *asked),
            RpcOrder::Answered(answered) => far::answered(sessions, *answered),
        }
    }

    fn completed(_: &mut Sessions<Self>, (): (), _: i32) {}
}

/// Ends what waits for a function by a right that the session no longer has.
fn end_what_it_may_not(
    sessions: &mut Sessions<Rpcs>,
    seat: ObjectId,
    function: ObjectId,
    role: Role,
) {
    if !role.serves {
        end_some(sessions, seat, function, &[Line::Receivers]);
    }
    if !role.calls {
        end_some(sessions, seat, function, &[Line::Calls, Line::Senders]);
    }
    if role == Role::default() {
        let Some((session, engine)) = sessions.at(seat) else { return };
        session.service.forget(function);
        engine.service.functions.get_mut(&function).into_iter().for_each(|it| it.forget(seat));
    }
}
