//! The direct path: a look at the region's word, then loads and stores in mapped arenas.
//!
//! ```text
//! word live, our epoch    --> act on the area
//!      live, another one  --> ask where its bytes lie now, and look again
//!      moving             --> wait a moment, look again; not for ever
//!      gone               --> stale
//! ```
//!
//! A region that is gone keeps its bytes until every handle is given back, so that who has just looked
//! touches nobody else's. Areas that were left stay until the region is dropped: another thread may
//! still be in one.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use heliostat_abi::memory::page::State;
use heliostat_abi::memory::{Granted, MemoryRequest};
use heliostat_abi::name::ObjectId;
use heliostat_ring::region_page::RegionPage;
use heliostat_ring::Area;

use super::arenas::Placed;
use super::{MemoryError, Shared};

/// How long a region may be on its way. The control plane does not wait longer for who uses it.
const MOVE_LIMIT: Duration = Duration::from_secs(10);
const MOVE_PAUSE: Duration = Duration::from_micros(50);

/// A region that this process has mapped.
pub(crate) struct Direct {
    region: ObjectId,
    handle: ObjectId,
    page: RegionPage,
    first: Place,
    /// Held by who asks where it is now.
    asking: Mutex<()>,
}

/// Where it lay from some epoch on, and the next such place.
struct Place {
    placed: Placed,
    next: OnceLock<Box<Place>>,
}

impl Place {
    fn new(placed: Placed) -> Self {
        Self { placed, next: OnceLock::new() }
    }
}

impl Direct {
    pub(crate) fn new(shared: &Shared, granted: Granted) -> Result<Self, MemoryError> {
        let (region, handle) = (granted.region, granted.handle);
        let page = shared.page()?;
        let first = Place::new(shared.arenas().place(&shared.control, granted)?);
        Ok(Self { region, handle, page, first, asking: Mutex::new(()) })
    }

    /// Does something with the region's bytes where they lie now.
    #[inline]
    pub(crate) fn with<T>(
        &self,
        shared: &Shared,
        act: impl FnOnce(&Area) -> T,
    ) -> Result<T, MemoryError> {
        let placed = &self.latest().placed;
        match self.page.state(self.region) {
            (State::Live, epoch) if epoch == placed.epoch => Ok(act(&placed.area)),
            _ => Ok(act(self.settle(shared)?)),
        }
    }

    /// Waits until the region is where this process knows it to be.
    #[cold]
    fn settle(&self, shared: &Shared) -> Result<&Area, MemoryError> {
        let begun = Instant::now();
        loop {
            let last = self.latest();
            match self.page.state(self.region) {
                (State::Gone, _) => return Err(MemoryError::Stale { region: self.region }),
                (State::Live, epoch) if epoch == last.placed.epoch => return Ok(&last.placed.area),
                (State::Live, _) => self.locate(shared, last)?,
                (State::Moving, _) => std::thread::sleep(MOVE_PAUSE),
            }
            if begun.elapsed() > MOVE_LIMIT {
                return Err(MemoryError::Moving { region: self.region });
            }
        }
    }

    /// Asks where it is, unless another thread has done so since `last` was the latest.
    fn locate(&self, shared: &Shared, last: &Place) -> Result<(), MemoryError> {
        let _asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        if last.next.get().is_none() {
            let located = MemoryRequest::Locate { handle: self.handle, from: 0 };
            let granted = shared.control.grant(&located)?;
            let placed = shared.arenas().place(&shared.control, granted)?;
            let _ = last.next.set(Box::new(Place::new(placed)));
        }
        Ok(())
    }

    fn latest(&self) -> &Place {
        let mut place = &self.first;
        while let Some(next) = place.next.get() {
            place = next;
        }
        place
    }
}
