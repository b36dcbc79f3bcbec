//! Everybody's shares, from the configuration: of each thing, and of the descriptors behind them.
//!
//! What a share is, and what the reserve is for: `heliostat_service_grant`. Here stands only how much
//! of each thing there is.

use heliostat_abi::limits::{
    ATTACHMENTS_MAX, CHANNELS_MAX, LEASES_MAX, PORTS_MAX, REGIONS_MAX, SESSIONS_MAX,
};
use heliostat_abi::listener::limits::{LISTENERS_MAX, WORKERS_MAX, WORKERS_PER_LISTENER_MAX};
use heliostat_abi::lock::limits::{HANDLES_MAX as LOCK_HANDLES_MAX, LOCKS_MAX, TICKETS_MAX};
use heliostat_abi::memory::limits::{ARENAS_MAX, HANDLES_MAX, REGIONS_MAX as MEMORY_REGIONS_MAX};
use heliostat_abi::rpc::limits::FUNCTIONS_MAX;
use heliostat_abi::store::limits::{AREAS_MAX, AREA_HANDLES_MAX};
use heliostat_control::config::{Config, Delegated};
use heliostat_service_grant::{Rate, Shares};
use rustix::process::{getrlimit, Resource};

/// Connections of one user beside its sessions: who has all its sessions may still ask.
const VISITORS_PER_USER: u64 = 64;
/// One of so many descriptors may be a lease's.
const LEASES_SHARE: u64 = 4;
/// One of so many may be a connection's to a shared listener that nobody has taken.
const HELD_SHARE: u64 = 4;
/// One of so many may be an arena's.
const ARENAS_SHARE: u64 = 8;
/// One of so many may be a folder's that a confined session keeps within reach.
const FOLDERS_SHARE: u64 = 8;
/// So many of a hundred may be sockets of delegated operations: ten thousand where there may be 20,000.
const SOCKETS_PERCENT: u64 = 60;
/// One of so many may be in an answer on its way. The kernel counts those of other programs of this
/// user as well, and takes no more than there may be descriptors (unix(7), ETOOMANYREFS).
const UNREAD_SHARE: u64 = 2;
/// Texts on their way: memory of the control plane's.
const UNREAD_BYTES_MAX: u64 = 1 << 30;
/// Descriptors of the control plane's own: log, loops, those kept back, threads that open and close.
const OWN_DESCRIPTORS: u64 = 128;
/// Descriptors that go with a carried connection: its socket, and its shadow's end.
pub const PER_CARRIED: u64 = 2;
/// Descriptors that go with a file: for buffered and for direct reads.
const PER_FILE: u64 = 2;

/// Shares of what one user may have so much of.
fn shares(config: &Config, all: u64, user: u64) -> Shares {
    let percent = |of: u64, part: u64| of.saturating_mul(part) / 100;
    let user = user.min(all);
    Shares {
        all,
        reserve: percent(all, config.limits.reserve_percent),
        user,
        trusted: all,
        sealed: percent(user, config.limits.sealed_percent).max(1),
    }
}

/// Connections, sessions among them.
pub fn connections(config: &Config) -> Shares {
    let user = config.limits.sessions_per_user as u64 + VISITORS_PER_USER;
    shares(config, SESSIONS_MAX as u64, user)
}

/// Sessions. Root and the owner have no more of them than others, so that they may still ask.
pub fn sessions(config: &Config) -> Shares {
    let user = config.limits.sessions_per_user as u64;
    Shares { trusted: user, ..shares(config, SESSIONS_MAX as u64, user) }
}

/// How fast one sealed program's connections may come.
pub fn sealed_rate(config: &Config) -> Rate {
    config.limits.connects.percent(config.limits.sealed_percent)
}

/// Of the net service.
pub fn net(config: &Config) -> heliostat_service_net::Limits {
    let limits = &config.limits;
    let bytes = limits.shared_bytes_per_user;
    heliostat_service_net::Limits {
        ports_per_session: limits.ports_per_session,
        channels_per_session: limits.channels_per_session,
        channels_per_pair: limits.channels_per_pair,
        bytes_per_session: limits.shared_bytes_per_session,
        ports: shares(config, PORTS_MAX as u64, limits.ports_per_user as u64),
        channels: shares(config, CHANNELS_MAX as u64, limits.channels_per_user as u64),
        // Promised, not used: there is no whole of which others would have less.
        bytes: Shares { trusted: bytes, reserve: 0, ..shares(config, u64::MAX, bytes) },
    }
}

/// Of the snapshot service.
pub fn snapshot(config: &Config) -> heliostat_service_snapshot::Limits {
    let limits = &config.limits;
    heliostat_service_snapshot::Limits {
        regions_per_session: limits.regions_per_session,
        attachments_per_session: limits.attachments_per_session,
        regions: shares(config, REGIONS_MAX as u64, limits.regions_per_user as u64),
        attachments: shares(config, ATTACHMENTS_MAX as u64, limits.attachments_per_user as u64),
    }
}

/// Of the file service. Each lease costs a descriptor, which sessions and channels need as well.
pub fn files(config: &Config) -> heliostat_service_file::Limits {
    let all = (descriptor_limit() / LEASES_SHARE).min(LEASES_MAX as u64);
    heliostat_service_file::Limits {
        leases_per_session: config.limits.leases_per_session,
        leases: shares(config, all, config.limits.leases_per_user as u64),
    }
}

/// Sessions that delegate, and the files that they have open: each costs two descriptors, and three
/// quarters of them are for everybody else.
pub fn delegated(config: &Config) -> (Shares, Shares) {
    let Delegated { sessions, sessions_per_user, .. } = config.delegated;
    let files = descriptor_limit() / (4 * PER_FILE);
    let of_sessions = shares(config, sessions as u64, sessions_per_user as u64);
    (of_sessions, shares(config, files, files / 2))
}

/// Of memory regions. Their bytes are promised, not used, as those of channels. Each arena costs a
/// descriptor.
pub fn memory(config: &Config) -> heliostat_service_memory::Limits {
    let memory = &config.memory;
    let bytes = memory.bytes_per_user;
    let arenas = (descriptor_limit() / ARENAS_SHARE).min(ARENAS_MAX as u64);
    heliostat_service_memory::Limits {
        arena_bytes: memory.arena_bytes,
        handles_per_session: memory.handles_per_session,
        handles: shares(config, HANDLES_MAX as u64, memory.handles_per_user as u64),
        regions: shares(config, MEMORY_REGIONS_MAX as u64, memory.regions_per_user as u64),
        bytes: Shares { trusted: bytes, reserve: 0, ..shares(config, u64::MAX, bytes) },
        arenas: shares(config, arenas, memory.arenas_per_user as u64),
    }
}

/// Sessions whose memory operations are delegated.
pub fn memory_sessions(config: &Config) -> Shares {
    let memory = &config.memory;
    shares(config, memory.sessions as u64, memory.sessions_per_user as u64)
}

/// Of locks.
pub fn locks(config: &Config) -> heliostat_service_lock::Limits {
    let locks = &config.locks;
    heliostat_service_lock::Limits {
        locks: shares(config, LOCKS_MAX as u64, locks.locks_per_user as u64),
        handles_per_session: locks.handles_per_session,
        handles: shares(config, LOCK_HANDLES_MAX as u64, locks.handles_per_user as u64),
        tickets_per_session: locks.tickets_per_session,
        tickets: shares(config, TICKETS_MAX as u64, locks.tickets_per_user as u64),
    }
}

/// Bells of sessions that wait for locks: one each, as there are sessions.
pub fn lock_bells(config: &Config) -> Shares {
    shares(config, SESSIONS_MAX as u64, config.limits.sessions_per_user as u64)
}

/// Of shared listeners. A worker costs three descriptors and a page.
pub fn listeners(config: &Config) -> heliostat_service_listener::Limits {
    heliostat_service_listener::Limits {
        workers_per_session: WORKERS_PER_LISTENER_MAX,
        listeners: shares(config, LISTENERS_MAX as u64, LISTENERS_MAX as u64 / 2),
        workers: shares(config, WORKERS_MAX as u64, WORKERS_MAX as u64 / 2),
    }
}

/// Connections to shared listeners that nobody has taken: each costs a descriptor.
pub fn held_connections(config: &Config) -> Shares {
    let all = descriptor_limit() / HELD_SHARE;
    shares(config, all, all / 2)
}

/// Connections that loops of the network service carry: each costs two descriptors, and half of all are
/// for everybody else.
pub fn carried(config: &Config) -> Shares {
    let all = (config.network.connections as u64).min(descriptor_limit() / (2 * PER_CARRIED));
    shares(config, all, all / 2)
}

/// Of remote procedure calls.
pub fn rpc(config: &Config) -> heliostat_service_rpc::Limits {
    let rpc = &config.rpc;
    heliostat_service_rpc::Limits {
        functions_per_session: rpc.functions_per_session,
        functions: shares(config, FUNCTIONS_MAX as u64, rpc.functions_per_user as u64),
    }
}

/// Sessions that call or serve functions.
pub fn rpc_sessions(config: &Config) -> Shares {
    let rpc = &config.rpc;
    shares(config, rpc.sessions as u64, rpc.sessions_per_user as u64)
}

/// Of areas of the store. How many bytes there are the store itself says.
pub fn store(config: &Config) -> heliostat_service_store::Limits {
    let store = &config.store;
    let (bytes, per_second) = (store.bytes_per_user, store.bytes_per_second);
    heliostat_service_store::Limits {
        handles_per_session: store.handles_per_session,
        handles: shares(config, AREA_HANDLES_MAX as u64, store.handles_per_user as u64),
        areas: shares(config, AREAS_MAX as u64, store.areas_per_user as u64),
        bytes: Shares { reserve: 0, ..shares(config, u64::MAX, bytes) },
        rate: Rate { per_second, burst: per_second },
        direct: store.direct_max,
    }
}

/// Sessions whose operations on areas are delegated.
pub fn store_sessions(config: &Config) -> Shares {
    let store = &config.store;
    shares(config, store.sessions as u64, store.sessions_per_user as u64)
}

/// Sessions whose socket operations are delegated: as many as of files.
pub fn socket_sessions(config: &Config) -> Shares {
    let Delegated { sessions, sessions_per_user, .. } = config.delegated;
    shares(config, sessions as u64, sessions_per_user as u64)
}

/// Folders that confined sessions keep within reach: each costs a descriptor.
pub fn confined_folders(config: &Config) -> Shares {
    let all = descriptor_limit() / FOLDERS_SHARE;
    shares(config, all, all / 2)
}

/// Sockets of delegated operations: each costs a descriptor, a listener's two.
pub fn sockets(config: &Config) -> Shares {
    let all = descriptor_limit().saturating_mul(SOCKETS_PERCENT) / 100;
    shares(config, all, all / 2)
}

/// Descriptors and bytes of answers that nobody has read.
pub fn unread(config: &Config) -> (Shares, Shares) {
    let limits = &config.limits;
    let all = descriptor_limit() / UNREAD_SHARE;
    let descriptors = (limits.unread_descriptors_per_user as u64).min(all / 4);
    let bytes = limits.unread_bytes_per_user;
    (shares(config, all, descriptors), shares(config, UNREAD_BYTES_MAX, bytes))
}

/// All descriptors, of which one user may have half.
pub fn descriptors(config: &Config) -> Shares {
    let all = descriptor_limit().saturating_sub(OWN_DESCRIPTORS).max(OWN_DESCRIPTORS);
    shares(config, all, all / 2)
}

/// Descriptors that this process may have.
pub fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(1 << 30)
}
