//! The memory of a region: the producer's pool and table, a consumer's page of pins.

use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use heliostat_abi::snapshot::memory::{
    Shape, ADDRESS, ARMED, COLOURS, COPIED, DESCRIPTION, DESCRIPTION_MAX, DIRTY, HEAD_BYTES,
    LATEST, NUMBER, PINNED, PINS, PINS_BYTES, PINS_MAGIC, PUBLISHED,
};
use heliostat_abi::wire::Writer;
use heliostat_abi::VERSION;
use heliostat_base::bell::Bell;
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::{Access, MappingError, OutOfRange, SharedMapping, Writers};
use heliostat_base::sys::Errno;
use heliostat_ring::pins::{Pins, Words};

/// Why memory of a region could not be made or mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoolError {
    /// The kernel refused, or the descriptor is not what it was said to be.
    Memory(MappingError),
    /// The head is no table's, or its numbers contradict each other: the producer is at fault.
    NoTable,
    /// The page is no consumer's: the consumer is at fault.
    NoPins,
    /// The bell is no unix socket: the consumer is at fault.
    NoBell,
    /// No bell could be made.
    Bell(Errno),
}

impl std::fmt::Display for PoolError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::NoTable => f.write_str("the producer's table is not one of this version"),
            Self::NoPins => f.write_str("the consumer's page of pins is not one of this version"),
            Self::NoBell => f.write_str("the consumer's bell is no unix socket"),
            Self::Bell(errno) => write!(f, "no socket pair for a bell: {errno}"),
        }
    }
}
impl std::error::Error for PoolError {}

impl PoolError {
    /// This process is short of something: it says nothing about what the other side has shown.
    pub(super) fn is_shortage(&self) -> bool {
        let errno = match self {
            Self::Memory(MappingError::System { errno, .. }) | Self::Bell(errno) => errno.0,
            _ => return false,
        };
        [libc::ENOMEM, libc::EMFILE, libc::ENFILE, libc::EAGAIN].contains(&errno)
    }
}

impl From<MappingError> for PoolError {
    fn from(error: MappingError) -> Self {
        Self::Memory(error)
    }
}

/// A table, of the producer's own or mapped from it.
pub(super) struct Table {
    pub(super) memory: SharedMapping,
    pub(super) shape: Shape,
}

impl Table {
    /// A fresh table that only this process may write.
    pub(super) fn create(shape: Shape, address: usize) -> Result<(OwnedFd, Self), PoolError> {
        let (name, writers) = (c"heliostat-snapshot-table", Writers::CreatorOnly);
        let (fd, memory) = SharedMapping::create_for(name, shape.table_bytes(), writers)?;
        let table = Self { memory, shape };
        // The table was just made of this length, so its head is inside it.
        let _ = table.memory.copy_in(0, &shape.encode());
        table.memory.atomic_u64(ADDRESS).store(address as u64, Relaxed);
        Ok((fd, table))
    }

    /// A producer's table.
    pub(super) fn open(fd: &OwnedFd) -> Result<Self, PoolError> {
        let head = SharedMapping::from_fd(fd.as_raw_fd(), 4096, Access::Read)?;
        let mut bytes = [0; HEAD_BYTES];
        head.copy_out(0, &mut bytes).map_err(|_| PoolError::NoTable)?;
        let shape = Shape::decode(&bytes).ok_or(PoolError::NoTable)?;
        let memory = SharedMapping::from_fd(fd.as_raw_fd(), shape.table_bytes(), Access::Read)?;
        Ok(Self { memory, shape })
    }

    /// Says what the region's bytes mean; false when that is too long. Before anybody attaches.
    pub(super) fn set_description(&self, text: &[u8]) -> bool {
        let fits = text.len() <= DESCRIPTION_MAX;
        if fits && self.memory.copy_in(DESCRIPTION + 4, text).is_ok() {
            self.memory.atomic_u32(DESCRIPTION).store(text.len() as u32, Relaxed);
        }
        fits
    }

    /// What the producer says that the bytes mean.
    pub(super) fn description(&self) -> Vec<u8> {
        let length = self.memory.atomic_u32(DESCRIPTION).load(Relaxed) as usize;
        let mut text = vec![0; length.min(DESCRIPTION_MAX)];
        // It lies inside the head's page.
        let _ = self.memory.copy_out(DESCRIPTION + 4, &mut text);
        text
    }

    /// Where the region lies in the producer's memory, as the producer says.
    pub(super) fn address(&self) -> u64 {
        self.memory.atomic_u64(ADDRESS).load(Relaxed)
    }

    /// Writes what place `place` says, less its number.
    pub(super) fn describe(
        &self,
        place: usize,
        facts: [u64; 3],
        colours: &[u8],
    ) -> Result<(), OutOfRange> {
        let at = self.shape.place(place);
        for (offset, value) in [PUBLISHED, DIRTY, COPIED].into_iter().zip(facts) {
            self.memory.atomic_u64(at + offset).store(value, Relaxed);
        }
        self.memory.copy_in(at + COLOURS, colours)
    }

    /// Time of publishing, bytes written and bytes copied of place `place`.
    pub(super) fn facts(&self, place: usize) -> [u64; 3] {
        let at = self.shape.place(place);
        [PUBLISHED, DIRTY, COPIED].map(|offset| self.memory.atomic_u64(at + offset).load(Relaxed))
    }

    /// The colours of place `place`, each checked; `None` when the producer wrote nonsense.
    pub(super) fn colours(&self, place: usize) -> Option<Vec<u8>> {
        let mut colours = vec![0; self.shape.chunks as usize];
        self.memory.copy_out(self.shape.place(place) + COLOURS, &mut colours).ok()?;
        colours.iter().all(|colour| u32::from(*colour) < self.shape.colours).then_some(colours)
    }
}

impl Words for Table {
    fn latest(&self) -> &AtomicU64 {
        self.memory.atomic_u64(LATEST)
    }

    fn number(&self, place: usize) -> &AtomicU64 {
        self.memory.atomic_u64(self.shape.place(place) + NUMBER)
    }

    fn places(&self) -> usize {
        self.shape.colours as usize
    }
}

/// A page of pins, of a consumer's own or mapped from it, with this side's end of the bell.
pub(super) struct PinsPage {
    pub(super) memory: SharedMapping,
    pub(super) bell: Option<Bell>,
}

impl PinsPage {
    /// A fresh page and the descriptor for the producer.
    pub(super) fn create() -> Result<(OwnedFd, Self), PoolError> {
        let (fd, memory) = SharedMapping::create(c"heliostat-snapshot-pins", PINS_BYTES)?;
        let mut head = [0; 8];
        Writer::new(&mut head).u32(PINS_MAGIC).u32(u32::from(VERSION));
        // The page was just made of this length.
        let _ = memory.copy_in(0, &head);
        Ok((fd, Self { memory, bell: None }))
    }

    /// The same with a bell, of which the producer's end has to go to the producer and be closed
    /// here: as long as a copy of it is open the producer's end is not heard of.
    pub(super) fn create_with_bell() -> Result<(OwnedFd, Bell, Self), PoolError> {
        let (fd, page) = Self::create()?;
        let (own, theirs) = Bell::pair().map_err(PoolError::Bell)?;
        Ok((fd, theirs, Self { bell: Some(own), ..page }))
    }

    /// A consumer's page, and its bell if it has shown one.
    pub(super) fn open(fd: &OwnedFd, bell: Option<OwnedFd>) -> Result<Self, PoolError> {
        let memory = SharedMapping::from_fd(fd.as_raw_fd(), PINS_BYTES, Access::ReadWrite)?;
        let word = |at| memory.atomic_u32(at).load(Relaxed);
        if (word(0), word(4)) != (PINS_MAGIC, u32::from(VERSION)) {
            return Err(PoolError::NoPins);
        }
        let bell = bell.map(|fd| Bell::from_fd(fd).ok_or(PoolError::NoBell)).transpose()?;
        Ok(Self { memory, bell })
    }

    /// Producer: whether the consumer has ended, as far as its bell tells.
    pub(super) fn is_ended(&self) -> bool {
        self.bell.as_ref().is_some_and(|bell| !bell.drain())
    }

    /// Producer: rings if the consumer wants it.
    ///
    /// The word is cleared first: a consumer that arms between the two finds the byte that is on
    /// its way to it, looks once in vain and arms again.
    pub(super) fn ring_if_armed(&self) {
        let armed = self.memory.atomic_u32(ARMED);
        if armed.load(SeqCst) != 0 && armed.swap(0, SeqCst) != 0 {
            self.bell.iter().for_each(Bell::ring);
        }
    }
}

impl Pins for PinsPage {
    fn pin(&self, at: usize) -> &AtomicU64 {
        self.memory.atomic_u64(PINNED + at * 8)
    }

    fn len(&self) -> usize {
        PINS
    }
}
