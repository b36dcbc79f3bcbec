//! Bytes of a region where they lie in this process, for programs that reach them by themselves.
//!
//! Only the direct path has such a place, and only for bytes that one piece holds. The handle is kept as
//! long as the place is: the bytes of a region that is gone go to another region of the same user once
//! every handle on it is given back, and who still wrote here would write there.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use heliostat_abi::memory::Rights;
use heliostat_base::mapping::SharedMapping;
use heliostat_ring::presence::Stay;

use super::{MemoryError, Region};

/// Bytes that stay mapped, and the region's, as long as this and the session live. Others may change
/// them at any time, so no reference is made of them.
pub struct MappedBytes {
    // Keeps the handle, which `Region::free` cannot take meanwhile.
    region: Arc<Region>,
    mapping: Arc<SharedMapping>,
    at: usize,
    bytes: usize,
    /// It stays where it is.
    _stay: Stay,
}

impl Region {
    /// Returns where bytes of the region lie in this process; `None` where the path is delegated or the
    /// bytes lie in several pieces. Nothing tells later that the region is gone: what is read and
    /// written then is what nobody else has. As long as this is there the region cannot be moved.
    ///
    /// # Errors
    /// As `read`.
    pub fn mapped(
        self: &Arc<Self>,
        offset: u64,
        bytes: u64,
    ) -> Result<Option<MappedBytes>, MemoryError> {
        let found = self.wherever(|place| {
            let Some(direct) = &place.direct else { return Ok(None) };
            self.act(direct, Rights::READ, (offset, bytes), |area| {
                let found = area.in_one(offset, bytes)?;
                Ok(found.map(|(mapping, at)| (mapping.clone(), at, direct.stay())))
            })
        })?;
        let (region, bytes) = (self.clone(), bytes as usize);
        Ok(found.map(|(mapping, at, _stay)| MappedBytes { region, mapping, at, bytes, _stay }))
    }

    /// Whether memory of this process, given by its addresses, is in part the region's own as it is
    /// mapped for its operations. Their copies take memory that is not.
    pub fn meets(&self, memory: &Range<usize>) -> bool {
        let place = self.place();
        let Some(direct) = &place.direct else { return false };
        // Of a region that is gone the operation itself will say so.
        direct.with(self.shared(), |area| area.meets(memory)).unwrap_or(false)
    }
}

impl MappedBytes {
    /// Returns the address of the first byte.
    pub fn as_ptr(&self) -> *mut u8 {
        // In its mapping, as the area has seen.
        self.mapping.bytes_at(self.at, self.bytes).unwrap_or(std::ptr::null_mut())
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Whether the handle allows to write them. The mapping allows it in any case.
    pub fn is_writable(&self) -> bool {
        self.region.rights.have(Rights::WRITE)
    }
}

impl fmt::Debug for MappedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of region {} at {:?}", self.bytes, self.region.id(), self.as_ptr())
    }
}
