//! The daemon's state and its event loop.
//!
//! Everything that sessions can touch lies here, owned by one thread; the other files of the
//! crate add one concern each: `connect` (connections begin and end), `serve` (one request), `services`
//! (what sessions ask, a file for each service), `admin` and `inspect` (what people ask), `metrics`.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use heliostat_abi::limits::SESSIONS_MAX;
use heliostat_backend_lease::holder::Breaks;
use heliostat_base::clock::monotonic_ns;
use heliostat_control::config::Config;
use heliostat_service_grant::Buckets;
use heliostat_service_grant::{Holder, Quota, QuotaTable, Shares};
use tracing::{error, info, warn};

use crate::closer::Closer;
use crate::connect::Connection;
use crate::denials::Denials;
use crate::home::Home;
use crate::logging::LevelHandle;
use crate::memory::NodePage;
use crate::metrics::Counts;
use crate::names::Subordinates;
use crate::poll::{Poll, Source};
use crate::quotas;
use crate::services::Services;
use crate::signals::Signals;
use crate::spare::Spare;
use crate::start;
use crate::turns::Turns;
use crate::unread::Unread;

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
        let node = NodePage::create(boot)?;
        node.keep_alive()?;
        let now = monotonic_ns();
        Ok(Daemon {
            poll,
            node,
            boot,
            started_ns: now,
            own_uid: rustix::process::geteuid().as_raw(),
            connections: QuotaTable::new(SESSIONS_MAX, quotas::connections(&parts.config)),
            sessions: Quota::new(quotas::sessions(&parts.config)),
            unread: Unread::new(quotas::unread(&parts.config)),
            descriptors: quotas::descriptors(&parts.config),
            turns: Turns::default(),
            visitors: 0,
            connects: Buckets::new(parts.config.limits.connects),
            sealed_connects: Buckets::new(quotas::sealed_rate(&parts.config)),
            subordinates: Subordinates::read(),
            services: Services::new(&parts.config)?,
            closer: Closer::start(),
            spare: Spare::new(),
            counts: Counts::default(),
            denials: Denials::default(),
            idle_since_ns: now,
            paused_until_ns: None,
            stopping: false,
            parts,
        })
    }

    /// Serves until it is told to end or idle for long enough.
    pub fn run(mut self) -> io::Result<()> {
        let socket = self.parts.home.as_ref().map(|home| home.socket().display().to_string());
        let socket = socket.unwrap_or_else(|| "handed over".into());
        info!(boot = self.boot, socket, "the control plane serves");
        while !self.stopping {
            let timeout = self.next_deadline_ms();
            let ready = self.poll.wait(timeout)?;
            ready.iter().for_each(|source| self.attend(*source));
            self.serve_in_turn(ready);
            self.pass_time();
        }
        if let Some(home) = &self.parts.home {
            home.leave();
        }
        info!("the control plane ends");
        Ok(())
    }

    fn attend(&mut self, source: Source) {
        match source {
            Source::Listener => self.accept_some(),
            Source::Signals => self.obey_signals(),
            Source::Breaks => self.attend_breaks(),
            Source::Delegated => self.attend_delegated(),
            // In turn: `serve_in_turn`.
            Source::Connection(_) | Source::Closed(_) | Source::Process(_) => {}
        }
    }

    fn obey_signals(&mut self) {
        let asked = self.parts.signals.take();
        if asked.reload {
            self.reload();
        }
        if asked.end {
            info!("told to end by a signal");
            self.stopping = true;
        }
    }

    /// Reads the configuration again; a mistake leaves the old one in force.
    fn reload(&mut self) {
        let config = match start::read_config(self.parts.config_path.as_deref()) {
            Ok(config) => config,
            Err(message) => return error!(message, "the old configuration stays in force"),
        };
        if config.daemon.metrics_listen != self.parts.config.daemon.metrics_listen {
            warn!("daemon.metrics_listen takes effect at the next start");
        }
        if config.log.format != self.parts.config.log.format {
            warn!("log.format takes effect at the next start");
        }
        self.parts.level.set(config.log.level);
        self.subordinates = Subordinates::read();
        self.set_shares(&config);
        self.parts.config = config;
        self.denials.clear();
        info!("the configuration was read again");
    }

    /// What has to be done because time went by.
    fn pass_time(&mut self) {
        let now = monotonic_ns();
        self.end_silent_visitors(now);
        if self.paused_until_ns.is_some_and(|until| now >= until) {
            self.resume_listening();
        }
        if self.idle_deadline_ns().is_some_and(|deadline| now >= deadline) {
            info!("nobody was here for the idle time");
            self.stopping = true;
        }
    }

    /// Milliseconds until something has to be done without an event; `None` costs no CPU.
    fn next_deadline_ms(&self) -> Option<u64> {
        let deadlines = [self.idle_deadline_ns(), self.visitor_deadline_ns(), self.paused_until_ns];
        let next = deadlines.into_iter().flatten().min()?;
        Some(next.saturating_sub(monotonic_ns()).div_ceil(1_000_000))
    }

    fn idle_deadline_ns(&self) -> Option<u64> {
        let configured = self.parts.config.daemon.idle_exit_s;
        let seconds = self.parts.idle_exit_s.unwrap_or(configured);
        let counts = seconds > 0 && self.connections.is_empty();
        counts.then(|| self.idle_since_ns.saturating_add(seconds.saturating_mul(1_000_000_000)))
    }
}

/// A number that no earlier run had; zero is kept for "no control plane".
fn random_boot() -> io::Result<u64> {
    let mut bytes = [0; 8];
    io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes).max(1))
}
