//! A producer under measurement: memory, its region, and a consumer.

use heliostat_backend_pages::live::LiveMemory;
use heliostat_base::clock;
use heliostat_stub_snapshot::{Attachment, Placement, Published, Region, Settings};

use crate::memory::{Dirty, Memory};
use crate::Failure;

/// Publishings of everything before the first measured one: the first use of a slot copies its
/// whole chunk of 2 MiB and lets the kernel find the pages, which belongs to no later version.
const WARM_UPS: usize = 3;

/// Declared before `memory`, so that it is dropped first.
pub struct Producer {
    /// The region over `memory`.
    pub region: Region,
    /// What the program writes.
    pub memory: Memory,
    round: u64,
}

impl Producer {
    /// With the slots of two colours warm, or of all that versions held by a consumer need.
    pub fn new(len: usize) -> Result<Self, Failure> {
        Self::placed(len, Placement::default())
    }

    /// The same with versions placed in this way.
    pub fn placed(len: usize, placement: Placement) -> Result<Self, Failure> {
        let memory = Memory::private(len, false)?;
        // SAFETY: `memory` outlives `region`, which stands before it in the struct.
        let live = unsafe { LiveMemory::new(memory.start() as usize, len) };
        let region = Region::new(live, Settings { placement, ..Settings::default() })?;
        let mut producer = Self { region, memory, round: 1 };
        for _ in 0..WARM_UPS {
            producer.region.declare(0..len)?;
            producer.region.publish()?;
        }
        Ok(producer)
    }

    /// Memory of `Region::allocate`, its slots warm likewise.
    pub fn remapped(len: usize) -> Result<Self, Failure> {
        let region = Region::allocate(len, Settings::default())?;
        let (start, len) = region.memory().ok_or("a region without memory")?;
        // SAFETY: the region has it mapped as long as it lives, and it lives beside it.
        let memory = unsafe { Memory::lent(start, len) };
        let mut producer = Self { region, memory, round: 1 };
        for _ in 0..WARM_UPS + 1 {
            producer.cycle(&Dirty::all(len))?;
        }
        Ok(producer)
    }

    /// Writes the pages of the set; nanoseconds.
    pub fn write(&mut self, dirty: &Dirty) -> f64 {
        self.round += 1;
        timed(|| self.memory.write(dirty, self.round)).0
    }

    /// Publishes; nanoseconds, and what it did.
    pub fn publish(&mut self) -> Result<(f64, Published), Failure> {
        let (ns, done) = timed(|| self.region.publish());
        Ok((ns, done?))
    }

    /// Has everything watched again, and nothing taken for hot or steady any more.
    pub fn cool(&mut self) -> Result<(), Failure> {
        while !self.region.copy_ahead(usize::MAX)?.is_done {}
        // Nothing was written since.
        self.publish().map(|_| ())
    }

    /// Writes and publishes.
    pub fn cycle(&mut self, dirty: &Dirty) -> Result<Published, Failure> {
        self.write(dirty);
        Ok(self.publish()?.1)
    }

    /// A consumer with a mapping of its own of the pool.
    pub fn attach(&mut self) -> Result<Attachment, Failure> {
        let (table, pool) = self.region.descriptors();
        let (table, pool) = (table.duplicate()?, pool.duplicate()?);
        let attached = Attachment::new(&table, pool, |pins| match self.region.admit(pins)? {
            Some(_) => Ok::<(), Failure>(()),
            None => Err("no room for another consumer".into()),
        });
        attached?
    }
}

/// Nanoseconds by the clock on the wall, and the answer.
pub fn timed<T>(what: impl FnOnce() -> T) -> (f64, T) {
    let begun = clock::monotonic_ns();
    let answer = what();
    ((clock::monotonic_ns() - begun) as f64, answer)
}
