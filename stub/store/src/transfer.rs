//! A device of an area and memory for it, by which operations are made that are waited for.

use std::time::Duration;

use heliostat_backend_block::{Completion, Device, Request};

use crate::buffer::AreaBuffer;
use crate::device::AreaIo;
use crate::StoreError;

/// Bytes that are moved at once.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;
/// How long one look for a completion waits; there are as many as it takes.
const WAIT: Duration = Duration::from_secs(1);

/// A device of the area, and memory for its operations: for one thread at a time.
pub(crate) struct Transfer {
    pub(crate) device: AreaIo,
    pub(crate) buffer: AreaBuffer,
}

impl Transfer {
    /// Begins an operation, which is the only one, and waits for it.
    pub(crate) fn perform(&mut self, request: Request) -> Result<(), StoreError> {
        let mut completions: Vec<Completion> = Vec::with_capacity(1);
        self.device.begin(0, request)?;
        while completions.is_empty() {
            self.device.reap(Some(WAIT), &mut completions)?;
        }
        completions.iter().try_for_each(|completion| completion.result)?;
        Ok(())
    }
}
