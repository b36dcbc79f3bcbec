//! Versions of live memory: which regions have names, and what their consumers have shown.

use std::collections::HashMap;
use std::rc::Rc;

use heliostat_abi::name::ObjectId;
use heliostat_control::config::Config;
use heliostat_service_snapshot::Snapshot;

use crate::closer::ReceivedFd;
use crate::shares;

/// What the daemon keeps of snapshots.
pub struct Regions {
    /// Who holds what.
    pub grants: Snapshot,
    /// Memory of each region.
    pub memory: HashMap<ObjectId, NamedRegion>,
    /// Pages of pins, perhaps with bells, that their producers have not fetched yet.
    pub pins: HashMap<ObjectId, Vec<ReceivedFd>>,
}

impl Regions {
    /// Nothing has a name yet.
    pub fn new(config: &Config) -> Regions {
        let grants = Snapshot::new(shares::snapshot(config));
        Regions { grants, memory: HashMap::new(), pins: HashMap::new() }
    }
}

/// Memory of one named region, kept open while it has its name.
pub struct NamedRegion {
    /// Its table.
    pub table: Rc<ReceivedFd>,
    /// Its pool.
    pub pool: Rc<ReceivedFd>,
    /// Its length.
    pub bytes: u64,
}
