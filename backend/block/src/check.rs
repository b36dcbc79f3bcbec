//! What every device asks of an operation before it begins it.

use heliostat_base::mapping::Access;

use crate::{BeginError, Buffer, Geometry, Request};

impl Geometry {
    /// Looks whether a device that is like this can be asked so.
    ///
    /// # Errors
    /// A range that is not the device's, or something that is not aligned.
    pub fn check(&self, request: &Request) -> Result<(), BeginError> {
        let Some((offset, bytes)) = request.range() else { return Ok(()) };
        let unit = self.sector_bytes;
        if offset % u64::from(unit) != 0 || bytes % u64::from(unit) != 0 {
            return Err(BeginError::Unaligned { unit });
        }
        if bytes == 0 || offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(BeginError::OutOfRange { offset, bytes, limit: self.bytes });
        }
        match request {
            Request::Read { into, .. } if into.memory.access() == Access::Read => {
                Err(BeginError::Buffer)
            }
            Request::Read { into: buffer, .. } | Request::Write { from: buffer, .. } => {
                self.check_buffer(buffer)
            }
            _ => Ok(()),
        }
    }

    fn check_buffer(&self, buffer: &Buffer) -> Result<(), BeginError> {
        let unit = self.memory_alignment;
        let start = buffer.memory.bytes_at(buffer.at, buffer.bytes);
        match start.map_err(|_| BeginError::Buffer)?.addr() % unit as usize {
            0 => Ok(()),
            _ => Err(BeginError::Unaligned { unit }),
        }
    }
}

impl Request {
    /// The bytes of the device that it is about, as offset and number; none of a flush.
    pub fn range(&self) -> Option<(u64, u64)> {
        match self {
            Request::Read { offset, into } => Some((*offset, into.bytes as u64)),
            Request::Write { offset, from, .. } => Some((*offset, from.bytes as u64)),
            Request::Flush => None,
            Request::Discard { offset, bytes } | Request::Zero { offset, bytes } => {
                Some((*offset, *bytes))
            }
        }
    }

    /// Whether it may change bytes of the device.
    pub fn changes(&self) -> bool {
        matches!(self, Request::Write { .. } | Request::Discard { .. } | Request::Zero { .. })
    }
}
