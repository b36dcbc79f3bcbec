//! Reads and writes that are waited for, of this process's own memory.

use std::sync::{MutexGuard, PoisonError};

use heliostat_backend_block::Request;

use crate::area::Area;
use crate::buffer::AreaBuffer;
use crate::transfer::{Transfer, CHUNK_BYTES};
use crate::StoreError;

impl Area {
    /// Reads bytes from an offset on; both are multiples of the sector, as of all that follows. Blocks;
    /// threads that use one area wait for each other.
    ///
    /// # Errors
    /// Beyond the end, no multiple, the handle does not allow it, or the device failed.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), StoreError> {
        let mut done = 0;
        self.transfer(|transfer| {
            for part in into.chunks_mut(CHUNK_BYTES) {
                let buffer = transfer.buffer.part(0, part.len());
                transfer.perform(Request::Read { offset: offset + done, into: buffer.clone() })?;
                part.copy_from_slice(&buffer.copy_out()?);
                done += part.len() as u64;
            }
            Ok(())
        })
    }

    /// Writes bytes to an offset. They last once a `flush` was begun after this and has ended.
    ///
    /// # Errors
    /// As `read`; some of the bytes may be written then.
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<(), StoreError> {
        self.write_so(offset, from, false)
    }

    /// Writes bytes that last when this returns.
    ///
    /// # Errors
    /// As `write`.
    pub fn write_durable(&self, offset: u64, from: &[u8]) -> Result<(), StoreError> {
        self.write_so(offset, from, true)
    }

    fn write_so(&self, offset: u64, from: &[u8], durable: bool) -> Result<(), StoreError> {
        let mut done = 0;
        self.transfer(|transfer| {
            for part in from.chunks(CHUNK_BYTES) {
                let from = transfer.buffer.part(0, part.len());
                from.copy_in(part)?;
                transfer.perform(Request::Write { offset: offset + done, from, durable })?;
                done += part.len() as u64;
            }
            Ok(())
        })
    }

    /// Makes last what was written before.
    ///
    /// # Errors
    /// The device failed, and then nothing is known of what was written since the last flush.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.transfer(|transfer| transfer.perform(Request::Flush))
    }

    /// Makes bytes read as zero.
    ///
    /// # Errors
    /// As `write`.
    pub fn zero(&self, offset: u64, bytes: u64) -> Result<(), StoreError> {
        self.transfer(|transfer| transfer.perform(Request::Zero { offset, bytes }))
    }

    /// Gives bytes back to the device for as long as they are not written; they read as zero.
    ///
    /// # Errors
    /// As `write`.
    pub fn discard(&self, offset: u64, bytes: u64) -> Result<(), StoreError> {
        self.transfer(|transfer| transfer.perform(Request::Discard { offset, bytes }))
    }

    fn transfer(
        &self,
        work: impl FnOnce(&mut Transfer) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut transfer: MutexGuard<'_, Option<Transfer>> =
            self.transfer.lock().unwrap_or_else(PoisonError::into_inner);
        let transfer = match &mut *transfer {
            Some(transfer) => transfer,
            none => none
                .insert(Transfer { device: self.device_of(1)?, buffer: self.buffer(CHUNK_BYTES)? }),
        };
        work(transfer)
    }

    /// Makes memory for operations that needs no copy on the way: by the emulated way a part of the
    /// window, else memory of this process.
    ///
    /// # Errors
    /// There is no memory, or no room in the window.
    pub fn buffer(&self, bytes: usize) -> Result<AreaBuffer, StoreError> {
        AreaBuffer::new(&self.opened, bytes)
    }
}
