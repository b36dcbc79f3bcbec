//! Numbers and bytes of a record, little-endian, one after the other.

use crate::error::{Part, StoreError};

/// What is left of foreign bytes.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn take(&mut self, bytes: usize) -> Result<&'a [u8], StoreError> {
        let short = StoreError::Damaged(Part::Field("length"));
        let (taken, left) = self.0.split_at_checked(bytes).ok_or(short)?;
        self.0 = left;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| StoreError::Damaged(Part::Field("length")))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, StoreError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, StoreError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, StoreError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn identity(&mut self) -> Result<[u8; 16], StoreError> {
        self.array()
    }

    /// Bytes that are kept for later formats.
    pub(crate) fn zeroes(&mut self, bytes: usize, field: &'static str) -> Result<(), StoreError> {
        let is_zero = self.take(bytes)?.iter().all(|byte| *byte == 0);
        if is_zero {
            Ok(())
        } else {
            Err(StoreError::Damaged(Part::Field(field)))
        }
    }
}
