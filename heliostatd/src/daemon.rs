//! The daemon's state: everything that sessions can touch, owned by one thread.
//!
//! What it consists of lies in `state`; the other files of the crate add one concern each: `connect`
//! (connections begin and end), `serve` (one request), `services` (what sessions ask, a file for each
//! service), `admin` and `inspect` (what people ask), `metrics`, and `event_loop`, which calls them.

mod service;

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use heliostat_abi::code::Code;
use heliostat_abi::limits::SESSIONS_MAX;
use heliostat_abi::name::ObjectId;
use heliostat_backend_lease::holder::Breaks;
use heliostat_base::clock::monotonic_ns;
use heliostat_control::config::Config;
use heliostat_service_grant::Buckets;
use heliostat_service_grant::{Holder, Quota, QuotaTable, Shares};

use crate::closer::Closer;
use crate::home::Home;
use crate::logging::LevelHandle;
use crate::memory::NodePage;
use crate::names::Subordinates;
use crate::poll::{Poll, Source};
use crate::proofs::Proofs;
use crate::refused::Refused;
use crate::shares;
use crate::signals::Signals;
use crate::spare::Spare;
use crate::state::connection::Connection;
use crate::state::counts::Counts;
use crate::state::denials::Denials;
use crate::state::turns::Turns;
use crate::state::unread::Unread;
use crate::state::Services;

pub use service::{Asked, NodeAsked, Service, Table, Told, Viewer};

/// What the daemon is made from.
pub struct Parts {
    /// The configuration in force.
    pub config: Config,
    /// The file it came from, to read again.
    pub config_path: Option<PathBuf>,
    /// The command line's idle time, which wins over the file's.
    pub idle_exit_s: Option<u64>,
    /// The place, unless a service manager handed the socket over.
    pub home: Option<Home>,
    /// The listening socket.
    pub listener: OwnedFd,
    /// Caught signals.
    pub signals: Signals,
    /// Breaks of leases.
    pub breaks: Breaks,
    /// The log's level.
    pub level: LevelHandle,
    /// What sessions may ask.
    pub table: Table,
}

/// The control plane of one node.
pub struct Daemon {
    pub(crate) parts: Parts,
    pub(crate) poll: Poll,
    pub(crate) node: NodePage,
    pub(crate) boot: u64,
    pub(crate) started_ns: u64,
    pub(crate) own_uid: u32,
    /// Every connection; one that has greeted is a session, and its id is the session's.
    pub(crate) connections: QuotaTable<Connection>,
    /// How many of them are sessions.
    pub(crate) sessions: Quota,
    /// Answers that nobody has read yet.
    pub(crate) unread: Unread,
    /// Descriptors that everybody's objects may take.
    pub(crate) descriptors: Shares,
    /// Whose requests are served next.
    pub(crate) turns: Turns,
    /// How many of them have not greeted; while there are none no deadline is looked for.
    pub(crate) visitors: usize,
    pub(crate) connects: Buckets,
    /// The same of sealed programs.
    pub(crate) sealed_connects: Buckets<Holder>,
    /// Which users' numbers are given to which other users.
    pub(crate) subordinates: Subordinates,
    /// What each service keeps.
    pub(crate) services: Services,
    pub(crate) closer: Closer,
    /// What examines sockets that are shown.
    pub(crate) proofs: Proofs,
    /// What requests are taken in with when there are no other descriptors.
    pub(crate) spare: Spare,
    pub(crate) counts: Counts,
    pub(crate) denials: Denials,
    /// When the last connection ended, while there is none.
    pub(crate) idle_since_ns: u64,
    /// The listener is not watched until then: descriptors had run out.
    pub(crate) paused_until_ns: Option<u64>,
    pub(crate) stopping: bool,
}

impl Daemon {
    /// A daemon that listens and knows nobody.
    pub fn new(parts: Parts) -> io::Result<Daemon> {
        let boot = random_boot()?;
        let poll = Poll::create()?;
        poll.watch(&parts.listener, Source::Listener)?;
        poll.watch(parts.signals.pipe(), Source::Signals)?;
        poll.watch(&parts.breaks, Source::Breaks)?;
        let proofs = Proofs::start()?;
        poll.watch(&proofs, Source::Proofs)?;
        let node = NodePage::create(boot)?;
        node.keep_alive()?;
        let now = monotonic_ns();
        let mut daemon = Daemon {
            poll,
            node,
            boot,
            started_ns: now,
            own_uid: rustix::process::geteuid().as_raw(),
            connections: QuotaTable::new(SESSIONS_MAX, shares::connections(&parts.config)),
            sessions: Quota::new(shares::sessions(&parts.config)),
            unread: Unread::new(shares::unread(&parts.config)),
            descriptors: shares::descriptors(&parts.config),
            turns: Turns::default(),
            visitors: 0,
            connects: Buckets::new(parts.config.limits.connects),
            sealed_connects: Buckets::new(shares::sealed_rate(&parts.config)),
            subordinates: Subordinates::read(),
            services: Services::new(&parts.config)?,
            closer: Closer::start(),
            proofs,
            spare: Spare::new(),
            counts: Counts::default(),
            denials: Denials::default(),
            idle_since_ns: now,
            paused_until_ns: None,
            stopping: false,
            parts,
        };
        let table = daemon.parts.table;
        table.iter().try_for_each(|service| service.begin(&mut daemon))?;
        Ok(daemon)
    }

    /// Whose share a user's objects count against.
    pub(crate) fn holder_of(&self, uid: u32) -> Holder {
        if uid == 0 || uid == self.own_uid {
            Holder::trusted(uid)
        } else {
            Holder::user(self.subordinates.owner_of(uid))
        }
    }

    /// Whose share a connection's objects count against.
    pub(crate) fn holder(&self, id: ObjectId) -> Result<Holder, Refused> {
        self.connections.holder(id).ok_or(Code::Internal.into())
    }

    /// The connection of a session; one that has not greeted may not ask for grants.
    pub(crate) fn session(&self, id: ObjectId) -> Result<&Connection, Refused> {
        let connection = self.connections.get(id).ok_or(Code::Internal)?;
        match connection.session {
            Some(_) => Ok(connection),
            None => Err(Code::BadState.into()),
        }
    }

    /// Every session of a process: those that it has been handed, and those that it connected
    /// itself, whatever it said of them.
    pub(crate) fn sessions_of(&self, pid: u32) -> Vec<ObjectId> {
        let is_its = |it: &Connection| it.pid() == pid || it.peer.pid == pid;
        let sessions = self.connections.iter().filter(|(_, it)| it.session.is_some() && is_its(it));
        sessions.map(|(id, _)| id).collect()
    }

    /// True for the user that the control plane runs as, and for root.
    pub(crate) fn is_owner(&self, id: ObjectId) -> bool {
        let uid = self.connections.get(id).map(|connection| connection.peer.subject.uid);
        uid == Some(0) || uid == Some(self.own_uid)
    }
}

/// A number that no earlier run had; zero is kept for "no control plane".
fn random_boot() -> io::Result<u64> {
    let mut bytes = [0; 8];
    io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes).max(1))
}
