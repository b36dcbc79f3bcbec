//! An area of bytes as a file: a disk that programs read and write at any offset.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use heliostat_stub_store::{Area, AreaRights, ListedArea, Store, WayWanted};

use super::Stores;
use crate::file::within;
use crate::{Access, Bytes, Facts, File, NameFault};

/// Bytes that are read or written as one piece.
const CHUNK_BYTES: usize = 1 << 20;

/// Who writes an area now. Who writes parts of sectors reads the rest of them first and writes that again, so
/// nobody else writes meanwhile; those who write whole ones write together.
#[derive(Default)]
struct Turns(RwLock<()>);

impl Turns {
    /// Writes at its turn.
    fn write<R>(&self, is_whole: bool, work: impl FnOnce() -> R) -> R {
        match is_whole {
            true => {
                let _with_others = self.0.read().unwrap_or_else(PoisonError::into_inner);
                work()
            }
            false => {
                let _alone = self.0.write().unwrap_or_else(PoisonError::into_inner);
                work()
            }
        }
    }
}

/// Whose turn it is to write an area: for each of them, what all who have it open share.
#[derive(Clone, Default)]
pub(super) struct Writers(Arc<Mutex<HashMap<u64, Weak<Turns>>>>);

impl Writers {
    fn of(&self, generation: u64) -> Arc<Turns> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = known.get(&generation).and_then(Weak::upgrade) {
            return lock;
        }
        known.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::new(Turns::default());
        known.insert(generation, Arc::downgrade(&lock));
        lock
    }
}

pub(super) struct AreaFile {
    stores: Stores,
    writers: Writers,
    area: ListedArea,
    is_own: bool,
}

impl AreaFile {
    /// An area, as user `own` sees it.
    pub(super) fn new(stores: Stores, writers: Writers, area: ListedArea, own: u32) -> Self {
        let is_own = area.user == own;
        Self { stores, writers, area, is_own }
    }

    fn may(&self, rights: AreaRights) -> bool {
        self.is_own || self.area.others.have(rights)
    }

    fn open_with(&self, rights: AreaRights) -> Result<Area, NameFault> {
        open(&self.stores, &self.area, rights)
    }
}

/// Opens the very area that was listed, by the server loops: what is read now and then is not to take
/// one of the few places of who drives the device directly.
pub(super) fn open(
    stores: &Stores,
    area: &ListedArea,
    rights: AreaRights,
) -> Result<Area, NameFault> {
    let store = stores.current(Store::connect)?;
    let opened = store.open_of(area.user, area.name.as_str(), rights, WayWanted::Emulated)?;
    let is_it = opened.generation() == area.generation;
    is_it.then_some(opened).ok_or(NameFault::Stale)
}

impl File for AreaFile {
    fn facts(&self) -> Facts {
        Facts {
            key: format!("area {}", self.area.generation),
            bytes: self.area.bytes,
            user: Some(self.area.user),
            is_readable: self.may(AreaRights::READ),
            is_writable: self.may(AreaRights::WRITE),
            changed: None,
            is_constant: false,
        }
    }

    fn open(&self, access: Access) -> Result<Box<dyn Bytes>, NameFault> {
        // Parts of sectors are written by reading them before.
        let rights = match access {
            Access::Read => AreaRights::READ,
            Access::Write | Access::Both => AreaRights::READ.and(AreaRights::WRITE),
        };
        let writing = self.writers.of(self.area.generation);
        Ok(Box::new(OpenArea { area: self.open_with(rights)?, writing }))
    }

    fn resize(&self, bytes: u64) -> Result<(), NameFault> {
        Ok(self.open_with(AreaRights::MANAGE)?.resize(bytes)?)
    }
}

struct OpenArea {
    area: Area,
    writing: Arc<Turns>,
}

impl OpenArea {
    /// The sectors that hold bytes of the area.
    fn sectors(&self, offset: u64, count: usize) -> (u64, usize) {
        let sector = u64::from(self.area.sector_bytes());
        let start = offset / sector * sector;
        (start, ((offset - start) + count as u64).next_multiple_of(sector) as usize)
    }

    /// What is left of the area from an offset on, as much as goes at once.
    fn part(&self, offset: u64, wanted: usize) -> usize {
        within(offset, wanted.min(CHUNK_BYTES), self.area.bytes())
    }
}

impl Bytes for OpenArea {
    fn size(&self) -> Result<u64, NameFault> {
        Ok(self.area.bytes())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, NameFault> {
        let count = self.part(offset, into.len());
        if count > 0 {
            let (start, bytes) = self.sectors(offset, count);
            let mut sectors = vec![0; bytes];
            self.area.read(start, &mut sectors)?;
            let from = (offset - start) as usize;
            into[..count].copy_from_slice(&sectors[from..from + count]);
        }
        Ok(count)
    }

    fn write_at(&self, offset: u64, from: &[u8]) -> Result<usize, NameFault> {
        let count = self.part(offset, from.len());
        if count == 0 && !from.is_empty() {
            return Err(NameFault::End);
        }
        let (start, bytes) = self.sectors(offset, count);
        let is_whole = (start, bytes) == (offset, count);
        self.writing.write(is_whole, || {
            if is_whole {
                return self.area.write(offset, &from[..count]);
            }
            let mut sectors = vec![0; bytes];
            self.area.read(start, &mut sectors)?;
            let at = (offset - start) as usize;
            sectors[at..at + count].copy_from_slice(&from[..count]);
            self.area.write(start, &sectors)
        })?;
        Ok(count)
    }

    fn synchronize(&self) -> Result<(), NameFault> {
        Ok(self.area.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::Barrier;
    use std::time::Duration;

    use super::*;

    #[test]
    fn whole_sectors_are_written_together_and_never_while_parts_are() {
        let (turns, inside) = (Turns::default(), AtomicUsize::new(0));
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            // Each waits for the other within its turn.
            let whole = || turns.write(true, || barrier.wait().is_leader());
            let other = scope.spawn(whole);
            assert_ne!(whole(), other.join().unwrap());
            let part = || {
                turns.write(false, || {
                    inside.store(1, SeqCst);
                    barrier.wait();
                    std::thread::sleep(Duration::from_millis(50));
                    inside.store(0, SeqCst);
                });
            };
            scope.spawn(part);
            barrier.wait();
            assert_eq!(turns.write(true, || inside.load(SeqCst)), 0);
        });
    }

    #[test]
    fn all_who_have_an_area_open_share_its_lock_and_none_is_left() {
        let writers = Writers::default();
        let (one, same, other) = (writers.of(1), writers.clone().of(1), writers.of(2));
        assert!(Arc::ptr_eq(&one, &same) && !Arc::ptr_eq(&one, &other));
        drop((one, same, other));
        writers.of(3);
        assert_eq!(
            writers.0.lock().unwrap().len(),
            1,
            "of areas that nobody has open there is none"
        );
    }
}
