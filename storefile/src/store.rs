//! The state of a store, and the steps of each change of it.

use crate::area::{Area, Kind, Name};
use crate::error::{Part, StoreError};
use crate::extents::{append, choose, cut, grains, Extent};
use crate::step::Step;
use crate::superblock::{Format, Superblock, SUPERBLOCKS_BYTES};
use crate::table::{Table, ZEROING_MAX};

/// A change that is planned. [`Store::apply`] makes it the store's state, after all its steps.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "the change is not made yet"]
pub struct Change {
    /// What to do, in order. If one fails, the store has to be opened again: what the device holds by
    /// then is open.
    pub steps: Vec<Step>,
    table: Table,
}

/// An area to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Create {
    /// Its name.
    pub name: Name,
    /// Its size, a multiple of the grain.
    pub bytes: u64,
    /// The user whose it will be.
    pub owner: u32,
    /// Who else may do what.
    pub rights: u32,
    /// What it is for.
    pub kind: Kind,
}

/// A store that was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "its copies may have to be made equal first"]
pub struct Opened {
    /// The store.
    pub store: Store,
    /// What makes both copies equal again; to be done before any change.
    pub steps: Vec<Step>,
}

/// A store: its areas, and what of it is free.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Store {
    superblock: Superblock,
    table: Table,
}

impl Store {
    /// Plans a store in a device, of which these are the first bytes ([`SUPERBLOCKS_BYTES`]).
    ///
    /// # Errors
    /// There is something already, or a number may not be so.
    pub fn format(format: &Format, first_bytes: &[u8]) -> Result<Opened, StoreError> {
        match Superblock::read(first_bytes, u64::MAX, None) {
            Err(StoreError::Blank) => Store::format_over(format),
            Err(error) => Err(error),
            Ok((superblock, _)) => Err(StoreError::Exists { identity: superblock.identity }),
        }
    }

    /// Plans a store in a device, whatever is there.
    ///
    /// # Errors
    /// A number may not be so.
    pub fn format_over(format: &Format) -> Result<Opened, StoreError> {
        let superblock = Superblock::plan(format)?;
        let whole = Extent { first: 0, grains: superblock.data_grains };
        let zeroing = if format.is_zero { Vec::new() } else { vec![whole] };
        let table = Table { sequence: 1, next_generation: 1, zeroing, areas: Vec::new() };
        let bytes = table.encode(&superblock)?;
        let [first, second] = superblock.tables();
        // No superblock is there while the tables are written; both are there after the last flush.
        let steps = vec![
            Step::Zero { offset: 0, bytes: SUPERBLOCKS_BYTES },
            Step::Flush,
            Step::Write { offset: first.offset, bytes: bytes.clone() },
            Step::Write { offset: second.offset, bytes },
            Step::Flush,
            superblock.step(1),
            Step::Flush,
            superblock.step(0),
            Step::Flush,
        ];
        Ok(Opened { store: Store { superblock, table }, steps })
    }

    /// Opens a store by both copies of its table, whose places [`Superblock::tables`] names.
    ///
    /// # Errors
    /// Both copies are damaged.
    pub fn open(superblock: Superblock, copies: [&[u8]; 2]) -> Result<Opened, StoreError> {
        let [first, second] = copies.map(|copy| Table::decode(copy, &superblock));
        let (table, behind) = match (first, second) {
            (Ok(first), Ok(second)) if first == second => (first, None),
            (Ok(first), Ok(second)) if first.sequence > second.sequence => (first, Some(1)),
            (Ok(first), Ok(second)) if first.sequence < second.sequence => (second, Some(0)),
            (Ok(_), Ok(_)) => return Err(StoreError::Damaged(Part::Table)),
            (Ok(first), Err(_)) => (first, Some(1)),
            (Err(_), Ok(second)) => (second, Some(0)),
            (Err(_), Err(_)) => return Err(StoreError::Damaged(Part::Table)),
        };
        let mut steps = Vec::new();
        if let Some(behind) = behind {
            let offset = superblock.tables().map(|copy| copy.offset)[behind];
            let bytes = table.encode(&superblock)?;
            // What was read may still be in the device's cache only, if a process has ended and the
            // machine has not. It has to last before the other copy is touched.
            steps = vec![Step::Flush, Step::Write { offset, bytes }, Step::Flush];
        }
        Ok(Opened { store: Store { superblock, table }, steps })
    }

    /// Which store it is, and where its parts lie.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// What the superblock is since the steps of [`Superblock::keeping`] were done.
    pub fn set_superblock(&mut self, kept: Superblock) {
        self.superblock = kept;
    }

    /// All areas, in the order in which they were made.
    pub fn areas(&self) -> &[Area] {
        &self.table.areas
    }

    /// A user's area with a name.
    pub fn find(&self, owner: u32, name: &Name) -> Option<&Area> {
        self.table.areas.iter().find(|area| (area.owner, &area.name) == (owner, name))
    }

    /// The area with a generation, which no other area has or will have.
    pub fn area(&self, generation: u64) -> Option<&Area> {
        let place = self.place(generation).ok()?;
        self.table.areas.get(place)
    }

    /// Changes so far.
    pub fn sequence(&self) -> u64 {
        self.table.sequence
    }

    /// Bytes that areas may still have.
    pub fn free_bytes(&self) -> u64 {
        self.bytes(grains(&self.table.free(&self.superblock)))
    }

    /// Extents that belong to nobody and read as zero.
    pub fn free(&self) -> Vec<Extent> {
        self.table.free(&self.superblock)
    }

    /// Bytes that become free when they were zeroed: see [`Store::zero`].
    pub fn zeroing_bytes(&self) -> u64 {
        self.bytes(grains(&self.table.zeroing))
    }

    /// Plans a new area, whose bytes are zero.
    ///
    /// # Errors
    /// The name is taken, the size is none, or there is no room of some kind.
    pub fn create(&self, create: &Create) -> Result<Change, StoreError> {
        let wanted = self.grains_of(create.bytes)?;
        if self.find(create.owner, &create.name).is_some() {
            return Err(StoreError::NameTaken);
        }
        if self.table.areas.len() >= self.superblock.areas_max as usize {
            return Err(StoreError::TooManyAreas { limit: self.superblock.areas_max });
        }
        let extents = self.choose(wanted, &[])?;
        let mut table = self.table.clone();
        table.areas.push(Area {
            name: create.name.clone(),
            generation: table.next_generation,
            bytes: create.bytes,
            owner: create.owner,
            rights: create.rights,
            kind: create.kind,
            extents,
        });
        table.next_generation += 1;
        self.change(table, Vec::new())
    }

    /// Plans another size for an area. What it gains is zero; what it loses is zeroed afterwards, so
    /// nothing may be under way there.
    ///
    /// # Errors
    /// There is no such area, the size is none, or there is no room of some kind.
    pub fn resize(&self, generation: u64, bytes: u64) -> Result<Change, StoreError> {
        let (place, wanted) = (self.place(generation)?, self.grains_of(bytes)?);
        let mut table = self.table.clone();
        let area = &mut table.areas[place];
        let before = area.grains();
        if wanted > before {
            area.extents = self.choose(wanted - before, &area.extents)?;
        }
        let lost = cut(&mut area.extents, wanted);
        area.bytes = bytes;
        zero_later(&mut table, lost)?;
        self.change(table, Vec::new())
    }

    /// Plans the end of an area, whose bytes are zeroed afterwards, so nothing may be under way there.
    ///
    /// # Errors
    /// There is no such area, or too much waits to be zeroed.
    pub fn delete(&self, generation: u64) -> Result<Change, StoreError> {
        let mut table = self.table.clone();
        let area = table.areas.remove(self.place(generation)?);
        zero_later(&mut table, area.extents)?;
        self.change(table, Vec::new())
    }

    /// Plans another owner and other rights of an area.
    ///
    /// # Errors
    /// There is no such area, or that owner has one of the same name.
    pub fn appoint(&self, generation: u64, owner: u32, rights: u32) -> Result<Change, StoreError> {
        let mut table = self.table.clone();
        let area = &mut table.areas[self.place(generation)?];
        if self.find(owner, &area.name).is_some_and(|other| other.generation != generation) {
            return Err(StoreError::NameTaken);
        }
        (area.owner, area.rights) = (owner, rights);
        self.change(table, Vec::new())
    }

    /// Plans to zero some of what waits for it, `bytes_max` or one grain at most; `None` when nothing
    /// does. To be asked for until then, also after the store was opened.
    pub fn zero(&self, bytes_max: u64) -> Option<Result<Change, StoreError>> {
        let mut table = self.table.clone();
        let first = table.zeroing.first_mut()?;
        let most = (bytes_max / u64::from(self.superblock.grain_bytes)).max(1);
        let now = Extent { first: first.first, grains: first.grains.min(most) };
        *first = Extent { first: now.end(), grains: first.grains - now.grains };
        table.zeroing.retain(|extent| extent.grains > 0);
        let piece = self.superblock.piece(now);
        let zero = Step::Zero { offset: piece.offset, bytes: piece.bytes };
        Some(self.change(table, vec![zero, Step::Flush]))
    }

    /// Makes a change the state of the store. All its steps have completed.
    ///
    /// # Errors
    /// The change was planned on another state; nothing is changed.
    pub fn apply(&mut self, change: Change) -> Result<(), StoreError> {
        if change.table.sequence != self.table.sequence + 1 {
            return Err(StoreError::Stale);
        }
        self.table = change.table;
        Ok(())
    }

    fn change(&self, mut table: Table, mut steps: Vec<Step>) -> Result<Change, StoreError> {
        table.sequence += 1;
        let bytes = table.encode(&self.superblock)?;
        for copy in self.superblock.tables() {
            steps.push(Step::Write { offset: copy.offset, bytes: bytes.clone() });
            steps.push(Step::Flush);
        }
        Ok(Change { steps, table })
    }

    fn choose(&self, wanted: u64, behind: &[Extent]) -> Result<Vec<Extent>, StoreError> {
        let gaps = self.table.free(&self.superblock);
        let free = grains(&gaps);
        if wanted > free {
            let (wanted, free) = (self.bytes(wanted), self.bytes(free));
            return Err(StoreError::Full { wanted, free, zeroing: self.zeroing_bytes() });
        }
        choose(&gaps, wanted, behind)
    }

    fn place(&self, generation: u64) -> Result<usize, StoreError> {
        let found = self.table.areas.binary_search_by_key(&generation, |area| area.generation);
        found.map_err(|_| StoreError::NoArea)
    }

    fn grains_of(&self, bytes: u64) -> Result<u64, StoreError> {
        let limit = u64::from(self.superblock.grain_bytes);
        if bytes == 0 || bytes % limit != 0 {
            let what = "bytes of an area, a multiple";
            return Err(StoreError::Number { what, wanted: bytes, limit });
        }
        Ok(bytes / limit)
    }

    fn bytes(&self, grains: u64) -> u64 {
        grains.saturating_mul(u64::from(self.superblock.grain_bytes))
    }
}

/// Writes down that extents are nobody's and to be zeroed.
fn zero_later(table: &mut Table, extents: Vec<Extent>) -> Result<(), StoreError> {
    let mut all = std::mem::take(&mut table.zeroing);
    all.extend(extents);
    all.sort_unstable();
    all.into_iter().for_each(|extent| append(&mut table.zeroing, extent));
    match table.zeroing.len() {
        0..=ZEROING_MAX => Ok(()),
        _ => Err(StoreError::ZeroingFull { limit: ZEROING_MAX }),
    }
}
