//! The producer of a queue: reserves slots, writes items in place, commits them.

mod turn;

use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_abi::snapshot::queue::Shape;
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::{OutOfRange, SharedMapping, Writers};

use super::memory::{Page, Table};
use super::seats::Seats;
use super::{Delivery, Metrics, QueueError, Settings, Slot};
use crate::door::{Door, Host, Welcome};
use crate::guests::Admission;
use crate::{ConsumerHandle, PoolError};

/// The producing end of a queue. One thread at a time.
pub struct Queue {
    pub(super) table: Table,
    pub(super) pool: Arc<SharedMapping>,
    fds: (OwnedFd, OwnedFd),
    pub(super) settings: Settings,
    seats: Seats,
    /// By slot, to whom its item was dealt and as which number.
    dealt: Vec<Option<(ConsumerHandle, u64)>>,
    pub(super) door: Option<Door>,
    /// Number of the next item, and the number behind the last.
    next: u64,
    head: u64,
    metrics: Metrics,
}

impl Queue {
    /// A queue that nobody reads yet.
    pub fn new(settings: Settings) -> Result<Self, QueueError> {
        let is_dealt = settings.delivery == Delivery::One;
        let Settings { generation, item_bytes, slots, .. } = settings;
        let shape = Shape::new(generation, item_bytes, slots, is_dealt);
        let shape = shape.ok_or(QueueError::Shape)?;
        let (name, writers) = (c"heliostat-queue-pool", Writers::CreatorOnly);
        let pool = SharedMapping::create_for(name, shape.pool_bytes(), writers);
        let (pool_fd, pool) = pool.map_err(|error| QueueError::Memory(error.into()))?;
        let (table_fd, table) = Table::create(shape).map_err(QueueError::Memory)?;
        Ok(Self {
            table,
            pool: Arc::new(pool),
            fds: (table_fd, pool_fd),
            settings,
            seats: Seats::default(),
            dealt: vec![None; slots as usize],
            door: None,
            next: 0,
            head: 0,
            metrics: Metrics::default(),
        })
    }

    /// Table and pool, for consumers; sealed, so that holders can only map them for reading.
    pub fn descriptors(&self) -> (&OwnedFd, &OwnedFd) {
        (&self.fds.0, &self.fds.1)
    }

    /// Says what the items' bytes mean, in 2,044 bytes at most; false when it is longer. Before
    /// anybody attaches.
    pub fn describe(&mut self, text: &[u8]) -> bool {
        self.table.set_meaning(text)
    }

    /// The memory of all slots: stays mapped for whoever holds it, also when the queue has ended.
    pub fn window(&self) -> Arc<SharedMapping> {
        self.pool.clone()
    }

    /// What it has done.
    pub fn metrics(&self) -> Metrics {
        self.metrics
    }

    /// Lets a consumer in by its page and its end of the bell, which is copied. Answers its handle,
    /// for `dismiss`; `None` when all seats are taken. Those that come by name have seats of their
    /// own.
    pub fn admit(
        &mut self,
        page: &OwnedFd,
        bell: &OwnedFd,
    ) -> Result<Option<ConsumerHandle>, PoolError> {
        Ok(self.seats.seat(Admission::Admitted, Page::open(page, bell)?))
    }

    /// Forgets a consumer that has ended. Nothing happens when it is forgotten already.
    pub fn dismiss(&mut self, consumer: ConsumerHandle) {
        self.seats.dismiss(consumer);
    }

    /// A slot to write the next item in. Never waits for a consumer; asks the control plane if a
    /// consumer came or went.
    pub fn reserve(&mut self) -> Result<Slot<'_>, QueueError> {
        self.attend_door();
        let mut slot = self.find_slot();
        if slot.is_none() {
            // Perhaps it is the dead who have not read. Or each slot was read when it was looked
            // at, by readers that went along with the search: they do not go back.
            self.seats.wait(Some(Duration::ZERO));
            slot = self.find_slot();
        }
        match slot {
            Some(slot) => Ok(Slot::of(self, slot)),
            None => {
                self.metrics.full += 1;
                match self.door.as_ref().is_some_and(Door::is_lost) {
                    true => Err(QueueError::Lost),
                    false => Err(QueueError::Full { slots: self.settings.slots }),
                }
            }
        }
    }

    /// Copies an item in; answers its number.
    pub fn push(&mut self, item: &[u8]) -> Result<u64, QueueError> {
        self.check_length(item.len())?;
        let slot = self.reserve()?;
        slot.write(0, item).map_err(QueueError::TooLong)?;
        slot.commit(item.len())
    }

    /// The same, and waits for room, `limit` at most. Idle meanwhile.
    pub fn push_wait(&mut self, item: &[u8], limit: Option<Duration>) -> Result<u64, QueueError> {
        // A limit beyond what the clock can tell is none.
        let ends = limit.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            match self.push(item) {
                Err(QueueError::Full { .. }) => self.seats.await_room(),
                answer => return answer,
            }
            // Once more: who went on before the word was set did not ring.
            let answer = self.push(item);
            let left = ends.map(|ends| ends.saturating_duration_since(Instant::now()));
            if !matches!(answer, Err(QueueError::Full { .. })) || left == Some(Duration::ZERO) {
                return answer;
            }
            self.seats.wait(left);
        }
    }

    /// Idle until a consumer has gone on, `limit` at most; not at all when there is room.
    pub fn wait_room(&mut self, limit: Option<Duration>) {
        self.seats.await_room();
        // Who went on before the word was set did not ring.
        if self.reserve().is_err() {
            self.seats.wait(limit);
        }
    }

    /// Those that hold the producer up count no more: they go on reading, and lose items. Answers
    /// how many.
    pub fn expel_laggards(&mut self) -> usize {
        // Before every slot was used once nobody holds anybody up.
        let Some(oldest) = self.next.checked_sub(u64::from(self.settings.slots)) else { return 0 };
        let is_dealt = self.settings.delivery == Delivery::One;
        let expelled = self.seats.expel(oldest, is_dealt);
        self.metrics.expelled += expelled as u64;
        expelled
    }

    pub(super) fn check_length(&self, len: usize) -> Result<(), QueueError> {
        let limit = self.settings.item_bytes as usize;
        let error = QueueError::TooLong(OutOfRange { offset: 0, len, limit });
        (len <= limit).then_some(()).ok_or(error)
    }
}

impl Host for Queue {
    fn door(&mut self) -> &mut Option<Door> {
        &mut self.door
    }

    fn welcome(&mut self, page: &OwnedFd, bell: Option<&OwnedFd>) -> Welcome {
        // Who has no bell is no queue's consumer.
        let Some(bell) = bell else { return Welcome::Turned };
        let seats = &mut self.seats;
        Welcome::of(Page::open(page, bell), |page| seats.seat(Admission::ByName, page))
    }

    fn farewell(&mut self, consumer: ConsumerHandle) {
        self.dismiss(consumer);
    }
}

impl Drop for Queue {
    /// What is in the window stays with whoever has it mapped. The bells close with this.
    fn drop(&mut self) {
        self.table.close();
    }
}
