//! The arms that are ours: a queue, and snapshots of which all is written.

use heliostat_backend_pages::live::LiveMemory;
use heliostat_stub_snapshot::queue::{Consumer, Queue, Settings};
use heliostat_stub_snapshot::{self as snapshot, Attachment, Policy, Region, View};

use super::pair::{fill, Arm, Receiver, Sender, PATIENCE};
use super::slots;
use crate::memory::{sum, Memory};
use crate::Failure;

/// Versions that are kept: two that the consumer has not read, and one more in the making.
const KEPT: usize = 3;

/// A queue with as many slots as the lock has.
pub fn queue(len: usize) -> Result<Arm, Failure> {
    let (slots, item_bytes) = (slots(len) as u32, len as u64);
    let mut queue = Queue::new(Settings { slots, item_bytes, ..Settings::default() })?;
    let (table, pool) = queue.descriptors();
    let (table, pool) = (table.duplicate()?, pool.duplicate()?);
    let consumer = Consumer::new(&table, &pool, |page, bell| match queue.admit(page, bell)? {
        Some(_) => Ok::<(), Failure>(()),
        None => Err("no seat".into()),
    })??;
    let (sender, receiver) = (Box::new(Steps { queue, len }), Box::new(Reader(consumer)));
    Ok(Arm { sender, receiver, window: u32::MAX })
}

struct Steps {
    queue: Queue,
    len: usize,
}

impl Sender for Steps {
    fn send(&mut self, seed: u64) -> Result<(), Failure> {
        loop {
            if let Ok(slot) = self.queue.reserve() {
                // SAFETY: the slot holds `len` bytes at a multiple of 64 and is ours until it is
                // committed.
                unsafe { fill(slot.as_ptr(), self.len, seed) };
                slot.commit(self.len)?;
                return Ok(());
            }
            self.queue.wait_room(Some(PATIENCE));
        }
    }
}

struct Reader(Consumer);

impl Receiver for Reader {
    fn receive(&mut self) -> Result<u64, Failure> {
        loop {
            if let Some(item) = self.0.take() {
                // SAFETY: a held item does not change; it lies at a multiple of 64.
                return Ok(unsafe { sum(item.as_ptr(), item.len()) });
            }
            if !self.0.wait(Some(PATIENCE)) {
                return Err("no item came".into());
            }
        }
    }
}

/// A region of an element's length with the settings that it has by itself, but for the versions
/// kept, so that none is lost.
pub fn snapshots(len: usize) -> Result<Arm, Failure> {
    let memory = Memory::private(len.next_multiple_of(4096), false)?;
    // SAFETY: `memory` outlives the region, which stands before it in the struct.
    let live = unsafe { LiveMemory::new(memory.start() as usize, len) };
    let policy = Policy { keep: KEPT, ..Policy::default() };
    let settings = snapshot::Settings { colours: 6, policy, ..Default::default() };
    let mut region = Region::new(live, settings)?;
    let (table, pool) = region.descriptors();
    let (table, pool) = (table.duplicate()?, pool.duplicate()?);
    let attached = Attachment::new(&table, pool, |pins| match region.admit(pins)? {
        Some(_) => Ok::<(), Failure>(()),
        None => Err("no room for another consumer".into()),
    });
    let sender = Box::new(Versions { region, memory, len });
    let receiver = Box::new(Views { from: attached??, view: None, number: 0, len });
    Ok(Arm { sender, receiver, window: KEPT as u32 - 1 })
}

/// The region is dropped first.
struct Versions {
    region: Region,
    memory: Memory,
    len: usize,
}

impl Sender for Versions {
    fn send(&mut self, seed: u64) -> Result<(), Failure> {
        // SAFETY: the memory is this value's own, and nobody reads it but `publish`.
        unsafe { fill(self.memory.start(), self.len, seed) };
        self.region.publish()?;
        Ok(())
    }
}

struct Views {
    from: Attachment,
    view: Option<View>,
    number: u64,
    len: usize,
}

impl Receiver for Views {
    fn receive(&mut self) -> Result<u64, Failure> {
        if !self.from.wait(self.number, Some(PATIENCE)) {
            return Err("no version came".into());
        }
        self.number += 1;
        let version = self.from.numbered(self.number)?;
        let view = match &mut self.view {
            Some(view) => {
                view.advance(version)?;
                view
            }
            none => none.insert(View::new(version)?),
        };
        // SAFETY: the view shows a pinned version of `len` bytes, which begins at a page.
        Ok(unsafe { sum(view.as_ptr(), self.len) })
    }
}
