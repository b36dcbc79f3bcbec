//! The consumer: attaches to a region and waits for versions of it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_abi::snapshot::memory::{Shape, ARMED, BELL, CLOSED, WAITS};
use heliostat_base::bell::Bell;
use heliostat_base::fd::OwnedFd;
use heliostat_base::futex;
use heliostat_base::mapping::{Access, SharedMapping};
use heliostat_ring::pins::Words;

use super::naming::Membership;
use super::pool::{PinsPage, PoolError, Table};

/// Between two looks whether the producer has died: the word that is slept on does not tell.
const LOOK: Duration = Duration::from_millis(500);

pub(super) struct Mapped {
    pub(super) table: Table,
    pub(super) pool: SharedMapping,
    pub(super) pool_fd: OwnedFd,
    pub(super) pins: PinsPage,
    /// Of a region that was found by name.
    pub(super) membership: Option<Membership>,
}

/// A region as a consumer has it mapped: read-only, but for its own page of pins.
#[derive(Clone)]
pub struct Attachment(pub(super) Arc<Mapped>);

impl Attachment {
    /// Maps a region. The page of pins goes to the producer first (`announce`), so that no pin is
    /// overlooked.
    pub fn new<E>(
        table: &OwnedFd,
        pool: OwnedFd,
        announce: impl FnOnce(&OwnedFd) -> Result<(), E>,
    ) -> Result<Result<Self, E>, PoolError> {
        let (pins_fd, pins) = PinsPage::create()?;
        if let Err(error) = announce(&pins_fd) {
            return Ok(Err(error));
        }
        Self::map(table, pool, pins, None).map(Ok)
    }

    /// The same with a bell, whose other end is announced beside the page of pins and closed here.
    pub fn with_bell<E>(
        table: &OwnedFd,
        pool: OwnedFd,
        announce: impl FnOnce(&OwnedFd, &OwnedFd) -> Result<(), E>,
    ) -> Result<Result<Self, E>, PoolError> {
        let (pins_fd, theirs, pins) = PinsPage::create_with_bell()?;
        if let Err(error) = announce(&pins_fd, theirs.fd()) {
            return Ok(Err(error));
        }
        drop(theirs);
        Self::map(table, pool, pins, None).map(Ok)
    }

    /// Maps a region whose producer knows the page of pins, or will before it retires a version.
    pub(super) fn map(
        table: &OwnedFd,
        pool_fd: OwnedFd,
        pins: PinsPage,
        membership: Option<Membership>,
    ) -> Result<Self, PoolError> {
        let table = Table::open(table)?;
        let bytes = table.shape.pool_bytes();
        let pool = SharedMapping::from_fd(pool_fd.as_raw_fd(), bytes, Access::Read)?;
        Ok(Self(Arc::new(Mapped { table, pool, pool_fd, pins, membership })))
    }

    /// Its shape.
    pub fn shape(&self) -> Shape {
        self.0.table.shape
    }

    /// Counts the producers of this region: of its name, where it was found by one, else as its
    /// producer says.
    pub fn generation(&self) -> u64 {
        let named = self.0.membership.as_ref().map(Membership::generation);
        named.unwrap_or(self.shape().generation)
    }

    /// What the bytes mean, in the producer's words; empty when it did not say.
    pub fn description(&self) -> Vec<u8> {
        self.0.table.description()
    }

    /// Where the region lies in the producer's memory, as the producer says; 0 for nowhere.
    pub fn address(&self) -> u64 {
        self.0.table.address()
    }

    /// Number of the newest version, 0 before the first.
    pub fn latest_number(&self) -> u64 {
        self.0.table.latest().load(Acquire)
    }

    /// Numbers of the versions that can be pinned now, oldest first. Any of them may be gone a
    /// moment later.
    pub fn alive(&self) -> Vec<u64> {
        let table = &self.0.table;
        let numbers = (0..table.places()).map(|place| table.number(place).load(Acquire));
        let mut numbers: Vec<u64> = numbers.filter(|number| *number != 0).collect();
        numbers.sort_unstable();
        numbers
    }

    /// True once the producer has ended the region in good order.
    pub fn is_closed(&self) -> bool {
        self.0.table.memory.atomic_u32(CLOSED).load(Relaxed) != 0
    }

    /// Sleeps until there is a version newer than `number`, at most for `limit`; true when there
    /// is. Ends early, with false, when the producer has ended the region, or by a signal; half a
    /// second late when it was killed, which only an attachment with a bell hears of.
    pub fn wait(&self, number: u64, limit: Option<Duration>) -> bool {
        // A limit beyond what the clock can tell is none.
        let ends = limit.and_then(|limit| Instant::now().checked_add(limit));
        let bell = self.0.table.memory.atomic_u32(BELL);
        let _sleeper = Sleeper::new(self.0.pins.memory.atomic_u32(WAITS));
        let is_newer = || self.latest_number() > number;
        loop {
            let rung = bell.load(SeqCst);
            if is_newer() || self.is_closed() {
                break;
            }
            let left = ends.map(|ends| ends.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) || self.is_deserted() {
                break;
            }
            let slice = match self.0.pins.bell {
                Some(_) => Some(left.unwrap_or(LOOK).min(LOOK)),
                None => left,
            };
            if matches!(futex::wait(bell, rung, slice), Ok(futex::Wait::Interrupted) | Err(_)) {
                break;
            }
        }
        is_newer()
    }

    /// True once the producer has ended or died, as far as a bell tells; its rings stay.
    pub fn is_deserted(&self) -> bool {
        self.0.pins.bell.as_ref().is_some_and(Bell::is_deserted)
    }
}

/// A thread that sleeps on the region's bell: counted, as those of a process share its page.
struct Sleeper<'a>(&'a AtomicU32);

impl<'a> Sleeper<'a> {
    /// Counted before the bell is looked at, by a locked instruction: the producer changes the bell
    /// before it looks at the count, so one sees the other.
    fn new(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, SeqCst);
        Self(count)
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// For event loops: a descriptor instead of [`Attachment::wait`].
///
/// ```text
/// arm(seen)  -> true: a newer version is there, or will never come: look, do not sleep
///            -> false: sleep in poll, epoll or the like until `bell_fd` is readable
/// drain()    -> true: look at `latest_number`, arm again;  false: the producer is gone
/// ```
impl Attachment {
    /// Readable once after [`Attachment::arm`] when a version was published, and for ever when the
    /// producer has ended or died. `None` for an attachment made without a bell.
    pub fn bell_fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.pins.bell.as_ref().map(|bell| bell.fd().as_fd())
    }

    /// Asks for one ring at the next version; true when there is one newer than `number` already,
    /// or the producer has ended the region. Armed is armed, whatever the answer.
    pub fn arm(&self, number: u64) -> bool {
        // The store is a locked instruction, so the looks behind it are behind it for the producer
        // too, which looks at the word after it has made the version known: one sees the other.
        self.0.pins.memory.atomic_u32(ARMED).store(1, SeqCst);
        self.latest_number() > number || self.is_closed()
    }

    /// Takes what was rung. False when the producer is gone: the last version stays, and no other
    /// will come. True without a bell.
    pub fn drain(&self) -> bool {
        self.0.pins.bell.as_ref().is_none_or(Bell::drain)
    }
}
