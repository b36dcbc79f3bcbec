//! The event loop: waits for what comes, has it attended to, and says whose turn it is.

use std::io;

use heliostat_base::clock::monotonic_ns;
use tracing::{error, info, warn};

use crate::configuration;
use crate::daemon::Daemon;
use crate::names::Subordinates;
use crate::poll::Source;
use crate::state::turns::Ready;

/// How long those who are ready are served before it is looked who else is.
const SLICE_NS: u64 = 5_000_000;

impl Daemon {
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
        self.part_with_all();
        info!("the control plane ends");
        Ok(())
    }

    /// Ends every connection. The kernel does so with the process, whose end one of its threads may put
    /// off that a program keeps in the kernel.
    fn part_with_all(&self) {
        for (_, connection) in self.connections.iter() {
            let _ = rustix::net::shutdown(&connection.socket, rustix::net::Shutdown::Both);
        }
    }

    fn attend(&mut self, source: Source) {
        match source {
            Source::Listener => self.accept_some(),
            Source::Signals => self.obey_signals(),
            Source::Breaks => self.attend_breaks(),
            Source::Delegated => self.attend_delegated(),
            Source::Memory => self.attend_memory(),
            Source::Cluster => self.attend_cluster(),
            Source::Rpc => self.attend_rpc(),
            Source::Replica => self.attend_replicas(),
            Source::Store => self.attend_store(),
            Source::Sockets => self.attend_sockets(),
            Source::Cores => self.attend_cores(),
            Source::Proofs => self.attend_proofs(),
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
        let config = match configuration::read(self.parts.config_path.as_deref()) {
            Ok(config) => config,
            Err(message) => return error!(message, "the old configuration stays in force"),
        };
        if config.daemon.metrics_listen != self.parts.config.daemon.metrics_listen {
            warn!("daemon.metrics_listen takes effect at the next start");
        }
        if config.cluster != self.parts.config.cluster {
            warn!("[cluster] takes effect at the next start");
        }
        if config.store.path.is_some() && config.store.path != self.parts.config.store.path {
            warn!("store.path takes effect at the next start; heliostat store attach does so now");
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
        let table = self.parts.table;
        table.iter().for_each(|service| service.pass_time(self, now));
        if self.paused_until_ns.is_some_and(|until| now >= until) {
            self.resume_listening();
        }
        if self.idle_deadline_ns().is_some_and(|deadline| now >= deadline) {
            info!("nobody was here for the idle time");
            self.stopping = true;
        }
    }

    /// Milliseconds until something has to be done without an event; `None` costs no CPU.
    fn next_deadline_ms(&mut self) -> Option<u64> {
        let table = self.parts.table;
        let services = table.iter().filter_map(|service| service.next_deadline_ns(self)).min();
        let own = [self.idle_deadline_ns(), self.visitor_deadline_ns(), self.paused_until_ns];
        let next = own.into_iter().chain([services]).flatten().min()?;
        Some(next.saturating_sub(monotonic_ns()).div_ceil(1_000_000))
    }

    fn idle_deadline_ns(&self) -> Option<u64> {
        let configured = self.parts.config.daemon.idle_exit_s;
        let seconds = self.parts.idle_exit_s.unwrap_or(configured);
        // A node of a cluster is there for the others.
        // Who has parted the cores has to put them together again.
        let is_held = self.services.cluster.is_some() || self.services.cores.is_parted();
        let has_listeners = !self.services.listener.grants.is_empty();
        let is_needed = is_held || has_listeners || !self.connections.is_empty();
        let counts = seconds > 0 && !is_needed;
        counts.then(|| self.idle_since_ns.saturating_add(seconds.saturating_mul(1_000_000_000)))
    }

    /// Serves those who are ready, for a slice of time. Whoever is left over is ready still.
    pub(crate) fn serve_in_turn(&mut self, ready: Vec<Source>) {
        let begin = monotonic_ns();
        let each = ready.into_iter().filter_map(|source| self.ready(source));
        let mut line = self.turns.line(each, begin);
        let mut now = begin;
        while let Some(Ready { source, holder, .. }) = line.next(&self.turns, now) {
            match source {
                Source::Connection(id) | Source::Closed(id) => self.serve_some(id, now),
                Source::Process(id) => self.end_connection(id, "its process has ended"),
                _ => {}
            }
            let before = std::mem::replace(&mut now, monotonic_ns());
            self.turns.used(holder, now.saturating_sub(before), now);
            if self.stopping || now.saturating_sub(begin) >= SLICE_NS {
                return;
            }
        }
    }

    fn ready(&self, source: Source) -> Option<Ready> {
        let (Source::Connection(id) | Source::Closed(id) | Source::Process(id)) = source else {
            return None;
        };
        let served_ns = self.connections.get(id)?.served_ns;
        Some(Ready { source, holder: self.connections.holder(id)?, served_ns })
    }
}
