//! Operations on an area that are begun now and end later, on memory of their own.
//!
//! ```text
//! begin_write, begin_read, begin_flush --> under way --> next: what it was for, how it ended, what was read
//!                                                 '----> the descriptor is readable
//! ```

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_backend_block::{BeginError, BlockError, Completion, Device, Request};

use crate::area::Area;
use crate::buffer::AreaBuffer;
use crate::device::AreaIo;
use crate::news::News;
use crate::transfer::CHUNK_BYTES;
use crate::StoreError;

/// How long one look for a completion waits; there are as many as it takes.
const LOOK: Duration = Duration::from_secs(1);

/// A queue of operations on an area, each with what it is for. One thread drives it.
pub struct AreaQueue<T> {
    device: AreaIo,
    area: Arc<crate::opened::Opened>,
    slots: Vec<Slot<T>>,
    free: Vec<usize>,
    /// What has ended and nobody has taken.
    ended: Vec<Completion>,
    /// There once somebody sleeps elsewhere.
    news: Option<News>,
}

struct Slot<T> {
    /// What is under way here.
    of: Option<T>,
    /// Bytes that are read, or none.
    reads: usize,
    /// Memory of the slot; a small one is kept for the next operation.
    buffer: Option<AreaBuffer>,
}

/// An operation that has ended.
pub struct Ended<T> {
    /// What it was for.
    pub of: T,
    /// Done as a whole, or why not. After a write that failed its sectors hold the old or the new bytes.
    pub result: Result<(), StoreError>,
    /// What was read; empty of other operations, and of a read that failed.
    pub read: Vec<u8>,
}

impl Area {
    /// Makes a queue for so many operations at once, 1 at least.
    ///
    /// # Errors
    /// As `device`.
    pub fn queue<T>(&self, depth: usize) -> Result<AreaQueue<T>, StoreError> {
        let device = self.device_of(depth)?;
        let slots = (0..device.depth()).map(|_| Slot { of: None, reads: 0, buffer: None });
        let slots: Vec<Slot<T>> = slots.collect();
        let free = (0..slots.len()).rev().collect();
        Ok(AreaQueue {
            device,
            area: self.opened.clone(),
            slots,
            free,
            ended: Vec::new(),
            news: None,
        })
    }
}

impl<T> AreaQueue<T> {
    /// Begins to read whole sectors.
    ///
    /// # Errors
    /// `Operation`: as many operations are under way as may be, or the bytes are no whole sectors of the
    /// area. `Device`: there is no memory, or the device has failed. Nothing was begun.
    pub fn begin_read(&mut self, of: T, offset: u64, bytes: usize) -> Result<(), StoreError> {
        let slot = self.slot()?;
        let into = self.buffer(slot, bytes)?.part(0, bytes);
        self.begin(slot, of, bytes, Request::Read { offset, into })
    }

    /// Begins to write whole sectors, which are copied; `durable` to have them last when it has ended.
    ///
    /// # Errors
    /// As `begin_read`.
    pub fn begin_write(
        &mut self,
        of: T,
        offset: u64,
        from: &[u8],
        durable: bool,
    ) -> Result<(), StoreError> {
        self.area.check_writes()?;
        let slot = self.slot()?;
        let buffer = self.buffer(slot, from.len())?.part(0, from.len());
        buffer.copy_in(from)?;
        self.begin(slot, of, 0, Request::Write { offset, from: buffer, durable })
    }

    /// Begins to make last what has been written by operations that had ended before.
    ///
    /// # Errors
    /// As `begin_read`.
    pub fn begin_flush(&mut self, of: T) -> Result<(), StoreError> {
        let slot = self.slot()?;
        self.begin(slot, of, 0, Request::Flush)
    }

    /// The next operation that has ended, in any order, waited for up to so long (`None` for ever); `None`
    /// where none has by then, or nothing is under way.
    ///
    /// # Errors
    /// The device as a whole has failed, or the control plane has ended: nothing that is under way ends.
    pub fn next(&mut self, wait: Option<Duration>) -> Result<Option<Ended<T>>, StoreError> {
        let until = wait.map(|wait| Instant::now() + wait);
        loop {
            if let Some(completion) = self.ended.pop() {
                self.tell();
                return Ok(self.take(completion));
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let look = left.map_or(LOOK, |left| left.min(LOOK));
            self.device.reap(Some(look).filter(|look| !look.is_zero()), &mut self.ended)?;
            let is_over = left.is_some_and(|left| left.is_zero()) || self.under_way() == 0;
            if is_over && self.ended.is_empty() {
                self.tell();
                return Ok(None);
            }
        }
    }

    /// Operations that were begun and whose end nobody has taken.
    pub fn under_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// A descriptor that is readable when `next` may find something. Where a device has none a thread of this process listens for it.
    ///
    /// # Errors
    /// The system has no descriptor, or no thread.
    pub fn descriptor(&mut self) -> Result<Arc<OwnedFd>, StoreError> {
        let none = || StoreError::Device(BlockError::Device { errno: libc::EMFILE });
        if self.news.is_none() {
            let device = self.device.event().ok_or_else(none)?;
            self.news = Some(News::of(device).map_err(|_| none())?);
            self.tell();
        }
        self.news.as_ref().map(News::descriptor).ok_or_else(none)
    }

    fn slot(&self) -> Result<usize, StoreError> {
        let full = BeginError::Full { depth: self.slots.len() };
        Ok(*self.free.last().ok_or(full)?)
    }

    /// The slot's memory, of so many bytes at least.
    fn buffer(&mut self, slot: usize, bytes: usize) -> Result<&AreaBuffer, StoreError> {
        let kept = &mut self.slots[slot].buffer;
        if kept.as_ref().is_none_or(|buffer| buffer.bytes < bytes) {
            // The smaller one first, which may make room for the larger one.
            drop(kept.take());
            *kept = Some(AreaBuffer::for_now(&self.area, bytes.next_multiple_of(PAGE).max(PAGE))?);
        }
        kept.as_ref().ok_or(StoreError::Corrupt)
    }

    fn begin(
        &mut self,
        slot: usize,
        of: T,
        reads: usize,
        request: Request,
    ) -> Result<(), StoreError> {
        self.device.begin(slot as u64, request)?;
        self.free.retain(|it| *it != slot);
        (self.slots[slot].of, self.slots[slot].reads) = (Some(of), reads);
        // Handed on now, and not when somebody looks for its end.
        self.device.reap(None, &mut self.ended)?;
        self.tell();
        Ok(())
    }

    /// Whoever sleeps elsewhere knows whether something has ended.
    fn tell(&mut self) {
        let has_some = !self.ended.is_empty();
        self.news.iter_mut().for_each(|news| news.tell(has_some));
    }

    fn take(&mut self, completion: Completion) -> Option<Ended<T>> {
        let slot = usize::try_from(completion.token).ok()?;
        let place = self.slots.get_mut(slot)?;
        let of = place.of.take()?;
        self.free.push(slot);
        let read = match (&place.buffer, completion.result, place.reads) {
            (Some(buffer), Ok(()), bytes) if bytes > 0 => buffer.part(0, bytes).copy_out(),
            _ => Ok(Vec::new()),
        };
        place.buffer.take_if(|buffer| buffer.is_shared() || buffer.bytes > CHUNK_BYTES);
        let result = completion.result.map_err(StoreError::from);
        Some(match read {
            Ok(read) => Ended { of, result, read },
            Err(error) => Ended { of, result: result.and(Err(error.into())), read: Vec::new() },
        })
    }
}

/// The least memory of a slot: what every device reads and writes.
const PAGE: usize = 4096;
