//! Memory for operations on an area that needs no copy on its way.

use std::ops::Deref;
use std::sync::Arc;

use heliostat_backend_block::{BlockError, Buffer};

use crate::link::Link;
use crate::opened::Opened;
use crate::pages::PageRun;
use crate::StoreError;

/// Memory for operations on an area. Dropped meanwhile, it is nobody else's before they have completed.
pub struct AreaBuffer {
    buffer: Buffer,
    place: Option<(Arc<Link>, PageRun)>,
}

impl Deref for AreaBuffer {
    type Target = Buffer;

    fn deref(&self) -> &Buffer {
        &self.buffer
    }
}

impl Drop for AreaBuffer {
    fn drop(&mut self) {
        if let Some((link, run)) = self.place.take() {
            link.give_back(run);
        }
    }
}

impl AreaBuffer {
    /// The same for one operation: where the window has no room now it is memory of this process, whose
    /// bytes are copied when there is some.
    pub(crate) fn for_now(opened: &Opened, bytes: usize) -> Result<AreaBuffer, StoreError> {
        match AreaBuffer::new(opened, bytes) {
            Err(StoreError::Device(_)) => {
                Ok(AreaBuffer { buffer: Buffer::new(bytes)?, place: None })
            }
            made => made,
        }
    }

    /// Whether it is a part of the window, which others wait for.
    pub(crate) fn is_shared(&self) -> bool {
        self.place.is_some()
    }

    /// By the emulated way a part of the window, else memory of this process.
    pub(crate) fn new(opened: &Opened, bytes: usize) -> Result<AreaBuffer, StoreError> {
        if opened.device.is_some() {
            return Ok(AreaBuffer { buffer: Buffer::new(bytes)?, place: None });
        }
        let link = opened.shared.link()?;
        let run = link.take(bytes).ok_or(BlockError::Device { errno: libc::ENOMEM })?;
        let buffer = Buffer { memory: link.window.clone(), at: run.at(), bytes };
        Ok(AreaBuffer { buffer, place: Some((link, run)) })
    }
}
