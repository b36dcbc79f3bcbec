//! One device and its completions: operations that are waited for, among others that are under way.
//!
//! Recovery and readers wait for one operation; the completions of others that come meanwhile are
//! kept for the driver.

use std::sync::Arc;
use std::time::Duration;

use heliostat_backend_block::{BeginError, BlockError, Buffer, Completion, Device, Request};
use heliostat_base::mapping::SharedMapping;

use crate::area::Layout;
use crate::error::LogError;

/// Of the one operation that is waited for here.
const WAITED: u64 = u64::MAX;
/// Bytes that one read brings.
pub(crate) const READ_BYTES: u64 = 64 << 10;
/// How long to wait before looking again; a device that takes longer is waited for again.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// A device, and what has completed of it.
pub(crate) struct Channel {
    device: Box<dyn Device>,
    layout: Layout,
    scratch: Arc<SharedMapping>,
    arrived: Vec<Completion>,
}

impl Channel {
    pub(crate) fn new(device: Box<dyn Device>, layout: Layout) -> Result<Channel, LogError> {
        let scratch =
            SharedMapping::for_descendants(READ_BYTES as usize).map_err(LogError::Memory)?;
        Ok(Channel { device, layout, scratch: Arc::new(scratch), arrived: Vec::new() })
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    pub(crate) fn depth(&self) -> usize {
        self.device.depth()
    }

    pub(crate) fn into_device(self) -> Box<dyn Device> {
        self.device
    }

    /// Begins an operation of the driver's. `Full` is an ordinary answer.
    pub(crate) fn begin(&mut self, token: u64, request: Request) -> Result<(), BeginError> {
        self.device.begin(token, request)
    }

    /// Takes what has completed; waits for the first where nothing has, and something is under way.
    pub(crate) fn reap(
        &mut self,
        wait: Option<Duration>,
        into: &mut Vec<Completion>,
    ) -> Result<(), BlockError> {
        if self.arrived.is_empty() {
            self.device.reap(wait, &mut self.arrived)?;
        }
        into.append(&mut self.arrived);
        Ok(())
    }

    /// Reads positions `start..end` onto the end of `bytes`; whole sectors are read, and only what
    /// was asked for is kept.
    pub(crate) fn read(
        &mut self,
        start: u64,
        end: u64,
        into: &mut Vec<u8>,
    ) -> Result<(), LogError> {
        for piece in self.layout.pieces(start, end, READ_BYTES) {
            let from = start.max(piece.position);
            let until = end.min(piece.position + piece.bytes);
            let buffer = self.buffer(piece.bytes);
            self.wait_for_read(piece.offset, buffer)?;
            let (before, skipped) = (into.len(), (from - piece.position) as usize);
            into.resize(before + (until - from) as usize, 0);
            // The scratch is as long as the longest piece.
            let _ = self.scratch.copy_out(skipped, &mut into[before..]);
        }
        Ok(())
    }

    /// Reads the sector at a device offset.
    pub(crate) fn read_sector(&mut self, offset: u64) -> Result<Vec<u8>, LogError> {
        let mut bytes = vec![0; self.layout.sector as usize];
        let buffer = self.buffer(self.layout.sector);
        self.wait_for_read(offset, buffer)?;
        let _ = self.scratch.copy_out(0, &mut bytes);
        Ok(bytes)
    }

    /// Writes bytes, padded to a sector with zeroes, so that they are durable.
    pub(crate) fn write_sector(&mut self, offset: u64, bytes: &[u8]) -> Result<(), LogError> {
        let _ = self.scratch.zero(0, self.layout.sector as usize);
        let _ = self.scratch.copy_in(0, bytes);
        let from = self.buffer(self.layout.sector);
        let request = Request::Write { offset, from, durable: true };
        self.wait_for(request)?.map_err(LogError::Failed)
    }

    /// Makes durable what has completed.
    pub(crate) fn flush(&mut self) -> Result<(), LogError> {
        self.wait_for(Request::Flush)?.map_err(LogError::Failed)
    }

    fn buffer(&self, bytes: u64) -> Buffer {
        Buffer { memory: self.scratch.clone(), at: 0, bytes: bytes as usize }
    }

    fn wait_for_read(&mut self, offset: u64, into: Buffer) -> Result<(), LogError> {
        let done = self.wait_for(Request::Read { offset, into })?;
        done.map_err(|error| LogError::Unreadable { offset, error })
    }

    /// Begins an operation and waits for its end.
    fn wait_for(&mut self, request: Request) -> Result<Result<(), BlockError>, LogError> {
        loop {
            match self.device.begin(WAITED, request.clone()) {
                Ok(()) => break,
                Err(BeginError::Full { .. }) => self.take_more()?,
                Err(error) => return Err(LogError::Refused(error)),
            }
        }
        loop {
            if let Some(at) = self.arrived.iter().position(|done| done.token == WAITED) {
                return Ok(self.arrived.swap_remove(at).result);
            }
            self.take_more()?;
        }
    }

    fn take_more(&mut self) -> Result<(), LogError> {
        self.device.reap(Some(PATIENCE), &mut self.arrived).map_err(LogError::Failed)
    }
}
