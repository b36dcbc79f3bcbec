//! The superblock: which store this is, where its parts lie, and how writes are made durable there.
//!
//! ```text
//!  0  magic, 8 bytes            48  bytes of one copy of the table u64
//!  8  format u32                56  first byte of the data u64
//! 12  copy u32                  64  grains of the data u64
//! 16  identity, 16 bytes        72  how writes are made durable u32; in format 1 zero
//! 32  bytes of the store u64    76  zeroes
//! 40  bytes of a grain u32    4064  BLAKE3 of the bytes before, 32 bytes
//! 44  areas at most u32
//! ```

use crate::error::{Part, StoreError};
use crate::extents::{Extent, Piece};
use crate::fields::Fields;
use crate::identity::Identity;
use crate::step::Step;

/// What a store begins with.
pub const MAGIC: [u8; 8] = *b"HSTORE\0\x01";
/// The format that is written, and the newest that is read. Format 1 keeps no way of durable writes.
pub const FORMAT: u32 = 2;
/// What parts of a store are multiples of, and a superblock's size.
pub const BLOCK_BYTES: u64 = 4096;
/// Both superblocks: what has to be read first.
pub const SUPERBLOCKS_BYTES: u64 = 2 * BLOCK_BYTES;
/// Areas that a store may have at most.
pub const AREAS_MAX: u32 = 1 << 16;

/// A grain: a page at least, and small enough for offsets in one to be 32 bits.
const GRAIN_BYTES_MAX: u32 = 1 << 30;
/// Bytes of the table for each area that there may be: a name of 40 bytes and several extents.
const TABLE_BYTES_PER_AREA: u64 = 256;
/// Bytes of the table for what is to be zeroed, and its header.
const TABLE_BYTES_MORE: u64 = 3 * BLOCK_BYTES;
const HASHED_BYTES: usize = 4064;

/// How writes are made durable on the device of a store, as it was measured there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DurableBy {
    /// Each write by itself (RWF_DSYNC, forced unit access).
    Dsync = 1,
    /// A flush afterwards, which all share that are written by then.
    Flush = 2,
    /// By itself if it is alone, else by a shared flush.
    DsyncAlone = 3,
}

impl DurableBy {
    fn from_number(number: u32) -> Option<DurableBy> {
        let all = [DurableBy::Dsync, DurableBy::Flush, DurableBy::DsyncAlone];
        all.into_iter().find(|it| *it as u32 == number)
    }
}

/// How a store is to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    /// Random bytes: which store it will be.
    pub identity: Identity,
    /// Bytes of the device.
    pub device_bytes: u64,
    /// What sizes of areas are multiples of: a power of two, 4096 at least.
    pub grain_bytes: u32,
    /// Areas that there may be.
    pub areas_max: u32,
    /// Whether the device reads as zero behind the tables. If not all of it is zeroed first, which
    /// takes as long as to write all of it.
    pub is_zero: bool,
}

/// Which store a device holds, and where its parts lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Its format, which stays what it was made with.
    pub format: u32,
    /// Which store it is.
    pub identity: Identity,
    /// Bytes of the store, those of its superblocks and tables included.
    pub bytes: u64,
    /// What sizes of areas are multiples of.
    pub grain_bytes: u32,
    /// Areas that there may be.
    pub areas_max: u32,
    /// Bytes of one copy of the table.
    pub table_bytes: u64,
    /// First byte of the data.
    pub data_offset: u64,
    /// Grains of the data.
    pub data_grains: u64,
    /// How writes are made durable on its device, once that was measured; unknown in format 1.
    pub durable_by: Option<DurableBy>,
}

impl Superblock {
    /// Where everything will lie.
    pub(crate) fn plan(format: &Format) -> Result<Superblock, StoreError> {
        let grain = u64::from(format.grain_bytes);
        let is_grain = grain.is_power_of_two() && grain >= BLOCK_BYTES;
        if !is_grain || format.grain_bytes > GRAIN_BYTES_MAX {
            let limit = u64::from(GRAIN_BYTES_MAX);
            return Err(StoreError::Number { what: "bytes of a grain", wanted: grain, limit });
        }
        if !(1..=AREAS_MAX).contains(&format.areas_max) {
            let (wanted, limit) = (u64::from(format.areas_max), u64::from(AREAS_MAX));
            return Err(StoreError::Number { what: "areas at most", wanted, limit });
        }
        let table = u64::from(format.areas_max) * TABLE_BYTES_PER_AREA + TABLE_BYTES_MORE;
        let table_bytes = table.next_multiple_of(BLOCK_BYTES);
        let data_offset = (SUPERBLOCKS_BYTES + 2 * table_bytes).next_multiple_of(grain);
        let data_grains = format.device_bytes.saturating_sub(data_offset) / grain;
        if data_grains == 0 {
            let (wanted, limit) = (format.device_bytes, data_offset.saturating_add(grain));
            return Err(StoreError::Number { what: "bytes of the device", wanted, limit });
        }
        Ok(Superblock {
            format: FORMAT,
            identity: format.identity,
            bytes: data_offset + data_grains * grain,
            grain_bytes: format.grain_bytes,
            areas_max: format.areas_max,
            table_bytes,
            data_offset,
            data_grains,
            durable_by: None,
        })
    }

    /// Reads both superblocks, from the first bytes of a device. The steps make damaged copies good.
    ///
    /// # Errors
    /// No store, another one, a newer format, or a device that is too small for it.
    pub fn read(
        bytes: &[u8],
        device_bytes: u64,
        wanted: Option<Identity>,
    ) -> Result<(Superblock, Vec<Step>), StoreError> {
        let mut copies = bytes.chunks_exact(BLOCK_BYTES as usize).take(2);
        let [first, second] =
            [0, 1].map(|copy| copies.next().ok_or(BLANK).and_then(|it| Self::decode(it, copy)));
        let (superblock, damaged) = match (first, second) {
            (Ok(first), Ok(second)) if first == second => (first, None),
            // A crash in the middle of `keep`, which writes the first one first.
            (Ok(first), Ok(second))
                if first == Superblock { durable_by: first.durable_by, ..second } =>
            {
                (first, Some(1))
            }
            (Ok(_), Ok(_)) => return Err(StoreError::Damaged(Part::Superblock)),
            (Ok(first), Err(_)) => (first, Some(1)),
            // While a store is made the second is written first: that one alone is no store yet, but
            // whoever opened it in time would find it whole. So it is one.
            (Err(_), Ok(second)) => (second, Some(0)),
            (Err(first), Err(second)) => return Err(worst(first, second)),
        };
        if let Some(wanted) = wanted.filter(|wanted| *wanted != superblock.identity) {
            return Err(StoreError::WrongStore { wanted, found: superblock.identity });
        }
        if superblock.bytes > device_bytes {
            let (wanted, found) = (superblock.bytes, device_bytes);
            return Err(StoreError::Truncated { wanted, found });
        }
        let steps = damaged.map(|copy| [superblock.step(copy), Step::Flush]);
        Ok((superblock, steps.into_iter().flatten().collect()))
    }

    /// What it is like when it keeps how writes are made durable, and what writes it so. A store of format
    /// 1 has no place for that, and stays what it is: there are no steps then.
    #[must_use]
    pub fn keeping(&self, durable_by: DurableBy) -> (Superblock, Vec<Step>) {
        let kept = Superblock { durable_by: Some(durable_by), ..*self };
        if self.format < 2 || kept == *self {
            return (*self, Vec::new());
        }
        (kept, vec![kept.step(0), Step::Flush, kept.step(1), Step::Flush])
    }

    /// Where the copies of the table lie.
    pub fn tables(&self) -> [Piece; 2] {
        [0, 1].map(|copy| Piece {
            offset: SUPERBLOCKS_BYTES + copy * self.table_bytes,
            bytes: self.table_bytes,
        })
    }

    /// Where an extent lies on the device.
    pub fn piece(&self, extent: Extent) -> Piece {
        let grain = u64::from(self.grain_bytes);
        Piece { offset: self.data_offset + extent.first * grain, bytes: extent.grains * grain }
    }

    /// The step that writes a copy.
    pub(crate) fn step(&self, copy: u32) -> Step {
        Step::Write { offset: u64::from(copy) * BLOCK_BYTES, bytes: self.encode(copy) }
    }

    /// Whether it is what was planned, but for its format and what was measured since.
    fn is_as(&self, planned: &Superblock) -> bool {
        let Superblock { format, durable_by, .. } = *self;
        (1..=FORMAT).contains(&format) && *self == Superblock { format, durable_by, ..*planned }
    }

    fn encode(&self, copy: u32) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BLOCK_BYTES as usize);
        bytes.extend(MAGIC);
        bytes.extend(self.format.to_le_bytes());
        bytes.extend(copy.to_le_bytes());
        bytes.extend(self.identity.0);
        bytes.extend(self.bytes.to_le_bytes());
        bytes.extend(self.grain_bytes.to_le_bytes());
        bytes.extend(self.areas_max.to_le_bytes());
        for word in [self.table_bytes, self.data_offset, self.data_grains] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(self.durable_by.map_or(0, |by| by as u32).to_le_bytes());
        bytes.resize(HASHED_BYTES, 0);
        let hash = blake3::hash(&bytes);
        bytes.extend(hash.as_bytes());
        bytes
    }

    fn decode(bytes: &[u8], copy: u32) -> Result<Superblock, StoreError> {
        let mut fields = Fields(bytes);
        if fields.take(8)? != MAGIC {
            let is_blank = bytes.iter().all(|byte| *byte == 0);
            return Err(if is_blank { BLANK } else { StoreError::Foreign });
        }
        let format = fields.u32()?;
        let (hashed, hash) = bytes.split_at_checked(HASHED_BYTES).ok_or(BLANK)?;
        // Not in constant time: nothing here is secret.
        if blake3::hash(hashed).as_bytes()[..] != *hash {
            return Err(StoreError::Damaged(Part::Superblock));
        }
        // Every format has magic, format and hash in these places.
        if format > FORMAT {
            return Err(StoreError::Newer { found: format, known: FORMAT });
        }
        let found = (format, fields.u32()?);
        let identity = Identity(fields.identity()?);
        let bytes = fields.u64()?;
        let (grain_bytes, areas_max) = (fields.u32()?, fields.u32()?);
        let [table_bytes, data_offset, data_grains] = [fields.u64()?, fields.u64()?, fields.u64()?];
        let durable_by = fields.u32()?;
        let is_known =
            durable_by == 0 || (found.0 >= 2 && DurableBy::from_number(durable_by).is_some());
        let rest = HASHED_BYTES - 76;
        fields.zeroes(rest, "end of the superblock")?;
        let superblock = Superblock {
            format: found.0,
            identity,
            bytes,
            grain_bytes,
            areas_max,
            table_bytes,
            data_offset,
            data_grains,
            durable_by: DurableBy::from_number(durable_by),
        };
        // All other numbers follow from three of them.
        let format =
            Format { identity, device_bytes: bytes, grain_bytes, areas_max, is_zero: true };
        match Superblock::plan(&format) {
            Ok(planned) if superblock.is_as(&planned) && found.1 == copy && is_known => {
                Ok(superblock)
            }
            _ => Err(StoreError::Damaged(Part::Field("superblock"))),
        }
    }
}

const BLANK: StoreError = StoreError::Blank;

/// Which of two answers says most.
fn worst(first: StoreError, second: StoreError) -> StoreError {
    let weight = |error: &StoreError| match error {
        StoreError::Newer { .. } => 3,
        StoreError::Damaged(_) => 2,
        StoreError::Foreign => 1,
        _ => 0,
    };
    if weight(&second) > weight(&first) {
        second
    } else {
        first
    }
}
