//! Memory regions: who has which, the arenas that they lie in, the page of their words, the loops.

mod across;
mod arena;
mod copying;
mod departure;
mod loops;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use heliostat_abi::memory::limits::{REGIONS_MAX, REGION_PAGE_BYTES};
use heliostat_abi::memory::page;
use heliostat_abi::name::ObjectId;
use heliostat_abi::wire::Writer;
use heliostat_abi::VERSION;
use heliostat_base::mapping::{SharedMapping, Writers};
use heliostat_control::config::Config;
use heliostat_server_loop::{Presence, RegionPage};
use heliostat_service_memory::{Memory, Remote};

use crate::closer::ReceivedFd;
use crate::memory::read_only;
use crate::shares;

pub use across::{Across, OfHandle, Waiting, Wanted};
pub use arena::Arena;
pub use copying::{Copied, Copying};
pub use departure::{Departure, Step};
pub use loops::MemoryLoops;

/// What the daemon keeps of memory regions.
pub struct RegionMemory {
    /// Who has which.
    pub grants: Memory,
    /// The files that their bytes lie in.
    pub arenas: HashMap<ObjectId, Arena>,
    /// Their words.
    pub page: WordPage,
    /// The loops that serve who maps nothing, once somebody has asked.
    pub loops: Option<MemoryLoops>,
    /// Bells of sessions that answer who may map their regions.
    pub bells: HashMap<ObjectId, ReceivedFd>,
    /// What is between this node and others.
    pub across: Across,
    /// Pages of sessions that map regions: in which they are.
    pub presence: HashMap<ObjectId, (Presence, Rc<OwnedFd>)>,
    /// Regions whose bytes are being copied, and which of them had the last turn.
    pub copies: BTreeMap<ObjectId, Copying>,
    /// See `copies`.
    pub copied: ObjectId,
    /// Regions that leave for other nodes.
    pub departures: BTreeMap<ObjectId, Departure>,
    /// Messages with bytes of theirs that are on the way: of which departure, and how many.
    pub writes: HashMap<u64, ((ObjectId, u64), u64)>,
    /// Handles on regions that have left, by which they live as long as somebody here managed them.
    pub keepers: HashMap<ObjectId, Remote>,
    /// When the pages are looked at next, while a region moves.
    pub look_ns: u64,
}

/// The page with the words of all regions.
pub struct WordPage {
    /// Written here only.
    pub words: RegionPage,
    /// The same, for the loops.
    pub mapping: Arc<SharedMapping>,
    /// What sessions get.
    pub read_only: Rc<OwnedFd>,
}

impl RegionMemory {
    /// There are no regions yet.
    ///
    /// # Errors
    /// The kernel has no memory for the page of their words.
    pub fn new(config: &Config) -> io::Result<RegionMemory> {
        let (page, limits) = (WordPage::create()?, shares::memory(config));
        let across = Across::new(&page.mapping, limits.handles);
        Ok(RegionMemory {
            grants: Memory::new(limits),
            arenas: HashMap::new(),
            page,
            loops: None,
            bells: HashMap::new(),
            across,
            presence: HashMap::new(),
            copies: BTreeMap::new(),
            copied: ObjectId::default(),
            departures: BTreeMap::new(),
            writes: HashMap::new(),
            keepers: HashMap::new(),
            look_ns: 0,
        })
    }
}

impl WordPage {
    /// Pages of it exist once a word in them is written.
    fn create() -> io::Result<WordPage> {
        let made = SharedMapping::create_for(
            c"heliostat-regions",
            REGION_PAGE_BYTES,
            Writers::CreatorOnly,
        );
        let (fd, mapping) = made.map_err(io::Error::other)?;
        let mut header = [0; 16];
        let mut w = Writer::new(&mut header);
        w.u32(page::MAGIC).u32(u32::from(VERSION)).u64(REGIONS_MAX as u64);
        mapping.copy_in(0, &header).map_err(io::Error::other)?;
        let mapping = Arc::new(mapping);
        let read_only = Rc::new(read_only(&fd.into())?);
        Ok(WordPage { words: RegionPage::new(mapping.clone()), mapping, read_only })
    }
}
