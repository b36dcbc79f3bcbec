//! The table: all areas, and what is to be zeroed. There are two copies, the same but during a change.
//!
//! ```text
//!  0  magic, 8 bytes          36  areas u32
//!  8  sequence u64            40  ranges to be zeroed u32
//! 16  identity, 16 bytes      44  zero u32
//! 32  bytes behind 96 u32     48  generation of the next area u64
//!                             56  zero u64
//! 64  BLAKE3 of bytes 0 to 64 and of those from 96 on
//! 96  ranges to be zeroed, areas
//! ```

use std::collections::BTreeSet;

use crate::area::{decode_extents, encode_extents, Area};
use crate::error::{Part, StoreError};
use crate::extents::{gaps, overlap, Extent};
use crate::fields::Fields;
use crate::superblock::{Superblock, BLOCK_BYTES};

/// Ranges that may wait to be zeroed.
pub const ZEROING_MAX: usize = 256;

const MAGIC: [u8; 8] = *b"HSTABLE\x01";
const HEADER_BYTES: usize = 96;
const HASH_AT: usize = 64;
/// What no counter comes to in the life of a device.
const COUNTER_MAX: u64 = 1 << 62;

/// All that changes in a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Table {
    /// Counts the changes.
    pub(crate) sequence: u64,
    /// What the next area gets.
    pub(crate) next_generation: u64,
    /// Nobody's, and not zero yet.
    pub(crate) zeroing: Vec<Extent>,
    /// In the order in which they were made.
    pub(crate) areas: Vec<Area>,
}

impl Table {
    /// The copy as it is written, filled up with zeroes to whole blocks.
    pub(crate) fn encode(&self, superblock: &Superblock) -> Result<Vec<u8>, StoreError> {
        let wanted = self.sequence.max(self.next_generation);
        if wanted > COUNTER_MAX {
            let what = "changes or areas so far";
            return Err(StoreError::Number { what, wanted, limit: COUNTER_MAX });
        }
        let mut bytes = vec![0; HEADER_BYTES];
        encode_extents(&self.zeroing, &mut bytes);
        self.areas.iter().for_each(|area| area.encode(&mut bytes));
        let (wanted, limit) = (bytes.len() as u64, superblock.table_bytes);
        if wanted > limit {
            return Err(StoreError::TableFull { wanted, limit });
        }
        let mut header = Vec::with_capacity(HASH_AT);
        header.extend(MAGIC);
        header.extend(self.sequence.to_le_bytes());
        header.extend(superblock.identity.0);
        let counts = [bytes.len() - HEADER_BYTES, self.areas.len(), self.zeroing.len(), 0];
        counts.iter().for_each(|count| header.extend((*count as u32).to_le_bytes()));
        header.extend(self.next_generation.to_le_bytes());
        header.extend([0; 8]);
        bytes[..HASH_AT].copy_from_slice(&header);
        let hash = hash(&bytes[..HASH_AT], &bytes[HEADER_BYTES..]);
        bytes[HASH_AT..HEADER_BYTES].copy_from_slice(&hash);
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES as usize), 0);
        Ok(bytes)
    }

    /// The table in one copy's bytes. All of it is checked: nothing in it overlaps, and no user
    /// has a name twice.
    pub(crate) fn decode(bytes: &[u8], superblock: &Superblock) -> Result<Table, StoreError> {
        let damaged = StoreError::Damaged(Part::Table);
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES).ok_or(damaged.clone())?;
        let mut fields = Fields(header);
        if fields.take(8)? != MAGIC {
            return Err(damaged);
        }
        let sequence = fields.u64()?;
        let identity = fields.identity()?;
        let length = fields.u32()? as usize;
        let (areas, zeroing) = (fields.u32()?, fields.u32()? as usize);
        fields.zeroes(4, "table")?;
        let next_generation = fields.u64()?;
        fields.zeroes(8, "table")?;
        let (payload, _) = rest.split_at_checked(length).ok_or(damaged.clone())?;
        if hash(&header[..HASH_AT], payload)[..] != header[HASH_AT..]
            || identity != superblock.identity.0
        {
            return Err(damaged);
        }
        if areas > superblock.areas_max || zeroing > ZEROING_MAX {
            return Err(StoreError::Damaged(Part::Field("number of areas")));
        }
        let mut fields = Fields(payload);
        let zeroing = decode_extents(&mut fields, zeroing)?;
        let grain = u64::from(superblock.grain_bytes);
        let areas = (0..areas).map(|_| Area::decode(&mut fields, grain));
        let areas = areas.collect::<Result<Vec<Area>, StoreError>>()?;
        if !fields.0.is_empty() {
            return Err(StoreError::Damaged(Part::Field("length of the table")));
        }
        let table = Table { sequence, next_generation, zeroing, areas };
        table.check(superblock).map(|()| table)
    }

    /// Looks whether everything agrees with everything else.
    fn check(&self, superblock: &Superblock) -> Result<(), StoreError> {
        let counters = [self.sequence, self.next_generation];
        if counters.iter().any(|counter| !(1..=COUNTER_MAX).contains(counter)) {
            return Err(StoreError::Damaged(Part::Field("counter")));
        }
        let mut before = 0;
        let mut names = BTreeSet::new();
        for area in &self.areas {
            if area.generation <= before || area.generation >= self.next_generation {
                return Err(StoreError::Damaged(Part::Field("generation of an area")));
            }
            before = area.generation;
            if !names.insert((area.owner, &area.name)) {
                return Err(StoreError::Damaged(Part::Field("name of two areas")));
            }
        }
        match overlap(&self.taken(), superblock.data_grains) {
            Some(_) => Err(StoreError::Damaged(Part::Field("extents that overlap"))),
            None => Ok(()),
        }
    }

    /// All extents that are not free, sorted.
    fn taken(&self) -> Vec<Extent> {
        let of_areas = self.areas.iter().flat_map(|area| &area.extents);
        let mut taken: Vec<Extent> = of_areas.chain(&self.zeroing).copied().collect();
        taken.sort_unstable();
        taken
    }

    /// All extents that are free, sorted.
    pub(crate) fn free(&self, superblock: &Superblock) -> Vec<Extent> {
        gaps(&self.taken(), superblock.data_grains)
    }
}

fn hash(header: &[u8], payload: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(header).update(payload);
    *hasher.finalize().as_bytes()
}
