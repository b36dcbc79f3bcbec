//! How a region comes about: over memory that is there, or with memory of its own.

use std::ops::Range;

use heliostat_abi::snapshot::memory::Shape;
use heliostat_backend_pages::live::LiveMemory;
use heliostat_backend_pages::remap::Remapped;
use heliostat_backend_pages::track::TrackError;
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::{SharedMapping, Writers};

use super::content::Content;
use super::copied::Copied;
use super::engine::{Declared, Engine, Whole};
use super::guests::Guests;
use super::ledger::{Ledger, PAGE_BYTES};
use super::outcome::{Metrics, RegionError};
use super::pool::Table;
use super::region::Region;
use super::settings::{EngineKind, Settings};
use super::source::Source;
use super::tracked::Tracked;
use super::walk::DoneAhead;

/// Fewest colours of memory that is remapped: the newest version, the one in the making, and what
/// the program writes next.
const REMAPPED_COLOURS_MIN: u32 = 3;

/// A region this large is worth asking the kernel about, which takes some 3 us each time: as long
/// as copying 128 KiB.
const WATCHED_FROM: usize = 128 * 1024;

fn engine_for(
    settings: &Settings,
    memory: LiveMemory,
    span: Range<usize>,
) -> Result<Box<dyn Engine>, TrackError> {
    // What looks for races has to watch.
    let is_small = memory.len() < WATCHED_FROM && !settings.looks_for_races;
    Ok(match settings.engine {
        EngineKind::Tracked => Box::new(Tracked::new(memory, span)?),
        EngineKind::Declared => Box::new(Declared::default()),
        EngineKind::Whole => Box::new(Whole::new(span)),
        EngineKind::Probed if is_small => Box::new(Whole::new(span)),
        EngineKind::Probed => match Tracked::new(memory, span.clone()) {
            Ok(tracked) => Box::new(tracked),
            Err(_) => Box::new(Whole::new(span)),
        },
    })
}

impl Region {
    /// Sets a region up over `memory`; nothing is copied before the first `publish`.
    pub fn new(memory: LiveMemory, settings: Settings) -> Result<Self, RegionError> {
        let first = memory.start() % PAGE_BYTES;
        let engine = engine_for(&settings, memory, first..first + memory.len());
        Self::with_engine(Box::new(memory), settings, engine.map_err(RegionError::Track)?)
    }

    /// The same with an engine of the caller's own, which counts bytes from the start of the page
    /// in which `memory` begins; `memory` may be any source of bytes.
    pub fn with_engine(
        memory: Box<dyn Source>,
        settings: Settings,
        engine: Box<dyn Engine>,
    ) -> Result<Self, RegionError> {
        let first = (memory.start() % PAGE_BYTES) as u32;
        let shape = shape(memory.len(), first, &settings)?;
        let (fd, pool) = pool(shape)?;
        let is_slab = settings.placement.is_slab(shape.pool_bytes() / shape.colours as usize);
        let looks_for_races = settings.looks_for_races;
        let (start, ledger) = (memory.start(), Ledger::new(shape));
        let (refusals, pieces) = (0, Vec::new());
        let content =
            Copied { memory, engine, ledger, pool, is_slab, looks_for_races, refusals, pieces };
        Self::build(Content::Copied(content), start, fd, (shape, settings))
    }

    /// Makes `len` bytes of zeros together with their region (`memory`): publishing them copies
    /// nothing, and the first store to each 2 MiB afterwards copies those. For programs that
    /// write densely and need the shortest pause. `settings.engine` and `placement` have no say.
    ///
    /// What else it takes, and that the kernel's own writes need `prepare_write`:
    /// docs/snapshots.md.
    ///
    /// # Errors
    /// Also `Shape` with fewer than 3 colours, and `Remap` beyond 32 GiB or 64 such regions.
    pub fn allocate(len: usize, settings: Settings) -> Result<Self, RegionError> {
        if settings.colours < REMAPPED_COLOURS_MIN {
            return Err(RegionError::Shape);
        }
        let shape = shape(len, 0, &settings)?;
        let (fd, pool) = pool(shape)?;
        let memory = Remapped::new(pool, len).map_err(RegionError::Remap)?;
        let start = memory.as_ptr() as usize;
        let content = Content::remapped(memory, shape, settings.looks_for_races);
        Self::build(content, start, fd, (shape, settings))
    }

    fn build(
        content: Content,
        start: usize,
        pool_fd: OwnedFd,
        (shape, settings): (Shape, Settings),
    ) -> Result<Self, RegionError> {
        let (table_fd, table) = Table::create(shape, start).map_err(RegionError::Memory)?;
        Ok(Self {
            content,
            table,
            fds: (table_fd, pool_fd),
            alive: (0..shape.colours).map(|_| None).collect(),
            consumers: Guests::default(),
            door: None,
            next: 0,
            ahead: DoneAhead::default(),
            walk: None,
            settings,
            metrics: Metrics::default(),
        })
    }
}

fn shape(len: usize, first: u32, settings: &Settings) -> Result<Shape, RegionError> {
    let keeps = (1..settings.colours as usize).contains(&settings.policy.keep);
    let shape = Shape::new(settings.generation, len as u64, first, settings.colours);
    shape.filter(|_| keeps).ok_or(RegionError::Shape)
}

fn pool(shape: Shape) -> Result<(OwnedFd, SharedMapping), RegionError> {
    let (name, writers) = (c"heliostat-snapshot-pool", Writers::CreatorOnly);
    let made = SharedMapping::create_for(name, shape.pool_bytes(), writers);
    made.map_err(|error| RegionError::Memory(error.into()))
}
