//! A device of bytes in memory, which does what it is asked in order, or in any order of a seed.
//!
//! Nothing is done before `reap`, so that what a caller gets wrong about order shows here already.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use heliostat_base::mapping::SharedMapping;

use crate::{BeginError, BlockError, Buffer, Completion, Device, Geometry, Image, Random, Request};

/// Operations under way at once, unless somebody says another number.
const DEPTH: usize = 64;
/// What discarded bytes read as where that is open: nothing that a format holds.
const DISCARDED: u8 = 0xdb;
/// EIO.
const EIO: i32 = 5;

/// In which order operations that are under way are done, and complete.
#[derive(Clone, Debug)]
pub enum Order {
    /// As they were begun, all at the next `reap`.
    Begun,
    /// In any order; each `reap` does one or more of them.
    Random(Random),
}

/// A device of bytes in memory.
#[derive(Debug)]
pub struct MemoryDevice {
    image: Image,
    geometry: Geometry,
    depth: usize,
    order: Order,
    under_way: VecDeque<(u64, Request)>,
}

impl MemoryDevice {
    /// A device of so many zeroes, with sectors of 512 bytes, which does things as they were begun.
    pub fn new(bytes: u64) -> MemoryDevice {
        MemoryDevice::of(Image::new(bytes))
    }

    /// A device of these bytes.
    pub fn of(image: Image) -> MemoryDevice {
        let geometry = Geometry {
            bytes: image.bytes(),
            sector_bytes: 512,
            memory_alignment: 512,
            discard_zeroes: true,
        };
        let (depth, order, under_way) = (DEPTH, Order::Begun, VecDeque::new());
        MemoryDevice { image, geometry, depth, order, under_way }
    }

    /// The same with another geometry, whose size stays that of the bytes.
    pub fn with_geometry(mut self, geometry: Geometry) -> MemoryDevice {
        self.geometry = Geometry { bytes: self.image.bytes(), ..geometry };
        self
    }

    /// The same with so many operations at once, 1 at least.
    pub fn with_depth(mut self, depth: usize) -> MemoryDevice {
        self.depth = depth.max(1);
        self
    }

    /// The same in any order that the seed gives.
    pub fn in_random_order(mut self, seed: u64) -> MemoryDevice {
        self.order = Order::Random(Random::new(seed));
        self
    }

    /// Its bytes as they are now, without what is under way.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// How many operations the next `reap` does, of those under way.
    fn next_count(&mut self) -> usize {
        let most = self.under_way.len();
        match &mut self.order {
            Order::Begun => most,
            Order::Random(_) if most == 0 => 0,
            Order::Random(random) => 1 + random.below(most as u64) as usize,
        }
    }

    fn next(&mut self) -> Option<(u64, Request)> {
        let most = self.under_way.len() as u64;
        match &mut self.order {
            Order::Begun => self.under_way.pop_front(),
            Order::Random(random) => self.under_way.swap_remove_back(random.below(most) as usize),
        }
    }

    fn perform(&mut self, request: &Request) -> Result<(), BlockError> {
        let done = match request {
            Request::Read { offset, into } => self.read(*offset, into),
            Request::Write { offset, from, .. } => {
                let bytes = from.copy_out();
                bytes.and_then(|bytes| self.image.write(*offset, &bytes))
            }
            Request::Flush => Ok(()),
            Request::Zero { offset, bytes } => self.image.fill(*offset, *bytes, 0),
            Request::Discard { offset, bytes } => {
                let value = if self.geometry.discard_zeroes { 0 } else { DISCARDED };
                self.image.fill(*offset, *bytes, value)
            }
        };
        // All of it was checked when it was begun.
        done.map_err(|_| BlockError::Device { errno: EIO })
    }

    fn read(&self, offset: u64, into: &Buffer) -> Result<(), BeginError> {
        let mut bytes = vec![0; into.bytes];
        self.image.read(offset, &mut bytes)?;
        into.copy_in(&bytes)
    }
}

impl Device for MemoryDevice {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn begin(&mut self, token: u64, request: Request) -> Result<(), BeginError> {
        self.geometry.check(&request)?;
        if self.under_way.len() >= self.depth {
            return Err(BeginError::Full { depth: self.depth });
        }
        self.under_way.push_back((token, request));
        Ok(())
    }

    fn reap(
        &mut self,
        _wait: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> Result<(), BlockError> {
        for _ in 0..self.next_count() {
            let Some((token, request)) = self.next() else { break };
            let result = self.perform(&request);
            completions.push(Completion { token, result });
        }
        Ok(())
    }
}

impl Buffer {
    /// Zeroes of its own, a whole number of pages.
    ///
    /// # Errors
    /// There is no memory, or it would be none.
    pub fn new(bytes: usize) -> Result<Buffer, BlockError> {
        let memory = SharedMapping::for_descendants(bytes).map_err(|_| NO_MEMORY)?;
        Ok(Buffer { memory: Arc::new(memory), at: 0, bytes })
    }

    /// A part of it: `bytes` from `at` on, counted from its own first byte.
    pub fn part(&self, at: usize, bytes: usize) -> Buffer {
        Buffer { memory: self.memory.clone(), at: self.at.saturating_add(at), bytes }
    }

    /// Copies its bytes.
    ///
    /// # Errors
    /// It does not lie in its mapping.
    pub fn copy_out(&self) -> Result<Vec<u8>, BeginError> {
        self.memory.bytes_at(self.at, self.bytes).map_err(|_| BeginError::Buffer)?;
        let mut bytes = vec![0; self.bytes];
        self.memory.copy_out(self.at, &mut bytes).map_err(|_| BeginError::Buffer)?;
        Ok(bytes)
    }

    /// Copies bytes into its beginning.
    ///
    /// # Errors
    /// They are more than it has, or it does not lie in its mapping.
    pub fn copy_in(&self, bytes: &[u8]) -> Result<(), BeginError> {
        if bytes.len() > self.bytes {
            return Err(BeginError::Buffer);
        }
        self.memory.copy_in(self.at, bytes).map_err(|_| BeginError::Buffer)
    }
}

/// ENOMEM.
const NO_MEMORY: BlockError = BlockError::Device { errno: 12 };
