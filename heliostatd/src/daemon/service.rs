//! What a service is to the daemon: it answers requests, ends what sessions hold, and tells people.

use std::io;

use heliostat_abi::cluster::Class;
use heliostat_abi::code::{Code, Thing};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{Request, RequestKind, Row};
use heliostat_backend_registry::{Change, Outcome as RegistryOutcome};
use heliostat_control::config::Config;
use heliostat_server_node::{AskId, Outcome, PeerNode};
use heliostat_service_grant::Quota;
use prometheus_client::registry::Registry;
use serde_json::{Map, Value};

use super::Daemon;
use crate::answer::Answer;
use crate::closer::ReceivedFd;
use crate::refused::Refused;

/// What people are told, by name.
pub type Told = Map<String, Value>;

/// The services of a daemon. A session's things end in their order.
pub type Table = &'static [&'static dyn Service];

/// A request, with as many descriptors as its kind brings.
pub struct Asked {
    /// The connection that asks; most requests are refused before it is a session.
    pub session: ObjectId,
    /// What it asks.
    pub request: Request,
    /// What it shows.
    pub fds: Vec<ReceivedFd>,
}

impl Asked {
    /// The descriptor of a request that brings one.
    pub(crate) fn only_descriptor(mut self) -> Result<ReceivedFd, Refused> {
        Ok(self.fds.pop().ok_or(Code::BadRecord)?)
    }
}

/// What a service of another node asks. The bytes are foreign: the node has proven that it belongs to
/// the cluster, and nothing more.
pub struct NodeAsked {
    /// The number to answer it by, once: `reply_node` or `refuse_node`, now or later.
    pub ask: AskId,
    /// Who asks, and on which link.
    pub peer: PeerNode,
    /// The service's own header.
    pub header: Vec<u8>,
    /// The payload.
    pub payload: Vec<u8>,
    /// When nobody waits for the answer any more.
    pub deadline_ns: u64,
    /// In which class it is served here.
    pub class: Class,
}

/// Who looks at the control plane's state.
#[derive(Clone, Copy)]
pub struct Viewer {
    /// The owner and root see everybody's.
    pub sees_all: bool,
    /// Others see their own user's.
    pub uid: Option<u32>,
}

impl Viewer {
    /// Whether what belongs to a user is shown.
    pub fn sees(self, uid: u32) -> bool {
        self.sees_all || Some(uid) == self.uid
    }
}

/// A service, as the daemon sees it. Nothing here may wait for a client.
pub trait Service: Sync {
    /// Its number in the protocol, see `record::Service`: the requests of that number come to it.
    fn number(&self) -> u16;

    /// The requests that it brings itself, by number: those that the protocol's table has not.
    fn own_requests(&self) -> &'static [(u16, Row)] {
        &[]
    }

    /// Begins what it has beside sessions, before anybody can ask.
    ///
    /// # Errors
    /// The daemon does not start; the text says why.
    fn begin(&self, _daemon: &mut Daemon) -> io::Result<()> {
        Ok(())
    }

    /// Answers a request.
    fn answer(&self, daemon: &mut Daemon, asked: Asked) -> Result<Answer, Refused>;

    /// Ends what a session holds; the session is gone.
    fn end(&self, _daemon: &mut Daemon, _session: ObjectId) {}

    /// Ends what the sessions hold, and gives them nothing new. Answers how much that was.
    fn revoke(&self, _daemon: &mut Daemon, _sessions: &[ObjectId]) -> usize {
        0
    }

    /// Takes new limits over, for what is asked from now on.
    fn set_limits(&self, _daemon: &mut Daemon, _config: &Config) {}

    /// Returns who has how much of what it grants.
    fn quotas<'a>(&self, _daemon: &'a Daemon) -> Vec<(Thing, &'a Quota)> {
        Vec::new()
    }

    /// Another node is joined. Told before anything that it asks.
    fn node_joined(&self, _daemon: &mut Daemon, _peer: PeerNode) {}

    /// A node that was joined is lost, on that link: calls to it have ended, and what it asked is void.
    fn node_lost(&self, _daemon: &mut Daemon, _peer: PeerNode) {}

    /// The service of the same number on another node asks something.
    fn node_asked(&self, daemon: &mut Daemon, asked: NodeAsked) {
        daemon.refuse_node(asked.ask);
    }

    /// A call that this service made by `call_node`, with this token, has ended.
    fn node_answered(&self, _daemon: &mut Daemon, _token: u64, _outcome: Outcome) {}

    /// What this service asked of the registry by `ask_registry`, with this token, has ended.
    fn registry_ended(&self, _daemon: &mut Daemon, _token: u64, _outcome: RegistryOutcome) {}

    /// The registry answers, and this node is registered: changes after this revision are told from now
    /// on, and what was told before may have gaps. Whoever keeps records there lists them again.
    fn registry_ready(&self, _daemon: &mut Daemon, _after: u64) {}

    /// A record in the registry was changed, whosever it is.
    fn registry_changed(&self, _daemon: &mut Daemon, _change: &Change) {}

    /// Does what has to be done because time went by. Told after whatever came, and at its deadline at the latest.
    fn pass_time(&self, _daemon: &mut Daemon, _now_ns: u64) {}

    /// Returns when it has something to do without being asked; where nobody has, the daemon sleeps.
    fn next_deadline_ns(&self, _daemon: &mut Daemon) -> Option<u64> {
        None
    }

    /// Adds its part of the whole state, for people.
    fn status(&self, _daemon: &Daemon, _viewer: Viewer, _told: &mut Told) {}

    /// Adds what a session holds of it, for people.
    fn session_status(&self, _daemon: &Daemon, _session: ObjectId, _told: &mut Told) {}

    /// Adds what it does for a process's sessions, and why so, for people.
    fn explain(&self, _daemon: &Daemon, _sessions: &[ObjectId], _told: &mut Told) {}

    /// Returns what is there now: name, help, value.
    fn gauges(&self, _daemon: &Daemon) -> Vec<(&'static str, &'static str, u64)> {
        Vec::new()
    }

    /// Adds its counters.
    fn metrics(&self, _daemon: &Daemon, _registry: &mut Registry) {}
}

impl Daemon {
    /// Every request that some service answers, by number.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u16, Row)> {
        let known = RequestKind::ALL.iter().map(|kind| (kind.number(), kind.row()));
        let table = self.parts.table.iter();
        known.chain(table.flat_map(|service| service.own_requests().iter().cloned()))
    }

    /// What holds for a request; `None` when no service answers it.
    pub(crate) fn row(&self, request: &Request) -> Option<Row> {
        match request.kind() {
            Some(kind) => Some(kind.row()),
            None => self.rows().find(|(number, _)| *number == request.number()).map(|(_, row)| row),
        }
    }
}
