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
//! touches nobody else's. One that grows only gets further pieces, and none moves: so there is one area, which becomes longer while other threads are in
//! it, and holds no more than a region may have pieces.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use heliostat_abi::memory::page::State;
use heliostat_abi::memory::{Granted, MemoryRequest};
use heliostat_abi::name::ObjectId;
use heliostat_base::sync::AtomicU32;
use heliostat_base::sync::Ordering::{Acquire, Release};
use heliostat_ring::region_page::RegionPage;
use heliostat_ring::Area;

use super::arenas::Placed;
use super::{MemoryError, Shared};
use crate::ask::AskMemory;

/// How long a region may be on its way. The control plane does not wait longer for who uses it.
const MOVE_LIMIT: Duration = Duration::from_secs(10);
const MOVE_PAUSE: Duration = Duration::from_micros(50);

/// A region that this process has mapped.
///
/// Orders: `D1` what was learned of where its bytes lie before the epoch for which it holds.
pub(crate) struct Direct {
    region: ObjectId,
    handle: ObjectId,
    page: RegionPage,
    /// As long as the region was at `epoch`, or longer.
    area: Area,
    epoch: AtomicU32,
    /// Held by who asks where it is now.
    asking: Mutex<()>,
}

impl Direct {
    pub(crate) fn new(shared: &Shared, granted: Granted) -> Result<Self, MemoryError> {
        let (region, handle) = (granted.region, granted.handle);
        let page = shared.page()?;
        let Placed { area, epoch } = shared.arenas().place(&shared.control, granted)?;
        let (epoch, asking) = (AtomicU32::new(epoch), Mutex::new(()));
        Ok(Self { region, handle, page, area, epoch, asking })
    }

    /// Does something with the region's bytes where they lie now.
    #[inline]
    pub(crate) fn with<T>(
        &self,
        shared: &Shared,
        act: impl FnOnce(&Area) -> T,
    ) -> Result<T, MemoryError> {
        let known = self.epoch.load(Acquire); // D1
        match self.page.state(self.region) {
            (State::Live, epoch) if epoch == known => {}
            _ => self.settle(shared)?,
        }
        Ok(act(&self.area))
    }

    /// Waits until the region is where this process knows it to be.
    #[cold]
    fn settle(&self, shared: &Shared) -> Result<(), MemoryError> {
        let begun = Instant::now();
        loop {
            let known = self.epoch.load(Acquire); // D1
            match self.page.state(self.region) {
                (State::Gone, _) => return Err(MemoryError::Stale { region: self.region }),
                (State::Live, epoch) if epoch == known => return Ok(()),
                (State::Live, _) => self.locate(shared, known)?,
                (State::Moving, _) => std::thread::sleep(MOVE_PAUSE),
            }
            if begun.elapsed() > MOVE_LIMIT {
                return Err(MemoryError::Moving { region: self.region });
            }
        }
    }

    /// Asks where it is, unless another thread has done so since the epoch was `known`.
    fn locate(&self, shared: &Shared, known: u32) -> Result<(), MemoryError> {
        let _asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        if self.epoch.load(Acquire) != known {
            return Ok(());
        }
        let located = MemoryRequest::Locate { handle: self.handle, from: 0 };
        let granted = shared.control.grant(&located)?;
        let placed = shared.arenas().place(&shared.control, granted)?;
        if !self.area.grow_to(&placed.area) {
            return Err(MemoryError::Corrupt);
        }
        self.epoch.store(placed.epoch, Release); // D1
        Ok(())
    }
}
