//! What the daemon keeps: connections, what is counted of them, and what each service has granted.
//!
//! Values that know neither the daemon nor its services. What is done with them, and when, is decided
//! above: by the daemon's own files for connections, by `services` for grants.

pub mod asks;
pub mod cluster;
pub mod cluster_registry;
pub mod connection;
pub mod cores;
pub mod counts;
pub mod denials;
pub mod file;
pub mod listener;
pub mod lock;
pub mod memory;
pub mod meters;
pub mod net;
pub mod network;
pub mod per_node;
pub mod replica;
pub mod restriction;
pub mod returns;
pub mod rpc;
pub mod snapshot;
pub mod socket;
pub mod store;
pub mod turns;
pub mod unread;

use std::io;

use heliostat_control::config::Config;

/// What the services keep.
pub struct Services {
    /// Streams.
    pub net: net::Channels,
    /// Versions of live memory.
    pub snapshot: snapshot::Regions,
    /// Leases and delegated operations.
    pub file: file::LeasedFiles,
    /// Memory regions.
    pub memory: memory::RegionMemory,
    /// The cluster, once its node has begun.
    pub cluster: Option<cluster::ClusterNode>,
    /// What is left of rates of delegated operations, whichever service they are of.
    pub meters: meters::Meters,
    /// Locks, semaphores and barriers.
    pub lock: lock::HeldLocks,
    /// Regions on several nodes, once the node has begun.
    pub replica: Option<replica::ReplicatedRegions>,
    /// Remote procedure calls.
    pub rpc: rpc::FunctionCalls,
    /// The store, and areas of it.
    pub store: store::KeptStore,
    /// Sockets of delegated operations.
    pub socket: socket::DelegatedSockets,
    /// How the machine's cores are parted.
    pub cores: cores::PartedCores,
    /// The network service.
    pub network: network::CarriedStreams,
    /// Shared listeners.
    pub listener: listener::SharedListeners,
}

impl Services {
    /// Services that know nobody yet.
    ///
    /// # Errors
    /// The kernel does not tell what one of them has to know.
    pub fn new(config: &Config) -> io::Result<Services> {
        Ok(Services {
            net: net::Channels::new(config),
            snapshot: snapshot::Regions::new(config),
            file: file::LeasedFiles::new(config)?,
            memory: memory::RegionMemory::new(config)?,
            cluster: None,
            meters: meters::Meters::default(),
            lock: lock::HeldLocks::new(config),
            replica: None,
            rpc: rpc::FunctionCalls::new(config),
            store: store::KeptStore::new()?,
            socket: socket::DelegatedSockets::new(config),
            cores: cores::PartedCores::new(),
            network: network::CarriedStreams::default(),
            listener: listener::SharedListeners::new(config),
        })
    }
}
