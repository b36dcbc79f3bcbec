//! A file, a disk or a namespace of an NVMe device, past the page cache where that is possible.
//!
//! ```text
//! begin -> waiting -reap-> one alone, and somebody waits: a system call of its own
//!                          else: io_uring, or threads -> completed
//!                          durable, by flush: written -> one flush for all that wait -> completed
//! ```
//!
//! A lone operation is made by one system call: a ring adds 10 to 20 us to a write of 80 us. `reap`
//! then waits for it as long as it takes, which may be longer than was said; [`Options::lone_calls`]
//! switches that off.
//!
//! Whether a durable write is one call (RWF_DSYNC) or a write and a flush is chosen by what
//! [`measure`](FileDevice::measure) finds on this file. Where a disk has no forced unit access the
//! kernel flushes after each durable write, and several that are under way share a flush.
//!
//! After a flush that failed, alone or as a part of a durable write, nothing is known of what had been
//! written before, and the kernel and the disk may say of the next flush that all is well. So the
//! device as a whole has failed then. A durable write that was refused before it wrote fails alone.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_backend_uring::{Allocation, Direction, Manner, NotPrepared};
use heliostat_base::mapping::SharedMapping;

use crate::namespace::Namespace;
use crate::{BeginError, BlockError, Buffer, Completion, Device, Geometry, Request};

mod driven;
mod driver;
mod errno;
mod facts;
mod lone;
mod measure;
mod new_file;
mod open;
mod operation;
mod shared;

pub use driven::{Driven, NoCommands};
use driver::Driver;
use errno::{EAGAIN, EBUSY, EDQUOT, EFAULT, EFBIG, EINVAL, EIO, ENOSPC, EOPNOTSUPP};
pub use measure::{Costs, Durability};
pub use new_file::NewFile;
pub use open::{OpenError, Options};
use operation::{is_refusal, judge, Operation, Zeroing};
pub use shared::{SharedFile, CLAIMS};

/// Bytes that are zeroed by one write.
const ZEROES_BYTES: usize = 1 << 20;
/// A wait that is long enough for a system call of its own.
const LONE_WAIT_MIN: Duration = Duration::from_millis(1);
/// How long a device that is dropped waits for what is under way.
const DROP_WAIT: Duration = Duration::from_secs(1);

/// Rights of a file that only its owner reads.
const OWNERS: u32 = 0o600;

/// A file or a disk.
pub struct FileDevice {
    file: Arc<OwnedFd>,
    geometry: Geometry,
    depth: usize,
    is_direct: bool,
    is_disk: bool,
    /// What is discarded is given back, and not zeroed instead.
    gives_back: bool,
    namespace: Option<Namespace>,
    driven: Driven,
    durability: Durability,
    lone_calls: bool,
    requests: Driver,
    /// What is under way, by place; the driver knows the place.
    operations: Vec<Option<Operation>>,
    free: Vec<usize>,
    /// Places that are not handed on yet, in order.
    waiting: Vec<usize>,
    /// Places of durable writes that are written, and wait for a flush.
    written: Vec<usize>,
    /// The same, which the flush under way covers.
    covered: Vec<usize>,
    /// What zeroes are written from.
    zeroes: Buffer,
    /// Why the device as a whole has failed.
    failed: Option<BlockError>,
    /// Of a namespace: its disk, which nobody else mounts meanwhile.
    _beside: Option<OwnedFd>,
}

/// The place of the flush that several durable writes share.
const SHARED_FLUSH: usize = usize::MAX;

impl FileDevice {
    /// Opens a file or a disk for one process at a time.
    ///
    /// # Errors
    /// It is not there, is in use, or is neither a file nor a disk; or there is no way to drive it.
    pub fn open(path: &Path, options: Options) -> Result<FileDevice, OpenError> {
        FileDevice::with(open::open(path, &options)?, options)
    }

    /// Opens a file or a disk that may be in use, to read and flush it: writes fail. What is read may
    /// be written meanwhile, and be new in part.
    ///
    /// # Errors
    /// As for `open`, but that it is in use.
    pub fn open_to_read(path: &Path, options: Options) -> Result<FileDevice, OpenError> {
        FileDevice::with(open::open_to_read(path, &options)?, options)
    }

    fn with(opened: open::Opened, options: Options) -> Result<FileDevice, OpenError> {
        let depth = options.depth.max(1);
        let file = Arc::new(opened.file);
        let requests = Driver::create(&file, opened.namespace, &options)?;
        Ok(FileDevice {
            file,
            geometry: opened.geometry,
            depth,
            is_direct: opened.is_direct,
            is_disk: opened.is_disk,
            gives_back: true,
            namespace: opened.namespace,
            driven: opened.driven,
            durability: options.durability.unwrap_or(opened.durability),
            lone_calls: options.lone_calls,
            requests,
            operations: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().collect(),
            waiting: Vec::with_capacity(depth),
            written: Vec::with_capacity(depth),
            covered: Vec::with_capacity(depth),
            zeroes: Buffer::new(ZEROES_BYTES).map_err(|_| OpenError::Memory)?,
            failed: None,
            _beside: opened.beside,
        })
    }

    /// Makes a file of so many zeroes, written one by one: a first write into what was only reserved
    /// takes a hundred times as long as a second. The file must not be there yet, and is when all of
    /// it is.
    ///
    /// # Errors
    /// It is there, or there is no room: nothing is left.
    pub fn create(path: &Path, bytes: u64) -> Result<(), OpenError> {
        // What lies in it is nobody's to read but by who opened it.
        NewFile::make(path, bytes, OWNERS)?.publish()
    }

    /// Sets how writes are made durable, from the next on.
    pub fn set_durability(&mut self, durability: Durability) {
        self.durability = durability;
    }

    /// Measures what each way of a durable write costs here: the median of `count` of each. Writes
    /// again what lies at `offset`, one sector or page, so nothing may be under way.
    ///
    /// # Errors
    /// The range is not the device's, something is under way, or a read or write failed.
    pub fn measure(&mut self, offset: u64, count: usize) -> Result<Costs, BlockError> {
        measure::measure(self, offset, count)
    }

    /// Has nothing given back to the device from now on: what is discarded is zeroed instead. The geometry says
    /// no more that it reads as zero, so that who divides a long one divides it as a zeroing.
    pub fn keep_discarded(&mut self) {
        (self.gives_back, self.geometry.discard_zeroes) = (false, false);
    }

    fn under_way(&self) -> usize {
        self.operations.len() - self.free.len()
    }

    /// Whether a write is to be followed by a flush that it shares, for it to be durable.
    fn flushes_after(&self, is_alone: bool) -> bool {
        match self.durability {
            Durability::Dsync => false,
            Durability::Flush => true,
            Durability::DsyncAlone => !is_alone,
        }
    }

    /// Gives what waits to the ring, as far as that has room.
    fn submit(&mut self) -> Result<(), BlockError> {
        // The lists keep their memory: beneath a program's own libc nothing is allocated here.
        let mut prepared = 0;
        while let Some(place) = self.waiting.get(prepared).copied() {
            if self.prepare(place).is_err() {
                break;
            }
            prepared += 1;
        }
        self.waiting.drain(..prepared);
        if self.covered.is_empty() && !self.written.is_empty() {
            let file = self.file.clone();
            if self.requests.flush(SHARED_FLUSH, &file).is_ok() {
                std::mem::swap(&mut self.covered, &mut self.written);
            }
        }
        self.requests.submit().or_else(later)
    }

    fn prepare(&mut self, place: usize) -> Result<(), NotPrepared> {
        let by_flush = self.flushes_after(self.under_way() == 1);
        let Some(Some(operation)) = self.operations.get_mut(place) else { return Ok(()) };
        let (file, requests) = (self.file.clone(), &mut self.requests);
        match &operation.request {
            Request::Read { offset, into } => {
                let what = (Direction::Read, *offset);
                requests.transfer(place, &file, what, into, Manner::Direct)
            }
            Request::Write { offset, from, durable } => {
                operation.needs_flush = *durable && by_flush;
                let manner = if *durable && !by_flush { Manner::Durable } else { Manner::Direct };
                requests.transfer(place, &file, (Direction::Write, *offset), from, manner)
            }
            Request::Flush => requests.flush(place, &file),
            Request::Discard { offset, bytes } => {
                requests.allocate(place, &file, (*offset, *bytes), Allocation::Discard)
            }
            Request::Zero { offset, bytes } if operation.zeroing != Zeroing::Writes => {
                let how = match operation.zeroing {
                    Zeroing::Hole => Allocation::Discard,
                    _ => Allocation::Zero,
                };
                requests.allocate(place, &file, (*offset, *bytes), how)
            }
            Request::Zero { offset, bytes } => {
                let (done, offset) = (operation.zeroed, offset + operation.zeroed);
                let zeroes = &self.zeroes;
                let len = zeroes.bytes.min(usize::try_from(bytes - done).unwrap_or(usize::MAX));
                let what = (Direction::Write, offset);
                requests.transfer(place, &file, what, &zeroes.part(0, len), Manner::Direct)
            }
        }
    }

    /// Takes what the ring has completed.
    fn collect(&mut self, completions: &mut Vec<Completion>) {
        while let Some((place, result)) = self.requests.reap() {
            if place == SHARED_FLUSH {
                let result = judge(result, 0);
                while let Some(place) = self.covered.pop() {
                    self.complete(place, result, completions);
                }
                continue;
            }
            if let Some(result) = self.go_on(place, result) {
                self.complete(place, result, completions);
            }
        }
    }

    /// What an operation has come to, or `None` if it goes on.
    fn go_on(&mut self, place: usize, result: i32) -> Option<Result<(), BlockError>> {
        let operation = self.operations.get_mut(place)?.as_mut()?;
        match &operation.request {
            Request::Read { into, .. } => Some(judge(result, into.bytes)),
            Request::Write { from, .. } => {
                let written = judge(result, from.bytes);
                if written.is_ok() && operation.needs_flush {
                    operation.is_written = true;
                    self.written.push(place);
                    return None;
                }
                Some(written)
            }
            Request::Flush | Request::Discard { .. } => Some(judge(result, 0)),
            Request::Zero { bytes, .. } => {
                let by_writes = operation.zeroing == Zeroing::Writes;
                if by_writes && result > 0 {
                    operation.zeroed += result as u64;
                }
                let next = match (operation.zeroing, -result) {
                    (Zeroing::Call, EOPNOTSUPP) => Zeroing::Writes,
                    (Zeroing::Writes, ENOSPC | EDQUOT) if !self.is_disk => Zeroing::Hole,
                    (Zeroing::Writes, ..=0) if operation.zeroed < *bytes => Zeroing::Writes,
                    _ => return Some(judge(result, 0)),
                };
                operation.zeroing = next;
                self.waiting.push(place);
                None
            }
        }
    }

    fn complete(
        &mut self,
        place: usize,
        result: Result<(), BlockError>,
        completions: &mut Vec<Completion>,
    ) {
        if let Some(operation) = self.operations.get_mut(place).and_then(Option::take) {
            let is_over = |error: &BlockError| match operation.request {
                Request::Write { durable, .. } => {
                    durable && (operation.is_written || !is_refusal(*error, self.is_direct))
                }
                ref request => matches!(request, Request::Flush),
            };
            self.failed = self.failed.or(result.err().filter(is_over));
            self.free.push(place);
            completions.push(Completion { token: operation.token, result });
        }
    }
}

impl Device for FileDevice {
    fn event(&mut self) -> Option<Arc<OwnedFd>> {
        self.requests.event().map(Arc::new)
    }

    fn forget(&mut self, memory: &Arc<SharedMapping>) {
        self.requests.forget(memory);
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn begin(&mut self, token: u64, request: Request) -> Result<(), BeginError> {
        self.geometry.check(&request)?;
        let full = BeginError::Full { depth: self.depth };
        let place = self.free.pop().ok_or(full)?;
        let request = match request {
            Request::Discard { offset, bytes } if !self.gives_back => {
                Request::Zero { offset, bytes }
            }
            request => request,
        };
        let zeroing = if self.is_disk { Zeroing::Call } else { Zeroing::Writes };
        let (needs_flush, is_written) = (false, false);
        let operation = Operation { token, request, needs_flush, is_written, zeroed: 0, zeroing };
        // `place` came from `free`, which holds places of `operations` only.
        self.operations[place] = Some(operation);
        self.waiting.push(place);
        Ok(())
    }

    fn reap(
        &mut self,
        wait: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> Result<(), BlockError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if self.call_lone(wait, completions) {
            return Ok(());
        }
        let (until, before) = (wait.map(|wait| Instant::now() + wait), completions.len());
        self.submit()?;
        loop {
            self.collect(completions);
            if wait.is_some_and(|wait| wait >= LONE_WAIT_MIN) {
                self.flush_written(completions);
            }
            // What goes on, by the next write or by a flush.
            self.submit()?;
            let Some(until) = until else { break };
            let left = until.saturating_duration_since(Instant::now());
            if completions.len() > before || self.under_way() == 0 || left.is_zero() {
                break;
            }
            self.requests.sleep(Some(left)).or_else(later)?;
        }
        Ok(())
    }
}

impl Drop for FileDevice {
    /// What is under way would otherwise be written under the next one who opens the file. If it
    /// does not end, the file stays locked as long as this process lives.
    fn drop(&mut self) {
        let (until, mut completions) = (Instant::now() + DROP_WAIT, Vec::new());
        self.waiting.clear();
        while self.requests.under_way() > 0 && Instant::now() < until {
            let _ = self.requests.sleep(Some(DROP_WAIT / 10));
            self.collect(&mut completions);
        }
    }
}

/// What is prepared and not taken by the kernel now is offered again.
fn later(error: io::Error) -> Result<(), BlockError> {
    match error.raw_os_error() {
        Some(EBUSY | EAGAIN) => Ok(()),
        errno => Err(BlockError::Device { errno: errno.unwrap_or(EIO) }),
    }
}

#[cfg(test)]
mod tests;
