//! Streams: who listens where, and the memory of channels.

use std::collections::HashMap;

use heliostat_abi::name::ObjectId;
use heliostat_control::config::Config;
use heliostat_service_net::Net;

use crate::memory::ChannelMemory;
use crate::shares;

/// What the daemon keeps of streams.
pub struct Channels {
    /// Who holds what.
    pub grants: Net,
    /// Memory of each channel.
    pub memory: HashMap<ObjectId, ChannelMemory>,
}

impl Channels {
    /// Nobody listens yet.
    pub fn new(config: &Config) -> Channels {
        Channels { grants: Net::new(shares::net(config)), memory: HashMap::new() }
    }
}
