//! A version as a consumer has it: pinned, and read where it lies.

use heliostat_abi::snapshot::memory::CHUNK_BYTES;
use heliostat_base::mapping::{MappingError, OutOfRange};
use heliostat_ring::pins::{self, PinError};

use super::consumer::Attachment;

/// Why a version could not be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttachError {
    /// It cannot be pinned.
    Pin(PinError),
    /// Its table names colours that do not exist: the producer is at fault.
    Corrupt,
    /// It could not be mapped contiguously.
    Memory(MappingError),
}

impl std::fmt::Display for AttachError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pin(error) => error.fmt(f),
            Self::Corrupt => f.write_str("the producer's table of colours is nonsense"),
            Self::Memory(error) => error.fmt(f),
        }
    }
}
impl std::error::Error for AttachError {}

/// A pinned version: it does not change while this lives, nor is its memory used for another.
pub struct Version {
    pub(super) region: Attachment,
    pub(super) slot: usize,
    pub(super) number: u64,
    pub(super) published_ns: u64,
    pub(super) dirty_bytes: u64,
    pub(super) copied_bytes: u64,
    pub(super) colours: Vec<u8>,
}

impl Version {
    /// Its number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// When it was published, by the monotonic clock.
    pub fn published_ns(&self) -> u64 {
        self.published_ns
    }

    /// Bytes written since the version before, and bytes copied for it, as the producer says.
    pub fn cost(&self) -> (u64, u64) {
        (self.dirty_bytes, self.copied_bytes)
    }

    /// Bytes of the region.
    pub fn len(&self) -> usize {
        self.region.shape().length as usize
    }

    /// False: a region has at least one byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes out, from `offset` of the region.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), OutOfRange> {
        OutOfRange::check(offset, into.len(), self.len())?;
        let shape = self.region.shape();
        let (mut at, mut rest) = (shape.first as usize + offset, into);
        while !rest.is_empty() {
            let (chunk, inside) = (at / CHUNK_BYTES, at % CHUNK_BYTES);
            let (part, after) = rest.split_at_mut(rest.len().min(CHUNK_BYTES - inside));
            let slot = shape.slot(self.colours[chunk] as usize, chunk);
            self.region.0.pool.copy_out(slot + inside, part)?;
            at += part.len();
            rest = after;
        }
        Ok(())
    }
}

impl Attachment {
    /// The newest version.
    pub fn latest(&self) -> Result<Version, AttachError> {
        let pinned = pins::pin_latest(&self.0.table, &self.0.pins);
        self.version(pinned.map_err(AttachError::Pin)?)
    }

    /// Version `number`, while it is alive.
    pub fn numbered(&self, number: u64) -> Result<Version, AttachError> {
        let pinned = pins::pin_number(&self.0.table, &self.0.pins, number);
        self.version(pinned.map_err(AttachError::Pin)?)
    }

    fn version(&self, (slot, place, number): pins::Pinned) -> Result<Version, AttachError> {
        let [published_ns, dirty_bytes, copied_bytes] = self.0.table.facts(place);
        let mut version = Version {
            region: self.clone(),
            slot,
            number,
            published_ns,
            dirty_bytes,
            copied_bytes,
            colours: Vec::new(),
        };
        // From here on the version's own drop takes the pin back.
        version.colours = self.0.table.colours(place).ok_or(AttachError::Corrupt)?;
        Ok(version)
    }
}

impl Drop for Version {
    fn drop(&mut self) {
        pins::unpin(&self.region.0.pins, self.slot);
    }
}
