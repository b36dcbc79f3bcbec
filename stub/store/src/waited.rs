//! Reads and writes that are waited for, of this process's own memory.

use std::sync::{MutexGuard, PoisonError};

use heliostat_backend_block::{BeginError, Request};

use crate::area::Area;
use crate::buffer::AreaBuffer;
use crate::transfer::{Transfer, CHUNK_BYTES};
use crate::StoreError;

/// Some whole sectors, and which of the bytes that are asked for lie in them.
struct Part {
    /// First byte in the area.
    first: u64,
    /// How many are moved.
    bytes: usize,
    /// How many of them come before those that are asked for.
    skip: usize,
    /// How many of those came in the parts before.
    done: usize,
    /// How many are in this one.
    count: usize,
}

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
        self.opened.check_writes()?;
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

    /// Reads bytes from any offset on, by the whole sectors that they lie in.
    ///
    /// # Errors
    /// As `read`.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), StoreError> {
        let span = self.span(offset, into.len())?;
        self.transfer(|transfer| {
            for Part { first, bytes, skip, done, count } in span {
                let buffer = transfer.buffer.part(0, bytes);
                transfer.perform(Request::Read { offset: first, into: buffer.clone() })?;
                let found = buffer.copy_out()?;
                into[done..done + count].copy_from_slice(&found[skip..skip + count]);
            }
            Ok(())
        })
    }

    /// Writes bytes to any offset. What else lies in the first and the last sector is read before and
    /// written again: others who write there meanwhile by another handle may be undone.
    ///
    /// # Errors
    /// As `write`, and those of `read`.
    pub fn write_at(&self, offset: u64, from: &[u8]) -> Result<(), StoreError> {
        self.opened.check_writes()?;
        let span = self.span(offset, from.len())?;
        self.transfer(|transfer| {
            for Part { first, bytes, skip, done, count } in span {
                let buffer = transfer.buffer.part(0, bytes);
                if count < bytes {
                    transfer.perform(Request::Read { offset: first, into: buffer.clone() })?;
                }
                buffer.part(skip, count).copy_in(&from[done..done + count])?;
                let write = Request::Write { offset: first, from: buffer, durable: false };
                transfer.perform(write)?;
            }
            Ok(())
        })
    }

    /// The whole sectors around some bytes, a chunk at a time.
    fn span(&self, offset: u64, len: usize) -> Result<Vec<Part>, StoreError> {
        let (limit, bytes) = (self.bytes(), len as u64);
        let beyond = BeginError::OutOfRange { offset, bytes, limit };
        let end = offset.checked_add(bytes).filter(|end| *end <= limit).ok_or(beyond)?;
        let sector = u64::from(self.sector_bytes());
        let (mut at, mut parts) = (offset, Vec::new());
        while at < end {
            let first = at - at % sector;
            let whole = (end.next_multiple_of(sector) - first).min(CHUNK_BYTES as u64);
            let count = (first + whole).min(end) - at;
            parts.push(Part {
                first,
                bytes: whole as usize,
                skip: (at - first) as usize,
                done: (at - offset) as usize,
                count: count as usize,
            });
            at += count;
        }
        Ok(parts)
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
        let mut kept: MutexGuard<'_, Option<Transfer>> =
            self.transfer.lock().unwrap_or_else(PoisonError::into_inner);
        let transfer = match &mut *kept {
            Some(transfer) => transfer,
            none => none
                .insert(Transfer { device: self.device_of(1)?, buffer: self.buffer(CHUNK_BYTES)? }),
        };
        let result = work(transfer);
        if matches!(result, Err(StoreError::Gone | StoreError::Device(_))) {
            // A device that has failed keeps what it had under way, and has no room for more.
            *kept = None;
        }
        result
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
