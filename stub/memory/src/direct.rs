//! The direct path: a look at the region's word, then loads and stores in mapped arenas.
//!
//! ```text
//! counted as in the region, then the word:
//!      live, our epoch    --> act on the area
//!      live, another one  --> ask where its bytes lie now, and look again
//!      moving             --> wait a moment, look again; not for ever
//!      gone               --> stale
//! ```
//!
//! A region that is gone keeps its bytes until every handle is given back, so that who has just looked
//! touches nobody else's. One that grows or moves has another epoch and another area; it moves only
//! when nobody is counted, so that no store is lost (`ring/src/presence.rs`).

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use heliostat_abi::memory::page::State;
use heliostat_abi::memory::{Granted, MemoryRequest};
use heliostat_abi::name::ObjectId;
use heliostat_ring::presence::{Presence, Present, Stay};
use heliostat_ring::region_page::{RegionPage, WordPlace};
use heliostat_ring::replaced::{Replaced, Section};
use heliostat_ring::Area;

use super::arenas::Placed;
use super::{MemoryError, Shared};
use crate::ask::AskMemory;

/// How long a region may be on its way: a terabyte's copy, or a control plane that has stopped.
const MOVE_LIMIT: Duration = Duration::from_secs(120);
const MOVE_PAUSE: Duration = Duration::from_micros(50);

/// A region that this process has mapped.
pub(crate) struct Direct {
    region: ObjectId,
    handle: ObjectId,
    page: RegionPage,
    /// Where the region's word lies in the page.
    word: WordPlace,
    presence: Presence,
    /// Where it lay when this process last asked.
    placed: Replaced<Placed>,
    /// Held by who asks where it is now.
    asking: Mutex<()>,
}

/// This thread is in the region, which stays where it is meanwhile.
struct Inside<'a> {
    area: &'a Area,
    _present: Present<'a>,
}

impl Direct {
    pub(crate) fn new(shared: &Shared, granted: Granted) -> Result<Self, MemoryError> {
        let (region, handle) = (granted.region, granted.handle);
        let (page, presence) = (shared.page()?, shared.presence()?);
        let placed = shared.arenas().place(&shared.control, granted)?;
        let (placed, asking) = (Replaced::new(placed), Mutex::new(()));
        let word = page.place_of(region).ok_or(MemoryError::Corrupt)?;
        Ok(Self { region, handle, page, word, presence, placed, asking })
    }

    /// Does something with the region's bytes where they lie now.
    #[inline]
    pub(crate) fn with<T>(
        &self,
        shared: &Shared,
        act: impl FnOnce(&Area) -> T,
    ) -> Result<T, MemoryError> {
        loop {
            let section = Section::begin();
            if let Some(inside) = self.enter(&section) {
                return Ok(act(inside.area));
            }
            drop(section);
            self.settle(shared)?;
        }
    }

    /// Does something with the region's bytes if it may do so at once.
    #[inline]
    pub(crate) fn at_once<T>(
        &self,
        section: &Section<'_>,
        act: impl FnOnce(&Area) -> T,
    ) -> Option<T> {
        self.enter(section).map(|inside| act(inside.area))
    }

    /// The same with two regions, or one twice. Who waits for one is not in the other: its move would
    /// wait for that.
    pub(crate) fn with_both<T>(
        (one, its): (&Self, &Shared),
        (other, others): (&Self, &Shared),
        act: impl FnOnce(&Area, &Area) -> T,
    ) -> Result<T, MemoryError> {
        loop {
            let section = Section::begin();
            if let (Some(first), Some(second)) = (one.enter(&section), other.enter(&section)) {
                return Ok(act(first.area, second.area));
            }
            drop(section);
            one.settle(its)?;
            other.settle(others)?;
        }
    }

    /// Keeps the region where it is. For who is in it.
    pub(crate) fn stay(&self) -> Stay {
        self.presence.stay(self.handle)
    }

    #[inline(always)]
    fn enter<'a>(&'a self, section: &'a Section<'_>) -> Option<Inside<'a>> {
        // First: a move that this does not see waits for it.
        let present = self.presence.enter(section.row(), self.handle);
        let placed = self.placed.get(section);
        let is_here = self.page.is(self.word, placed.word);
        is_here.then(|| Inside { area: &placed.area, _present: present })
    }

    /// Waits until the region is where this process knows it to be.
    #[cold]
    fn settle(&self, shared: &Shared) -> Result<(), MemoryError> {
        let begun = Instant::now();
        loop {
            let known = self.epoch();
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

    /// The epoch for which this process knows where it is.
    fn epoch(&self) -> u32 {
        self.placed.get(&Section::begin()).epoch
    }

    /// Asks where it is, unless another thread has done so since the epoch was `known`.
    fn locate(&self, shared: &Shared, known: u32) -> Result<(), MemoryError> {
        let _asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        if self.epoch() != known {
            return Ok(());
        }
        let located = MemoryRequest::Locate { handle: self.handle, from: 0 };
        let granted = shared.control.grant(&located)?;
        let mut arenas = shared.arenas();
        let placed = arenas.place(&shared.control, granted)?;
        self.placed.replace(placed);
        // Where it lay before may be nobody's any more.
        arenas.forget_unused();
        Ok(())
    }
}
