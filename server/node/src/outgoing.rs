//! A call on its way, and where its one outcome goes.

use heliostat_abi::cluster::Class;
use heliostat_backend_transport::error::{CallError, CallFailure, Effect};
use heliostat_backend_transport::identity::NodeId;
use heliostat_backend_transport::transport::LinkId;
use heliostat_base::clock::monotonic_ns;

use crate::call::{not_sent, NodeCall, Outcome};
use crate::event::{NodesEvent, NodesEvents};
use crate::header;
use crate::place::Place;
use crate::quality::lanes::Queued;

/// Takes the outcome, on the node's thread.
pub(crate) type Sink = Box<dyn FnOnce(Outcome) + Send>;

/// Where an outcome goes, once. Dropped without one it tells that the node's thread has ended.
pub(crate) struct Answer {
    node: NodeId,
    to: Option<To>,
    /// Whether it was sent: what then becomes of it nobody knows.
    pub(crate) is_sent: bool,
}

enum To {
    Daemon(NodesEvents, u64),
    Sink(Sink, Place),
}

impl Answer {
    /// The daemon gets it, with its token.
    pub(crate) fn daemon(node: NodeId, events: NodesEvents, token: u64) -> Answer {
        Answer { node, to: Some(To::Daemon(events, token)), is_sent: false }
    }

    /// A sink gets it; its place is free from then on.
    pub(crate) fn sink(node: NodeId, sink: Sink, place: Place) -> Answer {
        Answer { node, to: Some(To::Sink(sink, place)), is_sent: false }
    }

    /// Gives the outcome.
    pub(crate) fn give(mut self, outcome: Outcome) {
        self.deliver(outcome);
    }

    /// Forgets where it would go: whoever made the call is told otherwise.
    pub(crate) fn forget(mut self) {
        self.to = None;
    }

    fn deliver(&mut self, outcome: Outcome) {
        match self.to.take() {
            Some(To::Daemon(events, token)) => {
                events.send(NodesEvent::Answered { token, outcome });
            }
            Some(To::Sink(sink, place)) => {
                // First the place: the sink may make the next call.
                drop(place);
                sink(outcome);
            }
            None => {}
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let effect = if self.is_sent { Effect::Unknown } else { Effect::NotSent };
        let why = CallFailure::Withdrawn;
        self.deliver(Err(CallError { node: Some(self.node), effect, why }));
    }
}

/// A call on its way to the node's thread, or waiting there for room.
pub(crate) struct Outgoing {
    pub(crate) node: NodeId,
    /// Only by this one, if given.
    pub(crate) link: Option<LinkId>,
    pub(crate) class: Class,
    /// With the service in front.
    pub(crate) header: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    pub(crate) deadline_ns: u64,
    pub(crate) made_ns: u64,
    pub(crate) answer: Answer,
}

impl Outgoing {
    /// A call of a class, and where its answer goes.
    pub(crate) fn new(class: Class, call: NodeCall, answer: Answer) -> Outgoing {
        let NodeCall { node, link, service, header, payload, deadline_ns } = call;
        let header = header::encode_as(class, service, &header);
        let made_ns = monotonic_ns();
        Outgoing { node, link, class, header, payload, deadline_ns, made_ns, answer }
    }

    /// Ends it: nothing was sent.
    pub(crate) fn fail(self, why: CallFailure) {
        let error = not_sent(self.node, why);
        self.answer.give(Err(error));
    }
}

impl Queued for Outgoing {
    fn class(&self) -> Class {
        self.class
    }

    fn bytes(&self) -> usize {
        self.header.len() + self.payload.len()
    }

    fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }
}
