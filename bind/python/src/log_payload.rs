//! What is appended: bytes that nobody changes, or a buffer that others may.

use std::ops::Deref;

use heliostat_stub_log::{Appended, Log, LogError, Position, Reservation};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::buffer::HeldBuffer;

/// Bytes that are copied at once from memory that others may change.
const COPY_BYTES: usize = 4096;

/// The payload of an entry. It is copied once, into the log's memory.
pub(crate) struct Payload {
    held: HeldBuffer,
    is_fixed: bool,
}

impl Payload {
    /// Of any contiguous buffer.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Payload> {
        let is_fixed = object.is_exact_instance_of::<PyBytes>();
        Ok(Payload { held: HeldBuffer::to_read(object)?, is_fixed })
    }

    pub(crate) fn append(&self, log: &Log) -> Result<Appended, LogError> {
        match self.is_fixed {
            true => log.append(self.bytes()),
            false => self.fill(log.reserve(self.held.len())?),
        }
    }

    pub(crate) fn append_sync(&self, log: &Log) -> Result<Position, LogError> {
        match self.is_fixed {
            true => log.append_sync(self.bytes()),
            // Past the thread: this one waits.
            false => self.fill(log.deref().reserve(self.held.len())?)?.wait(),
        }
    }

    /// What is copied is what counts: the checksum is the copy's.
    fn fill(&self, mut reservation: Reservation) -> Result<Appended, LogError> {
        let mut copy = [0; COPY_BYTES];
        for piece in self.bytes().chunks(COPY_BYTES) {
            let copy = &mut copy[..piece.len()];
            copy.copy_from_slice(piece);
            reservation.put(copy)?;
        }
        reservation.commit()
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: exported, so it stays where it is until `held` goes. A `bytes` object never changes;
        // of another buffer who writes it meanwhile races with a copy, by which nothing is decided.
        unsafe { self.held.as_slice() }
    }
}
