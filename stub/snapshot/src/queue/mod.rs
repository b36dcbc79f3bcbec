//! A queue of items for any other process: for codes that write everything in each step, of which
//! a snapshot would copy everything.
//!
//! The producer writes an item where it stays, in a slot of a sealed window, and consumers read it
//! there; nothing is copied on the way. No operation waits for another side unless it is asked to
//! (`push_wait`, `wait`): a consumer that is slow, stopped, killed or lies costs itself items, and
//! the window a slot while it reads one. Protocol: docs/queue.md.
//!
//! ```
//! use heliostat_stub_snapshot::queue::{Consumer, Queue, Settings};
//!
//! let mut steps = Queue::new(Settings { slots: 4, item_bytes: 1 << 20, ..Settings::default() })?;
//! let (table, pool) = steps.descriptors();
//! let (table, pool) = (table.duplicate()?, pool.duplicate()?);
//! let mut reader = Consumer::new(&table, &pool, |page, bell| steps.admit(page, bell).map(drop))??;
//!
//! let mut slot = steps.reserve()?;
//! slot.write(0, b"written in place")?;
//! slot.commit(16)?;
//! let item = reader.take().expect("one is there");
//! let mut bytes = [0; 16];
//! item.read(0, &mut bytes)?;
//! assert_eq!(&bytes, b"written in place");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod consumer;
mod memory;
mod named;
mod outcome;
mod producer;
mod seats;
mod slot;

pub use consumer::{attach, attach_of, Consumer, Item};
pub use named::{publish_as, NamedQueue};
pub use outcome::{Metrics, QueueError};
pub use producer::Queue;
pub use slot::Slot;

/// Who gets an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Delivery {
    /// Every consumer.
    #[default]
    All,
    /// One consumer, the one that has fewest to do. Items that a dead consumer had not taken are
    /// lost with it.
    One,
}

/// What happens when the window is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Flow {
    /// The producer is told so, until the slowest consumer that counts has gone on.
    #[default]
    Full,
    /// The oldest item that nobody reads at the moment goes.
    Overwrite,
}

/// How a queue is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Items the window holds, 2 to 65,536.
    pub slots: u32,
    /// Most bytes of an item, at least 1; the window is at most 1 TiB.
    pub item_bytes: u64,
    /// Who gets an item.
    pub delivery: Delivery,
    /// What happens when the window is full.
    pub flow: Flow,
    /// Counts producers of this queue, 1 for the first.
    pub generation: u64,
}

impl Default for Settings {
    fn default() -> Self {
        let (delivery, flow) = (Delivery::All, Flow::Full);
        Self { slots: 8, item_bytes: 4096, delivery, flow, generation: 1 }
    }
}
