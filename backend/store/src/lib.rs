//! A store on a block device: the steps of its format, done in order.
//!
//! What a store is, and which steps a change has, is in `heliostat_storefile`; what a device is, in
//! `heliostat_backend_block`. This waits for each step, so it is for a thread that may wait. Who reads
//! and writes areas has other threads or devices: a change touches none of an area's bytes, but for
//! those that the area has lost.
//!
//! ```text
//! open: superblocks -> copies of the table -> repair     change: plan -> steps -> apply
//! ```
//!
//! After a step has failed it is open what the device holds. Then this refuses everything until the
//! store is opened anew ([`StoreFailed::Failed`]).
#![forbid(unsafe_code)]

use std::time::Duration;

use heliostat_backend_block::{BeginError, BlockError, Buffer, Completion, Device, Request};
use heliostat_storefile::{
    Area, Change, Create, DurableBy, Format, Identity, Opened, Step, Store, StoreError, Superblock,
    BLOCK_BYTES, SUPERBLOCKS_BYTES,
};

mod error;

pub use error::StoreFailed;

/// Bytes that are moved at once.
const BUFFER_BYTES: usize = 1 << 18;
/// How long one look for a completion waits; there are as many as it takes.
const WAIT: Duration = Duration::from_secs(1);

/// A store on a device, with nobody else on that device.
#[derive(Debug)]
pub struct StoreOnDevice<D> {
    device: D,
    store: Store,
    buffer: Buffer,
    has_failed: bool,
    discards: Discards,
}

/// Whether what was zeroed is given back to the device, and how many bytes that were.
#[derive(Clone, Copy, Default, Debug)]
struct Discards {
    is_on: bool,
    bytes: u64,
}

impl<D: Device> StoreOnDevice<D> {
    /// Opens the store that a device holds, and repairs what a crash has left of its copies.
    ///
    /// # Errors
    /// No store, another than the one that is wanted, damaged, or the device failed.
    pub fn open(device: D, wanted: Option<Identity>) -> Result<StoreOnDevice<D>, StoreFailed> {
        let mut driver = Driver::new(device)?;
        let first = driver.read(0, SUPERBLOCKS_BYTES)?;
        let bytes = driver.device.geometry().bytes;
        let (superblock, repair) = Superblock::read(&first, bytes, wanted)?;
        let [first, second] = superblock.tables();
        let copies =
            [driver.read(first.offset, first.bytes)?, driver.read(second.offset, second.bytes)?];
        let Opened { store, steps } = Store::open(superblock, [&copies[0], &copies[1]])?;
        driver.perform(&repair)?;
        driver.perform(&steps)?;
        Ok(driver.with(store))
    }

    /// Makes a store in a device that is empty, and as large as that.
    ///
    /// # Errors
    /// There is something on the device, a number may not be so, or the device failed.
    pub fn format(device: D, format: &Format) -> Result<StoreOnDevice<D>, StoreFailed> {
        StoreOnDevice::make_store(device, format, false)
    }

    /// The same, whatever is on the device: that is lost.
    ///
    /// # Errors
    /// A number may not be so, or the device failed.
    pub fn format_over(device: D, format: &Format) -> Result<StoreOnDevice<D>, StoreFailed> {
        StoreOnDevice::make_store(device, format, true)
    }

    fn make_store(device: D, format: &Format, over: bool) -> Result<Self, StoreFailed> {
        let mut driver = Driver::new(device)?;
        let first = driver.read(0, SUPERBLOCKS_BYTES)?;
        let format = Format { device_bytes: driver.device.geometry().bytes, ..*format };
        let Opened { store, steps } = match over {
            true => Store::format_over(&format)?,
            false => Store::format(&format, &first)?,
        };
        driver.perform(&steps)?;
        Ok(driver.with(store))
    }

    /// The store: its areas, and what is free.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Keeps how writes are made durable on this device, so that it need not be measured again. A store of
    /// format 1 has no place for that, and is left as it is.
    ///
    /// # Errors
    /// The device failed.
    pub fn keep(&mut self, durable_by: DurableBy) -> Result<(), StoreFailed> {
        if self.has_failed {
            return Err(StoreFailed::Failed);
        }
        let (kept, steps) = self.store.superblock().keeping(durable_by);
        let mut work = Work { device: &mut self.device, buffer: &self.buffer, discards: None };
        let done = work.perform(&steps);
        self.has_failed = done.is_err();
        done?;
        self.store.set_superblock(kept);
        Ok(())
    }

    /// The device, for the bytes of areas.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Gives the device back.
    pub fn into_device(self) -> D {
        self.device
    }

    /// Makes an area, whose bytes are zero.
    ///
    /// # Errors
    /// The store refuses, or the device failed.
    pub fn create(&mut self, create: &Create) -> Result<&Area, StoreFailed> {
        let change = self.store.create(create);
        self.make(change)?;
        self.store.areas().last().ok_or(StoreFailed::Store(StoreError::NoArea))
    }

    /// Gives an area another size. Nothing may be under way on the bytes that it loses.
    ///
    /// # Errors
    /// The store refuses, or the device failed.
    pub fn resize(&mut self, generation: u64, bytes: u64) -> Result<(), StoreFailed> {
        let change = self.store.resize(generation, bytes);
        self.make(change)
    }

    /// Ends an area. Nothing may be under way on its bytes, which are zeroed later: see `zero`.
    ///
    /// # Errors
    /// The store refuses, or the device failed.
    pub fn delete(&mut self, generation: u64) -> Result<(), StoreFailed> {
        let change = self.store.delete(generation);
        self.make(change)
    }

    /// Gives an area another owner and other rights.
    ///
    /// # Errors
    /// The store refuses, or the device failed.
    pub fn appoint(&mut self, generation: u64, owner: u32, rights: u32) -> Result<(), StoreFailed> {
        let change = self.store.appoint(generation, owner, rights);
        self.make(change)
    }

    /// Zeroes some of what waits for it, so many bytes at most; whether anything did.
    ///
    /// # Errors
    /// The device failed.
    pub fn zero(&mut self, bytes_max: u64) -> Result<bool, StoreFailed> {
        match self.store.zero(bytes_max) {
            Some(change) => self.make(change).map(|()| true),
            None => Ok(false),
        }
    }

    /// Has what is zeroed from now on given back to the device, which then may use its place. Where the
    /// device refuses that it is given no more.
    pub fn discard_zeroed(&mut self, discards: bool) {
        self.discards.is_on = discards;
    }

    /// Whether that is so, and how many bytes were given back.
    pub fn discards(&self) -> (bool, u64) {
        (self.discards.is_on, self.discards.bytes)
    }

    fn make(&mut self, change: Result<Change, StoreError>) -> Result<(), StoreFailed> {
        if self.has_failed {
            return Err(StoreFailed::Failed);
        }
        let change = change?;
        let discards = Some(&mut self.discards);
        let mut work = Work { device: &mut self.device, buffer: &self.buffer, discards };
        let done = work.perform(&change.steps);
        self.has_failed = done.is_err();
        done?;
        Ok(self.store.apply(change)?)
    }
}

/// A device whose store is not open yet.
struct Driver<D> {
    device: D,
    buffer: Buffer,
}

impl<D: Device> Driver<D> {
    fn new(device: D) -> Result<Driver<D>, StoreFailed> {
        let geometry = device.geometry();
        if geometry.bytes < SUPERBLOCKS_BYTES {
            let (wanted, found) = (SUPERBLOCKS_BYTES, geometry.bytes);
            return Err(StoreError::Truncated { wanted, found }.into());
        }
        if u64::from(geometry.sector_bytes) > BLOCK_BYTES {
            return Err(BeginError::Unaligned { unit: geometry.sector_bytes }.into());
        }
        Ok(Driver { device, buffer: Buffer::new(BUFFER_BYTES)? })
    }

    fn with(self, store: Store) -> StoreOnDevice<D> {
        StoreOnDevice {
            device: self.device,
            store,
            buffer: self.buffer,
            has_failed: false,
            discards: Discards::default(),
        }
    }

    fn read(&mut self, offset: u64, bytes: u64) -> Result<Vec<u8>, StoreFailed> {
        self.work().read(offset, bytes)
    }

    fn perform(&mut self, steps: &[Step]) -> Result<(), StoreFailed> {
        self.work().perform(steps)
    }

    fn work(&mut self) -> Work<'_, D> {
        Work { device: &mut self.device, buffer: &self.buffer, discards: None }
    }
}

/// Operations one after the other.
struct Work<'a, D> {
    device: &'a mut D,
    buffer: &'a Buffer,
    discards: Option<&'a mut Discards>,
}

impl<D: Device> Work<'_, D> {
    fn read(&mut self, offset: u64, bytes: u64) -> Result<Vec<u8>, StoreFailed> {
        let mut all = Vec::new();
        while (all.len() as u64) < bytes {
            let left = bytes - all.len() as u64;
            let part = self.buffer.part(0, left.min(self.buffer.bytes as u64) as usize);
            let offset = offset + all.len() as u64;
            self.wait_for(Request::Read { offset, into: part.clone() })?;
            all.extend(part.copy_out()?);
        }
        Ok(all)
    }

    fn perform(&mut self, steps: &[Step]) -> Result<(), StoreFailed> {
        for step in steps {
            match step {
                Step::Write { offset, bytes } => self.write(*offset, bytes)?,
                Step::Zero { offset, bytes } => {
                    self.wait_for(Request::Zero { offset: *offset, bytes: *bytes })?;
                    self.discard(*offset, *bytes)?;
                }
                Step::Flush => self.wait_for(Request::Flush)?,
            }
        }
        Ok(())
    }

    /// Gives back what was zeroed, where that is wanted. It reads as zero before and after, so a crash
    /// leaves nothing else.
    fn discard(&mut self, offset: u64, bytes: u64) -> Result<(), StoreFailed> {
        let is_wanted = self.discards.as_ref().is_some_and(|discards| discards.is_on);
        if !is_wanted || !self.device.geometry().discard_zeroes {
            return Ok(());
        }
        let done = self.wait_for(Request::Discard { offset, bytes });
        let Some(discards) = &mut self.discards else { return Ok(()) };
        match done {
            Ok(()) => discards.bytes += bytes,
            // It is zero all the same.
            Err(StoreFailed::Device(BlockError::Device { errno })) if is_refusal(errno) => {
                discards.is_on = false;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), StoreFailed> {
        let mut offset = offset;
        for part in bytes.chunks(self.buffer.bytes) {
            let from = self.buffer.part(0, part.len());
            from.copy_in(part)?;
            self.wait_for(Request::Write { offset, from, durable: false })?;
            offset += part.len() as u64;
        }
        Ok(())
    }

    /// Begins an operation, which is the only one, and waits for it.
    fn wait_for(&mut self, request: Request) -> Result<(), StoreFailed> {
        let mut completions: Vec<Completion> = Vec::with_capacity(1);
        self.device.begin(0, request)?;
        while completions.is_empty() {
            self.device.reap(Some(WAIT), &mut completions)?;
        }
        let results = completions.iter().map(|completion| completion.result);
        Ok(results.collect::<Result<(), BlockError>>()?)
    }
}

/// Whether a device has said that it does not do this, and has not failed at it: EOPNOTSUPP, EINVAL.
fn is_refusal(errno: i32) -> bool {
    matches!(errno, 95 | 22)
}
