//! A transport over UCX: its events become a link's, in order, and strangers get little.
//!
//! ```text
//! connect -> Opened at once; what is sent waits in UCX until it is connected
//! knock   -> Opened, messages of at most 128 bytes, one at a time, until it is admitted
//! close   -> with time to linger: the link stays until the other side ends it, or the time does
//! ```
//!
//! An end is told on another way than messages are, so a link that is to say something last does not
//! close before the other side has.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use heliostat_backend_transport::address::Address;
use heliostat_backend_transport::limits::{
    HEAD_AND_HEADER_BYTES_MAX, LINKS_MAX, PAYLOAD_BYTES_MAX, STRANGERS_MAX,
};
use heliostat_backend_transport::transport::{
    Armed, EndCause, Family, LinkEvent, LinkId, Message, NotBegun, NotTaken, SendToken, Transport,
    TransportBroken, TransportKind,
};

use crate::binding::{self, Announced, NoUcx, Worker};
use crate::inbox::{Inbox, NUMBER_BYTES};

mod incoming;

/// Endpoints at once: the links that a node may have, and some that linger.
const ENDPOINTS_MAX: usize = LINKS_MAX + STRANGERS_MAX;
/// Messages of one link that UCX has and has not sent. Their bytes are bounded by the node's windows.
const QUEUE_LENGTH_MAX: usize = 65_536;
/// Events of UCX in one step, so that others have their turn.
const HAPPENINGS_AT_ONCE: usize = 1024;

/// A setting of ours: the variable by which somebody may choose another, its name, and its value.
type Setting = (&'static str, &'static CStr, &'static CStr);

/// Between nodes there is no shared memory; UCX takes two namespaces of one machine for one node, and
/// would try.
const NO_SHARED_MEMORY: Setting = ("UCX_TLS", c"TLS", c"^sm");
/// UCX opens a port on each interface, wherever its listener is.
const LOOPBACK_ONLY: Setting = ("UCX_NET_DEVICES", c"NET_DEVICES", c"lo");
/// A node that comes back listens where connections of its last life have not run out.
const LISTEN_AGAIN: Setting = ("UCX_CM_REUSEADDR", c"CM_REUSEADDR", c"y");

/// UCX's statuses that are told apart.
const CONNECTION_RESET: i32 = -25;
const NOT_CONNECTED: i32 = -24;

/// A worker and its links.
pub struct Ucx {
    worker: Worker,
    version: u32,
    links: BTreeMap<LinkId, Link>,
    links_made: u64,
    /// When lingering links are closed for good.
    lingering: BTreeSet<(u64, LinkId)>,
    /// Links that have a message whose turn comes in the next step.
    ready: BTreeSet<LinkId>,
    /// What happened outside of progress.
    pending: Vec<LinkEvent>,
    broken: Option<TransportBroken>,
}

#[derive(Default)]
struct Link {
    is_ours: bool,
    is_admitted: bool,
    has_spoken: bool,
    lingers_until_ns: Option<u64>,
    /// Numbers of messages that were sent.
    sent: u64,
    queued: usize,
    inbox: Inbox<Announced>,
}

/// Why a node does not listen by UCX.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListenError {
    /// There is no UCX that can be used.
    NoUcx(NoUcx),
    /// UCX refused, with its status.
    Refused(i32),
}

/// The version of the UCX that is installed here, which loads it.
pub fn version() -> Result<(u32, u32), NoUcx> {
    binding::load().map(|library| library.version)
}

impl Ucx {
    /// Listens there; port 0 lets the system choose. The thread that calls this is the only one that
    /// uses it.
    pub fn listen(at: SocketAddr) -> Result<Ucx, ListenError> {
        let library = binding::load().map_err(ListenError::NoUcx)?;
        let mut settings = vec![NO_SHARED_MEMORY, LISTEN_AGAIN];
        if at.ip().is_loopback() {
            settings.push(LOOPBACK_ONLY);
        }
        settings.retain(|(variable, ..)| std::env::var_os(variable).is_none());
        let settings: Vec<_> = settings.into_iter().map(|(_, name, value)| (name, value)).collect();
        let worker = Worker::listen(library, at, &settings).map_err(ListenError::Refused)?;
        let (major, minor) = library.version;
        Ok(Ucx {
            worker,
            version: major << 16 | minor,
            links: BTreeMap::new(),
            links_made: 0,
            lingering: BTreeSet::new(),
            ready: BTreeSet::new(),
            pending: Vec::new(),
            broken: None,
        })
    }

    fn add(&mut self, is_ours: bool) -> LinkId {
        self.links_made += 1;
        let id = LinkId(self.links_made);
        self.links.insert(id, Link { is_ours, ..Link::default() });
        id
    }

    /// The link ended by itself, or has to.
    fn end(&mut self, id: LinkId, why: EndCause, events: &mut Vec<LinkEvent>) {
        let Some(link) = self.forget(id) else { return };
        if link.lingers_until_ns.is_none() {
            events.push(LinkEvent::Ended { link: id, why });
        }
        link.inbox.into_away().for_each(|payload| self.worker.discard(payload));
    }

    fn forget(&mut self, id: LinkId) -> Option<Link> {
        let link = self.links.remove(&id)?;
        if let Some(until_ns) = link.lingers_until_ns {
            self.lingering.remove(&(until_ns, id));
        }
        self.ready.remove(&id);
        self.worker.close(id.0);
        Some(link)
    }

    fn end_lingering(&mut self, now_ns: u64) {
        while let Some((_, id)) =
            self.lingering.first().copied().filter(|(until_ns, _)| *until_ns <= now_ns)
        {
            self.end(id, EndCause::Closed, &mut Vec::new());
        }
    }
}

impl Link {
    /// What a status of UCX means for this link.
    fn end_cause(&self, code: i32) -> EndCause {
        match code {
            _ if self.is_ours && !self.has_spoken => EndCause::Unreachable { code },
            CONNECTION_RESET | NOT_CONNECTED => EndCause::Closed,
            _ => EndCause::Broken { code },
        }
    }
}

impl Transport for Ucx {
    fn kind(&self) -> TransportKind {
        TransportKind { family: Family::Ucx, version: self.version }
    }

    fn address(&self) -> Address {
        Address::Ucx(self.worker.local())
    }

    fn number_links_from(&mut self, last: u64) {
        self.links_made = last;
    }

    fn connect(&mut self, _now_ns: u64, to: Address) -> Result<LinkId, NotBegun> {
        let Address::Ucx(to) = to else { return Err(NotBegun::Family) };
        if self.links.len() >= ENDPOINTS_MAX {
            return Err(NotBegun::Full { limit: ENDPOINTS_MAX });
        }
        let link = self.add(true);
        match self.worker.connect(link.0, to) {
            Ok(()) => {
                self.pending.push(LinkEvent::Opened { link, is_ours: true });
                Ok(link)
            }
            Err(code) => {
                self.links.remove(&link);
                Err(NotBegun::Refused { code })
            }
        }
    }

    fn send(
        &mut self,
        _now_ns: u64,
        id: LinkId,
        message: Message,
        token: SendToken,
    ) -> Result<(), (NotTaken, Message)> {
        let link = self.links.get_mut(&id).filter(|link| link.lingers_until_ns.is_none());
        let Some(link) = link else { return Err((NotTaken::NoLink, message)) };
        if message.head.len() > HEAD_AND_HEADER_BYTES_MAX
            || message.payload.len() > PAYLOAD_BYTES_MAX
        {
            return Err((NotTaken::TooLong, message));
        }
        if link.queued >= QUEUE_LENGTH_MAX {
            return Err((NotTaken::Full, message));
        }
        let header = [link.sent.to_le_bytes().as_slice(), &message.head].concat();
        match self.worker.send(id.0, token.0, header, message.payload) {
            Ok(is_sent) => {
                link.sent += 1;
                if is_sent {
                    self.pending.push(LinkEvent::Sent { link: id, token });
                } else {
                    link.queued += 1;
                }
                Ok(())
            }
            Err((_, header, payload)) => {
                let head = header[NUMBER_BYTES..].to_vec();
                Err((NotTaken::NoLink, Message { head, payload }))
            }
        }
    }

    fn admit(&mut self, id: LinkId) {
        if let Some(link) = self.links.get_mut(&id) {
            link.is_admitted = true;
            self.ready.insert(id);
        }
    }

    fn close(&mut self, now_ns: u64, id: LinkId, linger_ns: u64) {
        self.pending.retain(|event| event.link() != id);
        let Some(link) = self.links.get_mut(&id).filter(|link| link.lingers_until_ns.is_none())
        else {
            return;
        };
        let until_ns = now_ns.saturating_add(linger_ns);
        link.lingers_until_ns = Some(until_ns);
        self.lingering.insert((until_ns, id));
        if linger_ns == 0 {
            self.end(id, EndCause::Closed, &mut Vec::new());
        }
    }

    fn progress(
        &mut self,
        now_ns: u64,
        events: &mut Vec<LinkEvent>,
    ) -> Result<(), TransportBroken> {
        events.append(&mut self.pending);
        self.end_lingering(now_ns);
        for id in std::mem::take(&mut self.ready) {
            self.hand_out(id, events);
        }
        self.worker.progress();
        for _ in 0..HAPPENINGS_AT_ONCE {
            match self.worker.take() {
                Some(happening) => self.take(happening, events),
                None => break,
            }
        }
        self.broken.map_or(Ok(()), Err)
    }

    fn wake_ns(&self) -> Option<u64> {
        self.lingering.first().map(|(until_ns, _)| *until_ns)
    }

    fn arm(&mut self) -> Armed {
        if !self.pending.is_empty() || !self.ready.is_empty() {
            return Armed::Again;
        }
        match self.worker.arm() {
            Ok(true) => Armed::Sleep,
            Ok(false) => Armed::Again,
            Err(code) => {
                self.broken = Some(TransportBroken { code });
                Armed::Again
            }
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.worker.descriptor())
    }
}

impl fmt::Display for NoUcx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoUcx::NotFound(words) => write!(f, "UCX is not installed: {words}"),
            NoUcx::Incomplete(function) => write!(f, "UCX lacks {function}"),
            NoUcx::TooOld { found, wanted } => {
                write!(f, "UCX {}.{} is older than {}.{}", found.0, found.1, wanted.0, wanted.1)
            }
        }
    }
}

impl std::error::Error for NoUcx {}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenError::NoUcx(why) => why.fmt(f),
            ListenError::Refused(status) => write!(f, "UCX refuses to listen (status {status})"),
        }
    }
}

impl std::error::Error for ListenError {}
