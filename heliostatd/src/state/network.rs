//! The network service: its loops, which of them has which channel, and what was measured.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use heliostat_abi::name::ObjectId;
use heliostat_backend_tcp::{measure, Measured};
use heliostat_control::config::Config;
use heliostat_server_network::{CarriedShare, NetworkLoops, Order, Settings};
use heliostat_service_grant::{Holder, Quota, Used};
use tracing::warn;

use crate::shares;

/// What the daemon keeps of the network service.
#[derive(Default)]
pub struct CarriedStreams {
    /// The loops, once somebody has asked for one.
    pub loops: Option<NetworkLoops>,
    /// The channels, each with its loop.
    pub channels: HashMap<ObjectId, CarriedChannel>,
    /// What was measured, once it has been.
    measured: Option<Arc<OnceLock<Measured>>>,
}

/// A channel of the network service.
pub struct CarriedChannel {
    /// The loop that has it.
    pub carrier: u64,
    /// Whose it is.
    pub session: ObjectId,
    /// Its program was told to ask for it, whatever the rule says.
    pub is_asked_for: bool,
}

impl CarriedStreams {
    /// The loops; each owner's are started when it asks.
    pub fn start(&mut self, config: &Config) -> &mut NetworkLoops {
        self.loops.get_or_insert_with(|| {
            NetworkLoops::new(Settings {
                loops: config.network.loops,
                cores: config.network.cores.clone(),
                shares: shares::carried(config),
            })
        })
    }

    /// New limits for connections to come.
    pub fn set_limits(&self, config: &Config) {
        self.share().into_iter().for_each(|share| share.set(shares::carried(config)));
    }

    /// Who has how many connections, once there are loops.
    pub fn share(&self) -> Option<&CarriedShare> {
        self.loops.as_ref().map(NetworkLoops::share)
    }

    /// How many a holder has, and all.
    pub fn carried(&self, holder: Holder) -> Used {
        self.share().map_or_else(Used::default, |share| share.used(holder))
    }

    /// Everybody's, as it is now.
    pub fn quota(&self) -> Option<Quota> {
        self.share().map(CarriedShare::quota)
    }

    /// What was measured. The first who asks has it measured beside the event loop.
    pub fn measured(&mut self) -> Option<Measured> {
        let cell = self.measured.get_or_insert_with(|| {
            let cell = Arc::new(OnceLock::new());
            let filled = cell.clone();
            let thread = std::thread::Builder::new().name("heliostat-measure".into());
            let started = thread.spawn(move || match measure() {
                Ok(measured) => _ = filled.set(measured),
                Err(error) => warn!(%error, "the network service cannot be measured"),
            });
            if let Err(error) = started {
                warn!(%error, "the network service cannot be measured");
            }
            cell
        });
        cell.get().copied()
    }

    /// As `measured`, and has nothing measured.
    pub fn known(&self) -> Option<Measured> {
        self.measured.as_ref()?.get().copied()
    }

    /// A channel has ended.
    pub fn end(&mut self, id: ObjectId, revoked: bool) {
        if let (Some(channel), Some(loops)) = (self.channels.remove(&id), &mut self.loops) {
            loops.order(channel.carrier, Order::End { id, revoked });
        }
    }
}
