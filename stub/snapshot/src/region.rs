//! The producer: a region of live memory, and the versions made of it.

use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use heliostat_abi::snapshot::memory::{BELL, CLOSED, WAITS};
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::OutOfRange;
use heliostat_base::{call, clock, futex, spin};
use heliostat_ring::pins::{self, Words};

use super::alive::{Alive, Made};
use super::content::Content;
use super::door::{Door, Host, Welcome};
use super::guests::{Admission, ConsumerHandle, Guests};
use super::outcome::{Metrics, PublishError, Published};
use super::pool::{PinsPage, PoolError, Table};
use super::settings::Settings;
use super::walk::{DoneAhead, Walk};

/// Between two looks at the pins while a publishing waits for one to go.
const NAP_NS: u64 = 500_000;

/// A range of this process's memory that is published in versions. One thread at a time.
pub struct Region {
    pub(super) content: Content,
    pub(super) table: Table,
    pub(super) fds: (OwnedFd, OwnedFd),
    /// By place, what consumers may see.
    pub(super) alive: Vec<Option<Alive>>,
    pub(super) consumers: Guests<PinsPage>,
    /// Of a region that has a name.
    pub(super) door: Option<Door>,
    /// The last number that was tried.
    pub(super) next: u64,
    /// What was done ahead of the version in the making.
    pub(super) ahead: DoneAhead,
    pub(super) walk: Option<Walk>,
    pub(super) settings: Settings,
    pub(super) metrics: Metrics,
}

impl Region {
    /// Table and pool, for consumers; sealed, so that holders can only map them for reading.
    pub fn descriptors(&self) -> (&OwnedFd, &OwnedFd) {
        (&self.fds.0, &self.fds.1)
    }

    /// Says what the bytes mean, to whoever attaches later (2,044 bytes at most, else false). To be
    /// said before the region gets a name.
    pub fn describe(&mut self, text: &[u8]) -> bool {
        self.table.set_description(text)
    }

    /// How writes become known.
    pub fn engine(&self) -> &'static str {
        self.content.engine()
    }

    /// The memory that was made with the region (`Region::allocate`): its first byte, and bytes. It
    /// may be read and written as long as the region lives, in the process that made it.
    pub fn memory(&self) -> Option<(*mut u8, usize)> {
        self.content.allocated()
    }

    /// Makes memory of `Region::allocate` ready for the kernel's own writes (read(2), O_DIRECT,
    /// io_uring), which fail with EFAULT in a part that was not written since the last version.
    /// Good until the next `publish`. Nothing for any other memory. Copies up to 2 MiB for each
    /// chunk that `bytes` touch.
    pub fn prepare_write(&self, bytes: Range<usize>) -> Result<(), PublishError> {
        self.content.prepare_write(bytes)
    }

    /// What it has done, and the memory that its pool takes now.
    pub fn metrics(&self) -> Metrics {
        let pool_bytes = call::bytes_allocated(self.fds.1.as_raw_fd()).unwrap_or(0);
        Metrics { pool_bytes, ..self.metrics }
    }

    /// Lets a consumer in by its page of pins; answers its handle, for `dismiss`. `None` when as many
    /// are here as may be; those that come by name have seats of their own.
    pub fn admit(&mut self, pins: &OwnedFd) -> Result<Option<ConsumerHandle>, PoolError> {
        Ok(self.admit_page(PinsPage::open(pins, None)?))
    }

    /// The same for a consumer that has also shown an end of its bell, which is copied. When there
    /// is no seat, those go first whose bell says that they have ended.
    pub fn admit_with_bell(
        &mut self,
        pins: &OwnedFd,
        bell: &OwnedFd,
    ) -> Result<Option<ConsumerHandle>, PoolError> {
        let bell = bell.duplicate().map_err(PoolError::Bell)?;
        Ok(self.admit_page(PinsPage::open(pins, Some(bell))?))
    }

    fn admit_page(&mut self, page: PinsPage) -> Option<ConsumerHandle> {
        if self.consumers.is_full(Admission::Admitted) {
            // Of who comes by name the control plane says when it has left, not earlier.
            self.consumers.dismiss_if(Admission::Admitted, PinsPage::is_ended);
        }
        self.consumers.seat(Admission::Admitted, page)
    }

    /// Forgets a consumer that has ended: what it pinned is free. Nothing happens when it is
    /// forgotten already.
    pub fn dismiss(&mut self, consumer: ConsumerHandle) {
        self.consumers.dismiss(consumer);
    }

    /// Says that `bytes` of the region were written, by means that the engine cannot see.
    pub fn declare(&mut self, bytes: Range<usize>) -> Result<(), PublishError> {
        let limit = self.table.shape.length as usize;
        if bytes.start > bytes.end || bytes.end > limit {
            let (offset, len) = (bytes.start, bytes.len());
            return Err(PublishError::Source(OutOfRange { offset, len, limit }.into()));
        }
        let first = self.table.shape.first as usize;
        self.content.declare(first + bytes.start..first + bytes.end);
        Ok(())
    }

    /// Makes a version of the region as it is now. Nobody may write it meanwhile. Blocks for the
    /// policy's patience at most.
    pub fn publish(&mut self) -> Result<Published, PublishError> {
        self.attend_door();
        let place = self.make_room()?;
        self.walk = None;
        // A number is used once, whatever comes of it: slots may hold its bytes already.
        self.next += 1;
        let number = self.next;
        let made = self.content.make(number, &self.alive, self.table.shape)?;
        self.announce(place, number, made)
    }

    /// Tells consumers of a version that is whole in the pool.
    pub(super) fn announce(
        &mut self,
        place: usize,
        number: u64,
        made: Made,
    ) -> Result<Published, PublishError> {
        let Made { colours, mut dirty_bytes, mut copied_bytes, has_raced } = made;
        dirty_bytes += self.ahead.dirty_bytes;
        copied_bytes += self.ahead.copied_bytes;
        let facts = [clock::monotonic_ns(), dirty_bytes as u64, copied_bytes as u64];
        self.table
            .describe(place, facts, &colours)
            .map_err(|error| PublishError::Source(error.into()))?;
        pins::publish(&self.table, place, number);
        self.alive[place] = Some(Alive { number, colours });
        self.ahead = DoneAhead::default();
        self.metrics.published += 1;
        self.metrics.copied_bytes += copied_bytes as u64;
        self.ring();
        Ok(Published { number, dirty_bytes, copied_bytes, has_raced })
    }

    /// A free place, after retiring what is neither kept nor pinned.
    pub(super) fn make_room(&mut self) -> Result<usize, PublishError> {
        let patience = u64::try_from(self.settings.policy.patience.as_nanos()).unwrap_or(u64::MAX);
        let ends = clock::monotonic_ns().saturating_add(patience);
        let mut is_first = true;
        loop {
            self.retire();
            let mut free = (0..self.alive.len()).filter(|place| self.alive[*place].is_none());
            let place = free.next();
            if let Some(place) = place.filter(|_| free.count() + 1 >= self.content.places_wanted())
            {
                return Ok(place);
            }
            if clock::monotonic_ns() >= ends {
                self.metrics.skipped += 1;
                return Err(self.no_room());
            }
            self.metrics.stalled += u64::from(is_first);
            is_first = false;
            spin::sleep_ns(NAP_NS);
        }
    }

    fn no_room(&self) -> PublishError {
        match self.door.as_ref().is_some_and(Door::is_lost) {
            true => PublishError::Lost,
            false => PublishError::Full { alive: self.alive.iter().flatten().count() },
        }
    }

    /// Retires every version that the policy does not keep and nobody pins.
    fn retire(&mut self) {
        // The version in the making will be one of the kept; the newest stays until it is there.
        let mut alive: Vec<u64> = self.alive.iter().flatten().map(|alive| alive.number).collect();
        alive.sort_unstable();
        let kept = (self.settings.policy.keep - 1).max(1);
        let kept_from = alive.len().checked_sub(kept).map_or(0, |first| alive[first]);
        for place in 0..self.alive.len() {
            let number = self.alive[place].as_ref().map_or(u64::MAX, |alive| alive.number);
            if number < kept_from && self.retire_one(place, number) {
                self.alive[place] = None;
            }
        }
    }

    /// Retires the version in `place` unless somebody has it pinned.
    fn retire_one(&mut self, place: usize, number: u64) -> bool {
        self.take_apart(
            |it| pins::try_retire(&it.table, place, it.consumers.pages()),
            |it| it.table.number(place).store(number, Release),
        )
    }

    /// Wakes consumers that wait for a version, if any does.
    fn ring(&mut self) {
        self.table.memory.atomic_u32(BELL).fetch_add(1, SeqCst);
        // Who joined while this version was made may sleep already.
        self.attend_door();
        let bell = self.table.memory.atomic_u32(BELL);
        let waits = |page: &PinsPage| page.memory.atomic_u32(WAITS).load(SeqCst) != 0;
        if self.consumers.pages().any(waits) {
            futex::wake(bell, u32::MAX);
        }
        self.consumers.pages().for_each(PinsPage::ring_if_armed);
    }
}

impl Host for Region {
    fn door(&mut self) -> &mut Option<Door> {
        &mut self.door
    }

    fn welcome(&mut self, page: &OwnedFd, bell: Option<&OwnedFd>) -> Welcome {
        // Without a copy of its bell it is not rung, but what it pins stays.
        let bell = bell.and_then(|bell| bell.duplicate().ok());
        let consumers = &mut self.consumers;
        Welcome::of(PinsPage::open(page, bell), |page| consumers.seat(Admission::ByName, page))
    }

    fn farewell(&mut self, consumer: ConsumerHandle) {
        self.dismiss(consumer);
    }
}

impl Drop for Region {
    /// The last version stays with whoever has it mapped; nobody is left waiting. The ends of the
    /// bells that close with this are heard of without a ring.
    fn drop(&mut self) {
        self.table.memory.atomic_u32(CLOSED).store(1, Relaxed);
        let bell = self.table.memory.atomic_u32(BELL);
        bell.fetch_add(1, SeqCst);
        // Unasked: somebody may have joined in the last moment.
        futex::wake(bell, u32::MAX);
    }
}
