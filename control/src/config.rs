//! What a person may configure: the model, its defaults and their reasons.
//!
//! Reading a file is [`read`](Config::read); it explains every mistake with its line, its key and
//! what would be right, and refuses keys it does not know, because a misspelt limit that is
//! silently ignored is worse than none.

mod carry;
mod cluster;
mod cores;
mod durable;
pub(crate) mod error;
pub(crate) mod field;
mod listener;
mod locks;
mod memory;
mod network;
mod offload;
mod quality;
mod read;
mod rpc;
mod store;

pub use carry::{CarryRule, CarryRules, NoCarryRule};
pub use cluster::{
    Cluster, ClusterAddress, ClusterPeer, ClusterRegistry, ClusterTransport, EtcdAccess,
};
pub use cores::{ProgramPlace, ProgramRule, ProgramRules};
pub use durable::Durable;
pub use error::{ConfigError, Fault};
pub use listener::{SharedAddress, SharedAddresses};
pub use locks::Locks;
pub use memory::Memory;
pub use network::{Network, When};
pub use offload::Offload;
pub use quality::{Quality, Scheme};
pub use read::Names;
pub use rpc::Rpc;
pub use store::{Discard, DurableWrites, Store, Trusted};

use heliostat_abi::file::delegated::{SESSIONS_MAX, WINDOW_BYTES_MAX};
use heliostat_abi::limits::{
    ATTACHMENTS_MAX, CHANNELS_MAX, CHANNELS_PER_PAIR_MAX, LEASES_MAX, PORTS_MAX, REGIONS_MAX,
    RING_BYTES_DEFAULT, SLOTS_MAX,
};

use crate::classes::Classes;
use crate::rates::{Holds, Per, PerSecond, Rates};
use crate::rights::Subject;
use crate::rules::Rules;
use heliostat_service_grant::Rate;

/// Everything that can be configured.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Config {
    /// The daemon itself.
    pub daemon: Daemon,
    /// What it writes of its own doings.
    pub log: Log,
    /// Limits of sessions and users.
    pub limits: Limits,
    /// The shape of channels.
    pub channel: Channel,
    /// Delegated operations.
    pub delegated: Delegated,
    /// Memory regions.
    pub memory: Memory,
    /// The cluster, if this is a node of one.
    pub cluster: Option<Cluster>,
    /// Locks, semaphores and barriers.
    pub locks: Locks,
    /// Remote procedure calls.
    pub rpc: Rpc,
    /// The network service.
    pub network: Network,
    /// Durable files of programs that are run by this configuration.
    pub durable: Durable,
    /// Programs whose connections the network service carries whatever the rule says, or never.
    pub carry: CarryRules,
    /// Programs whose calls kernel cores make.
    pub offload: Offload,
    /// The store, and areas of it.
    pub store: Store,
    /// Where programs belong when cores are parted.
    pub cores: ProgramRules,
    /// Addresses that are shared by whoever listens on them.
    pub listeners: SharedAddresses,
    /// Who may what.
    pub rules: Rules,
    /// Who may how much of delegated operations.
    pub rates: Rates,
    /// How urgent calls to other nodes are.
    pub classes: Classes,
    /// What is done for that.
    pub quality: Quality,
}

impl Config {
    /// The rate of a session of `subject`'s: the first that is configured for it, or the pair in
    /// `[delegated]`.
    pub fn rate_of_session(&self, subject: &Subject) -> Holds {
        let Delegated { operations_per_second, bytes_per_second, .. } = self.delegated;
        let per_second = PerSecond { operations: operations_per_second, bytes: bytes_per_second };
        let usual = Holds { place: 0, per: Per::Session, per_second };
        self.rates.of_session(subject).unwrap_or(usual)
    }

    /// What is done for classes: nothing where there are none.
    pub fn scheme(&self) -> Scheme {
        if self.classes.0.is_empty() {
            return Scheme::None;
        }
        self.quality.scheme
    }

    /// Whether a session of `subject`'s may read by an io_uring of its own: what that does counts
    /// against no rate.
    pub fn may_lend(&self, subject: &Subject) -> bool {
        let has_rate = !self.rate_of_session(subject).per_second.is_unlimited();
        self.delegated.own_rings && !has_rate && !self.rates.has_names_for(subject)
    }
}

/// The daemon itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Daemon {
    /// End after so many seconds without a session; 0 is never. The command line wins.
    pub idle_exit_s: u64,
    /// Address of the HTTP listener for metrics, if one is wanted.
    pub metrics_listen: Option<std::net::SocketAddr>,
}

/// Form of the log's lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// How much is logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogLevel {
    /// What broke.
    Error,
    /// What somebody should look at.
    Warn,
    /// Start, end, configuration.
    #[default]
    Info,
    /// Every session.
    Debug,
    /// Every request.
    Trace,
}

/// What the daemon writes of its own doings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Log {
    /// How much.
    pub level: LogLevel,
    /// In which form.
    pub format: LogFormat,
}

/// Limits of sessions and users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Sessions of one user at once.
    pub sessions_per_user: usize,
    /// Listening addresses of one session.
    pub ports_per_session: usize,
    /// Listening addresses of one user.
    pub ports_per_user: usize,
    /// Named snapshot regions of one session.
    pub regions_per_session: usize,
    /// Named snapshot regions of one user.
    pub regions_per_user: usize,
    /// Snapshot regions that one session is attached to.
    pub attachments_per_session: usize,
    /// Attachments of one user.
    pub attachments_per_user: usize,
    /// Files that one session reads under a lease.
    pub leases_per_session: usize,
    /// Files that one user's sessions read under a lease.
    pub leases_per_user: usize,
    /// Channels of one connecting session.
    pub channels_per_session: usize,
    /// Channels of one connecting user.
    pub channels_per_user: usize,
    /// Channels of one connecting session to one address.
    pub channels_per_pair: usize,
    /// Bytes of channel memory of one connecting session.
    pub shared_bytes_per_session: u64,
    /// Bytes of channel memory of one user.
    pub shared_bytes_per_user: u64,
    /// New connections to the control socket, per user.
    pub connects: Rate,
    /// Descriptors in answers that one user's programs have not read.
    pub unread_descriptors_per_user: usize,
    /// Bytes of texts in answers that one user's programs have not read.
    pub unread_bytes_per_user: u64,
    /// What one sealed program may have of its user's share, in percent.
    pub sealed_percent: u64,
    /// What is kept for newcomers, root and the owner of what the node has, in percent.
    pub reserve_percent: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // Half of the node page: one user cannot shut the others out.
            sessions_per_user: 2048,
            ports_per_session: 256,
            // Of one user half of what the node has, as of sessions.
            ports_per_user: PORTS_MAX / 2,
            regions_per_session: 64,
            regions_per_user: REGIONS_MAX / 2,
            attachments_per_session: 256,
            attachments_per_user: ATTACHMENTS_MAX / 2,
            // A sixteenth of the node's: descriptors of the control plane, and writers that wait.
            leases_per_session: 256,
            leases_per_user: LEASES_MAX / 2,
            channels_per_session: 1024,
            channels_per_user: CHANNELS_MAX / 2,
            channels_per_pair: CHANNELS_PER_PAIR_MAX,
            // Promised, not used: pages of a channel exist once they are written. A full pair
            // (64 channels of 32 MiB) is 2 GiB, so a session may fill eight of them.
            shared_bytes_per_session: 16 << 30,
            shared_bytes_per_user: 256 << 30,
            // A shell loop that starts programs reaches about 500 per second on one core.
            connects: Rate { per_second: 1000, burst: 2000 },
            // An answer has 2, or up to 16 for who attaches: hundreds of programs that were just
            // started and have not run yet.
            unread_descriptors_per_user: 2048,
            // A full status has some 10 MiB.
            unread_bytes_per_user: 128 << 20,
            // Four sealed programs that take all they may leave their user nothing; one much.
            sealed_percent: 25,
            reserve_percent: 12,
        }
    }
}

/// The shape of channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Channel {
    /// Streams in one channel.
    pub slots: u32,
    /// Bytes of the ring of one direction.
    pub ring_bytes: u32,
}

impl Default for Channel {
    fn default() -> Self {
        Self { slots: SLOTS_MAX as u32, ring_bytes: RING_BYTES_DEFAULT }
    }
}

/// Server loops at most: each may have a core, a thread and an io_uring.
pub const LOOPS_MAX: usize = 16;

/// How server loops make requests to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Requests {
    /// By io_uring where the kernel gives one, else by threads.
    #[default]
    Auto,
    /// By io_uring, or not at all.
    Uring,
    /// By threads.
    Threads,
}

/// Delegated operations: the server loops, their cache, and how much a session may do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delegated {
    /// The kernel cores: one server loop has each for itself. Without any the loops share the cores
    /// with everybody, and sleep sooner.
    pub cores: Vec<usize>,
    /// Server loops; as many as `cores` where there are any.
    pub loops: usize,
    /// Bytes of the cache of file blocks; pages exist once they are used.
    pub cache_bytes: u64,
    /// Sessions at once; 0 switches delegated operations off.
    pub sessions: usize,
    /// Of these, one user's.
    pub sessions_per_user: usize,
    /// Largest window of a session.
    pub window_bytes: u64,
    /// Operations per second of one session; 0 is no limit.
    pub operations_per_second: u64,
    /// Bytes per second of one session; 0 is no limit.
    pub bytes_per_second: u64,
    /// How the server loops make requests to the kernel.
    pub requests: Requests,
    /// Whether sessions without such limits may read what they opened for the device by themselves.
    pub own_rings: bool,
    /// Bytes of a copied transfer from which on it goes around the processor's cache, 0 for never;
    /// measured when the control plane starts if nothing is said.
    pub copy_around_bytes: Option<u64>,
    /// Bytes of a read from which on it goes to the device itself, 0 for never; measured for each
    /// device if nothing is said.
    pub direct_from_bytes: Option<u64>,
}

impl Default for Delegated {
    fn default() -> Self {
        Self {
            cores: Vec::new(),
            // More of them help only where there are cores to spare.
            loops: 1,
            // 4096 blocks: what a handful of programs read again and again.
            cache_bytes: 256 << 20,
            sessions: SESSIONS_MAX,
            sessions_per_user: SESSIONS_MAX / 2,
            window_bytes: WINDOW_BYTES_MAX,
            operations_per_second: 0,
            bytes_per_second: 0,
            requests: Requests::Auto,
            own_rings: true,
            copy_around_bytes: None,
            direct_from_bytes: None,
        }
    }
}
