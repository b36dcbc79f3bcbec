//! The thread that has the store: it opens it, makes one change after the other, and zeroes between.
//!
//! ```text
//! orders --> change: writes and flushes, as long as they take --> done
//!    none --> zero a step of what was deleted --> look for orders again
//! ```
//! It waits for the device, so that nobody else does. When its orders end, so does it, and lets go of
//! the device.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_abi::name::ObjectId;
use heliostat_abi::store::{AreaKind, DurableBy, Piece};
use heliostat_backend_block::{Costs, Device, Driven, FileDevice, OpenError, Options, SharedFile};
use heliostat_backend_store::{StoreFailed, StoreOnDevice};
use heliostat_control::config::{Discard, DurableWrites};
use heliostat_service_store::{Failed, Order};
use heliostat_storefile::{Area, Create, Identity, Kind, Name, StoreError};

use super::choice::{chosen, does_discard};
use super::distrust::{note, DISTRUSTED};

use crate::recovery;

/// Bytes that are zeroed before it is looked for orders again.
const ZERO_BYTES: u64 = 4 << 20;
/// How long logs are looked at before the store is open; those of more are looked at by who recovers them.
const LOOKS: Duration = Duration::from_secs(1);
/// How long a device that is in use is tried again: whoever had it last may not be gone altogether.
const IN_USE_WAIT: Duration = Duration::from_secs(2);
const IN_USE_STEP: Duration = Duration::from_millis(20);
/// Operations of the store's own device: it makes one at a time, but when it measures.
const DEPTH: usize = 16;

/// Where a store is.
#[derive(Debug)]
pub enum Place {
    /// At this path.
    Path(PathBuf),
    /// In what somebody has shown, which is opened anew.
    Shown(OwnedFd),
}

impl Place {
    /// The path by which it is opened.
    pub fn path(&self) -> PathBuf {
        match self {
            Place::Path(path) => path.clone(),
            Place::Shown(fd) => format!("/proc/self/fd/{}", fd.as_raw_fd()).into(),
        }
    }
}

/// What is to be opened.
#[derive(Debug)]
pub struct Opening {
    /// Which file or disk.
    pub place: Place,
    /// Which store is wanted, if not any.
    pub wanted: Option<[u8; 16]>,
    /// How writes are made durable.
    pub durability: DurableWrites,
    /// Whether what areas lose is given back to the device.
    pub discard: Discard,
}

/// What does not change of an open store.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Which one.
    pub identity: [u8; 16],
    /// Its bytes.
    pub bytes: u64,
    /// Those that areas may have.
    pub data_bytes: u64,
    /// Areas that there may be.
    pub areas_max: u32,
    /// What sizes are multiples of.
    pub grain_bytes: u32,
    /// What reads and writes are multiples of.
    pub sector_bytes: u32,
    /// What memory is aligned to.
    pub memory_alignment: u32,
    /// How writes are made durable.
    pub durable_by: DurableBy,
    /// What that was chosen by, if it was measured.
    pub costs: Option<Costs>,
    /// Which way its device is driven.
    pub driven: Driven,
    /// Whether bytes go past the page cache.
    pub is_past_cache: bool,
    /// Whether the disk is known to have forced unit access.
    pub is_forced: bool,
}

/// What changes.
#[derive(Clone, Copy, Default, Debug)]
pub struct Numbers {
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Bytes that wait to be zeroed.
    pub zeroing_bytes: u64,
    /// Changes so far.
    pub sequence: u64,
    /// Whether what areas lose is given back to the device, once it is zeroed; null where the device has
    /// refused it since.
    pub does_discard: bool,
    /// Bytes that were given back to the device since the store was opened.
    pub discarded_bytes: u64,
}

/// A store that was opened.
#[derive(Debug)]
pub struct Found {
    /// What does not change.
    pub facts: Facts,
    /// What does.
    pub numbers: Numbers,
    /// The device, for the loops and for who is trusted with it.
    pub file: SharedFile,
    /// Its areas.
    pub areas: Vec<FoundArea>,
}

/// An area of it.
#[derive(Debug)]
pub struct FoundArea {
    /// The area.
    pub area: Area,
    /// Where it lies.
    pub pieces: Arc<[Piece]>,
    /// An earlier run of the machine has left a log of durable files in it, or may have: not all were looked at.
    pub is_left: bool,
}

/// An area that was made or changed.
#[derive(Debug)]
pub struct Changed {
    /// Which.
    pub generation: u64,
    /// Where it lies now; nowhere when it was ended.
    pub pieces: Arc<[Piece]>,
}

/// What the thread tells.
#[derive(Debug)]
pub enum Event {
    /// The store is open, or why not.
    Opened(Result<Box<Found>, String>),
    /// An order has come to its end.
    Done(ObjectId, Result<Changed, Failed>, Numbers),
    /// Bytes were zeroed.
    Zeroed(Numbers),
    /// The device has failed.
    DeviceFailed(String),
}

/// By which the thread tells.
pub struct Teller {
    events: Sender<Event>,
    bell: Arc<OwnedFd>,
}

impl Teller {
    fn tell(&self, event: Event) {
        // Nobody listens any more when the daemon ends.
        let _ = self.events.send(event);
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

/// What the thread is to do.
enum Todo {
    /// A change that the service has decided, of this area.
    Order(ObjectId, Order),
    /// Write down that others than its owner may have written the area of this generation.
    Distrust(u64),
}

/// The daemon's end.
pub struct StoreThread {
    orders: Sender<Todo>,
    events: Receiver<Event>,
}

impl StoreThread {
    /// Starts it, with a store to open.
    ///
    /// # Errors
    /// The kernel has no thread.
    pub fn start(opening: Opening, bell: Arc<OwnedFd>) -> std::io::Result<StoreThread> {
        let ((orders, taken), (sender, events)) = (channel(), channel());
        let teller = Teller { events: sender, bell };
        let named = std::thread::Builder::new().name("store".into());
        named.spawn(move || run(&opening, &taken, &teller))?;
        Ok(StoreThread { orders, events })
    }

    /// Has it do something, after all that was ordered before. False when it has ended.
    pub fn order(&self, area: ObjectId, order: Order) -> bool {
        self.orders.send(Todo::Order(area, order)).is_ok()
    }

    /// Has it write down that others than its owner may have written an area: what a log of that area tells
    /// is not done of itself any more.
    pub fn distrust(&self, generation: u64) {
        // One that has ended writes nothing, and nothing opens the area either.
        let _ = self.orders.send(Todo::Distrust(generation));
    }

    /// What it has told, if anything; an error when it has ended.
    pub fn told(&self) -> Result<Event, TryRecvError> {
        self.events.try_recv()
    }

    /// What it tells within a time.
    pub fn wait(&self, time: Duration) -> Result<Event, RecvTimeoutError> {
        self.events.recv_timeout(time)
    }
}

fn run(opening: &Opening, orders: &Receiver<Todo>, teller: &Teller) {
    let (mut store, found) = match open(opening) {
        Ok(opened) => opened,
        Err(why) => return teller.tell(Event::Opened(Err(why))),
    };
    teller.tell(Event::Opened(Ok(Box::new(found))));
    let mut has_failed = false;
    loop {
        let has_work = !has_failed && store.store().zeroing_bytes() > 0;
        let next = match has_work {
            true => orders.try_recv(),
            false => orders.recv().map_err(|_| TryRecvError::Disconnected),
        };
        let failed = match next {
            Ok(Todo::Order(area, order)) => make(&mut store, area, &order, teller),
            Ok(Todo::Distrust(generation)) => distrust(&mut store, generation, teller),
            Err(TryRecvError::Empty) => zero(&mut store, teller),
            Err(TryRecvError::Disconnected) => return,
        };
        if let Some(why) = failed.filter(|_| !has_failed) {
            has_failed = true;
            teller.tell(Event::DeviceFailed(why));
        }
    }
}

fn open(opening: &Opening) -> Result<(StoreOnDevice<FileDevice>, Found), String> {
    let device = open_device(opening).map_err(|error| error.to_string())?;
    let (file, driven, is_past_cache) = (device.shared(), device.driven(), device.is_direct());
    let (is_forced, does_discard) =
        (device.forced_unit_access(), does_discard(opening.discard, &device));
    let wanted = opening.wanted.map(Identity);
    let mut store = StoreOnDevice::open(device, wanted).map_err(|error| error.to_string())?;
    store.discard_zeroed(does_discard);
    let (durable_by, costs) = chosen(&mut store, opening.durability)?;
    let (geometry, superblock) = (store.device_mut().geometry(), *store.store().superblock());
    let facts = Facts {
        identity: superblock.identity.0,
        bytes: superblock.bytes,
        data_bytes: superblock.data_grains * u64::from(superblock.grain_bytes),
        areas_max: superblock.areas_max,
        grain_bytes: superblock.grain_bytes,
        sector_bytes: geometry.sector_bytes,
        memory_alignment: geometry.memory_alignment,
        durable_by,
        costs,
        driven,
        is_past_cache,
        is_forced: is_forced == Some(true),
    };
    let areas = store.store().areas().iter();
    let until = Instant::now() + LOOKS;
    let areas = areas.map(|area| {
        let (area, pieces) = (area.clone(), pieces(&store, area));
        let is_left = area.kind == Kind::Log
            && (Instant::now() > until || recovery::is_left(&file, &recovery::runs(&pieces)));
        FoundArea { area, pieces, is_left }
    });
    let (areas, numbers) = (areas.collect(), numbers(&store));
    Ok((store, Found { facts, numbers, file, areas }))
}

fn open_device(opening: &Opening) -> Result<FileDevice, OpenError> {
    let options = Options { depth: DEPTH, ..Options::default() };
    let (path, until) = (opening.place.path(), Instant::now() + IN_USE_WAIT);
    loop {
        match FileDevice::open(&path, options) {
            Err(OpenError::InUse) if Instant::now() < until => std::thread::sleep(IN_USE_STEP),
            opened => return opened,
        }
    }
}

/// Does what was ordered; why the device failed, if it did.
fn make(
    store: &mut StoreOnDevice<FileDevice>,
    id: ObjectId,
    order: &Order,
    teller: &Teller,
) -> Option<String> {
    let done = perform(store, order);
    let failed = done.as_ref().err().filter(|it| !matches!(it, StoreFailed::Store(_)));
    let why = failed.map(ToString::to_string);
    teller.tell(Event::Done(id, done.map_err(|error| reason(&error)), numbers(store)));
    why
}

fn distrust(
    store: &mut StoreOnDevice<FileDevice>,
    generation: u64,
    teller: &Teller,
) -> Option<String> {
    let failed = note(store, generation).err();
    teller.tell(Event::Zeroed(numbers(store)));
    failed.filter(|it| !matches!(it, StoreFailed::Store(_))).map(|why| why.to_string())
}

fn perform(store: &mut StoreOnDevice<FileDevice>, order: &Order) -> Result<Changed, StoreFailed> {
    let generation = match order {
        Order::Create { key, bytes, kind, others } => {
            let name = Name::new(key.name.as_str())?;
            let (bytes, kind, rights) = (*bytes, kind_of(*kind), others.bits());
            let create = Create { name, bytes, owner: key.uid, rights, kind };
            store.create(&create)?.generation
        }
        Order::Resize { generation, bytes } => {
            store.resize(*generation, *bytes)?;
            *generation
        }
        Order::Appoint { generation, others } => {
            let area = store.store().area(*generation).ok_or(StoreError::NoArea)?;
            let (owner, kept) = (area.owner, area.rights & DISTRUSTED);
            store.appoint(*generation, owner, others.bits() | kept)?;
            *generation
        }
        Order::Delete { generation } => {
            store.delete(*generation)?;
            *generation
        }
    };
    let area = store.store().area(generation);
    let pieces = area.map_or_else(|| Arc::from([]), |area| pieces(store, area));
    Ok(Changed { generation, pieces })
}

fn zero(store: &mut StoreOnDevice<FileDevice>, teller: &Teller) -> Option<String> {
    match store.zero(ZERO_BYTES) {
        Ok(_) => {
            teller.tell(Event::Zeroed(numbers(store)));
            None
        }
        Err(error) => Some(error.to_string()),
    }
}

fn numbers(store: &StoreOnDevice<FileDevice>) -> Numbers {
    let (does_discard, discarded_bytes) = store.discards();
    let store = store.store();
    Numbers {
        free_bytes: store.free_bytes(),
        zeroing_bytes: store.zeroing_bytes(),
        sequence: store.sequence(),
        does_discard,
        discarded_bytes,
    }
}

fn pieces(store: &StoreOnDevice<FileDevice>, area: &Area) -> Arc<[Piece]> {
    let all = area.pieces(store.store().superblock(), 0, area.bytes).unwrap_or_default();
    all.into_iter().map(|it| Piece { offset: it.offset, bytes: it.bytes }).collect()
}

fn kind_of(kind: AreaKind) -> Kind {
    match kind {
        AreaKind::Raw => Kind::Raw,
        AreaKind::Log => Kind::Log,
        AreaKind::Queue => Kind::Queue,
    }
}

/// Why the store has done nothing, as far as sessions are told. What the service has checked before
/// cannot be refused for; if it is, the store is not as it was believed to be.
fn reason(error: &StoreFailed) -> Failed {
    let StoreFailed::Store(error) = error else { return Failed::Device };
    match *error {
        StoreError::Number { wanted, limit, .. } => Failed::Size { wanted, grain: limit },
        StoreError::Full { wanted, free, .. } => Failed::NoRoom { wanted, free },
        StoreError::Fragmented { limit } => Failed::Fragmented { limit: limit as u64 },
        StoreError::TooManyAreas { limit } => Failed::TooMany { limit: limit.into() },
        StoreError::TableFull { limit, .. } => Failed::TooMany { limit },
        StoreError::ZeroingFull { limit } => Failed::Zeroing { limit: limit as u64 },
        _ => Failed::Device,
    }
}
