//! A consumer of a queue: takes items, reads them where they lie, lets them go.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::Ordering::Acquire;
use std::time::{Duration, Instant};

use heliostat_abi::snapshot::queue::Shape;
use heliostat_abi::snapshot::region::{RegionName, OWN_USER};
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::{Access, OutOfRange, SharedMapping};
use heliostat_ring::queue::{self, Words};

use super::memory::{Page, Table};
use crate::naming::{join, Membership};
use crate::{NamedError, PoolError};

/// A queue as one consumer has it mapped: read-only, but for its own page. One thread at a time.
///
/// It sees what is committed after it attached. Sleeping in an event loop: `arm` (true: look, do
/// not sleep), wait until `bell_fd` is readable, `drain` (false: the producer is gone), `take`.
pub struct Consumer {
    table: Table,
    pool: SharedMapping,
    page: Page,
    cursor: u64,
    /// Items before the next one, once one was seen.
    expected: Option<u64>,
    lost: u64,
    _membership: Option<Membership>,
}

impl Consumer {
    /// Maps a queue. The page and an end of its bell go to the producer first (`announce`).
    pub fn new<E>(
        table: &OwnedFd,
        pool: &OwnedFd,
        announce: impl FnOnce(&OwnedFd, &OwnedFd) -> Result<(), E>,
    ) -> Result<Result<Self, E>, PoolError> {
        let (page_fd, theirs, page) = Page::create()?;
        if let Err(error) = announce(&page_fd, theirs.fd()) {
            return Ok(Err(error));
        }
        Self::map(table, pool, page, None).map(Ok)
    }

    fn map(
        table: &OwnedFd,
        pool: &OwnedFd,
        page: Page,
        _membership: Option<Membership>,
    ) -> Result<Self, PoolError> {
        let table = Table::open(table)?;
        let bytes = table.shape.pool_bytes();
        let pool = SharedMapping::from_fd(pool.as_raw_fd(), bytes, Access::Read)?;
        let cursor = table.head().load(Acquire);
        queue::release(&page, cursor);
        Ok(Self { table, pool, page, cursor, expected: None, lost: 0, _membership })
    }

    /// Its shape.
    pub fn shape(&self) -> Shape {
        self.table.shape
    }

    /// What the producer says that the items' bytes mean; foreign text.
    pub fn description(&self) -> Vec<u8> {
        self.table.meaning()
    }

    /// Items that were overwritten before this consumer came to them, after the first it saw. Zero
    /// where items are dealt out.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// True once the producer has ended the queue in good order; items may still be there.
    pub fn is_closed(&self) -> bool {
        self.table.is_closed()
    }

    /// Holds the oldest item that is there for this consumer. Never waits. The item stays whole
    /// while it is held.
    pub fn take(&mut self) -> Option<Item<'_>> {
        let (table, page) = (&self.table, &self.page);
        let before = self.cursor;
        // The handle is looked at after the mark: it was said before the first item was dealt.
        let is_mine = |slot| table.is_for(slot, page);
        let Some(slot) = queue::take(table, page, &mut self.cursor, is_mine) else {
            if self.cursor != before {
                self.let_go();
            }
            return None;
        };
        let (len, ordinal) = table.description(slot);
        if !table.shape.is_dealt {
            let expected = self.expected.unwrap_or(ordinal);
            self.lost = self.lost.saturating_add(ordinal.saturating_sub(expected));
            self.expected = Some(ordinal.saturating_add(1));
        }
        Some(Item { slot, len, consumer: self })
    }

    /// Copies the next item out, in place of what `into` holds; false when there is none.
    pub fn pop(&mut self, into: &mut Vec<u8>) -> bool {
        let Some(item) = self.take() else { return false };
        into.resize(item.len(), 0);
        // The length is the item's own.
        let _ = item.read(0, into);
        true
    }

    /// Sleeps until there is an item, `limit` at most; true when there is. Ends early, with false,
    /// when the producer is gone, or by a signal.
    pub fn wait(&mut self, limit: Option<Duration>) -> bool {
        // A limit beyond what the clock can tell is none.
        let ends = limit.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            if self.arm() {
                return self.has_item();
            }
            let left = ends.map(|ends| ends.saturating_duration_since(Instant::now()));
            let ms = left.map(|left| left.as_nanos().div_ceil(1_000_000).min(1 << 30) as u32);
            let is_rung = left != Some(Duration::ZERO) && self.page.bell.wait(ms) == Ok(true);
            if !is_rung || !self.drain() {
                return self.has_item();
            }
        }
    }

    /// Readable once after [`Consumer::arm`] when an item came, and for ever when the producer has
    /// ended or died.
    pub fn bell_fd(&self) -> BorrowedFd<'_> {
        self.page.bell.fd().as_fd()
    }

    /// Asks for one ring at the next item; true when there is one already, or the queue has ended.
    pub fn arm(&mut self) -> bool {
        self.page.arm();
        self.has_item() || self.is_closed()
    }

    /// Takes what was rung. False when the producer is gone; what it committed is still there.
    pub fn drain(&self) -> bool {
        self.page.bell.drain()
    }

    fn has_item(&mut self) -> bool {
        let (table, page, before) = (&self.table, &self.page, self.cursor);
        let is_mine = |slot| table.is_for(slot, page);
        let found = queue::seek(table, &mut self.cursor, is_mine);
        if self.cursor != before {
            self.let_go();
        }
        found
    }

    fn let_go(&self) {
        queue::release(&self.page, self.cursor);
        self.page.ring_producer();
    }
}

/// An item that is held: it does not change while this lives.
pub struct Item<'a> {
    slot: usize,
    len: usize,
    consumer: &'a mut Consumer,
}

impl Item<'_> {
    /// Its number: greater than that of the one before, not always by one.
    pub fn number(&self) -> u64 {
        self.consumer.cursor
    }

    /// Its bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for an item of no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// First byte, good for `len` bytes while this lives.
    pub fn as_ptr(&self) -> *const u8 {
        let at = self.consumer.table.shape.slot(self.slot);
        self.consumer.pool.as_ptr().wrapping_add(at)
    }

    /// Copies bytes out, from `offset` of the item.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), OutOfRange> {
        OutOfRange::check(offset, into.len(), self.len)?;
        let at = self.consumer.table.shape.slot(self.slot) + offset;
        self.consumer.pool.copy_out(at, into)
    }
}

impl Drop for Item<'_> {
    fn drop(&mut self) {
        self.consumer.cursor += 1;
        self.consumer.let_go();
    }
}

/// Attaches to a queue of this process's own user.
pub fn attach(name: &str) -> Result<Consumer, NamedError> {
    attach_of(name, OWN_USER)
}

/// Attaches to a queue of user `owner`, which takes a rule.
pub fn attach_of(name: &str, owner: u32) -> Result<Consumer, NamedError> {
    let (page_fd, theirs, page) = Page::create().map_err(NamedError::Memory)?;
    let shown = [page_fd.as_raw_fd(), theirs.as_raw_fd()];
    let name = RegionName::parse(name).map_err(NamedError::Name)?;
    let (membership, [table, pool]) = join(name, owner, shown)?;
    Consumer::map(&table, &pool, page, Some(membership)).map_err(NamedError::Memory)
}
