//! The delegated path: a window, and operations that the server loop carries out.
//!
//! ```text
//! window   0       word, or where a copy comes from
//!          4096    slot 0, slot 1, ... of CHUNK_BYTES each
//! ```
//!
//! One operation that is short goes by the call, asked and answered in one line. A long transfer goes
//! in chunks by the ring, so that the loop copies one while this side copies another.

use std::ops::Range;

use heliostat_abi::file::delegated::{Completion, OneRead, OpKind, Operation, Piece, Pieces};
use heliostat_abi::memory::operation::{CopySource, COPY_BYTES, WORD_BYTES};
use heliostat_abi::memory::{MemoryReply, MemoryRequest};
use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::SharedMapping;
use heliostat_ring::WaitError;
use heliostat_stub_link::{LinkError, ServerConnection};

use super::ask::Control;
use super::MemoryError;

/// What one turn of a loop moves: a chunk is done before another one of the same session goes on.
const CHUNK_BYTES: usize = 16 * 1024;
/// Chunks that may be under way.
const SLOTS: usize = 16;
const SLOTS_AT: usize = 4096;
const WINDOW_BYTES: usize = SLOTS_AT + SLOTS * CHUNK_BYTES;

/// This process's session with a loop. One operation at a time.
pub(crate) struct Delegated {
    server: ServerConnection,
    window: SharedMapping,
}

/// Why an operation did not end as it should.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The loop said so.
    Errno(i32),
    /// The session is over; the operation may have been done or not.
    Gone,
    /// The loop broke the protocol.
    Link(LinkError),
}

/// What a transfer moves.
pub(crate) enum Bytes<'a> {
    /// From the region into these.
    Into(&'a mut [u8]),
    /// From these into the region.
    From(&'a [u8]),
}

impl Delegated {
    /// Asks the control plane to have a loop serve a window.
    pub(crate) fn begin(control: &Control) -> Result<Self, MemoryError> {
        let made = SharedMapping::create(c"heliostat-memory-window", WINDOW_BYTES);
        let (fd, window) = made.map_err(MemoryError::Mapping)?;
        let shown = [std::os::fd::AsRawFd::as_raw_fd(&fd)];
        let (reply, fds) = control.ask(&MemoryRequest::Session, &shown)?;
        let (MemoryReply::Session { .. }, [rings]) = (reply, fds.as_slice()) else {
            return Err(MemoryError::Corrupt);
        };
        Ok(Self { server: ServerConnection::attach(control.standing(), rings)?, window })
    }

    /// Moves bytes between a region and this process's memory.
    pub(crate) fn transfer(
        &mut self,
        handle: ObjectId,
        offset: u64,
        mut bytes: Bytes<'_>,
    ) -> Result<(), Failure> {
        if bytes.len() > CHUNK_BYTES {
            return self.stream(handle, offset, bytes);
        }
        let all = 0..bytes.len();
        bytes.put(&self.window, 0, &all)?;
        let done = match self.call_read(handle, offset, &bytes)? {
            Some(done) => done,
            None => {
                self.perform(&operation(bytes.kind(), handle, offset, 0, &[slot(0, all.len())]))?
            }
        };
        if done != all.len() as u64 {
            return Err(Failure::Link(LinkError::Corrupt));
        }
        bytes.take(&self.window, 0, &all)
    }

    /// Sets bytes by the argument of `set_argument`.
    pub(crate) fn set(
        &mut self,
        handle: ObjectId,
        offset: u64,
        argument: u64,
    ) -> Result<(), Failure> {
        self.perform(&operation(OpKind::Set, handle, offset, argument, &[])).map(drop)
    }

    /// Copies bytes to a place in the region of a handle.
    pub(crate) fn copy(
        &mut self,
        source: &CopySource,
        handle: ObjectId,
        offset: u64,
    ) -> Result<(), Failure> {
        self.window.copy_in(0, &source.encode()).map_err(outside)?;
        let place = [Piece { offset: 0, bytes: COPY_BYTES as u32 }];
        self.perform(&operation(OpKind::Copy, handle, offset, 0, &place)).map(drop)
    }

    /// Changes a word; returns what it was.
    pub(crate) fn change_word(
        &mut self,
        kind: OpKind,
        (handle, offset): (ObjectId, u64),
        argument: u64,
        expected: u64,
    ) -> Result<u64, Failure> {
        self.window.copy_in(0, &expected.to_le_bytes()).map_err(outside)?;
        let place = [Piece { offset: 0, bytes: WORD_BYTES as u32 }];
        self.perform(&operation(kind, handle, offset, argument, &place))?;
        let mut word = [0; WORD_BYTES];
        self.window.copy_out(0, &mut word).map_err(outside)?;
        Ok(u64::from_le_bytes(word))
    }

    /// The shortest way, for a read that the loop answers at once; `None` where it does not lead there.
    fn call_read(
        &mut self,
        object: ObjectId,
        offset: u64,
        bytes: &Bytes<'_>,
    ) -> Result<Option<u64>, Failure> {
        if !matches!(bytes, Bytes::Into(_)) || !self.server.may_call() {
            return Ok(None);
        }
        let read = OneRead { object, offset, tag: 0, piece: slot(0, bytes.len()) };
        self.server.call(&read).map_err(gone)?.map(result_of).transpose()
    }

    /// Has an operation done and waits for its end, by the call where that is answered soon.
    fn perform(&mut self, asked: &Operation) -> Result<u64, Failure> {
        if self.server.may_call() {
            if let Some(result) = self.server.call_operation(asked).map_err(gone)? {
                return result_of(result);
            }
        }
        self.push(asked)?;
        self.server.ring();
        result_of(self.wait(1)?.result)
    }

    /// Moves many chunks. After the first error no more are begun, and those under way are waited for:
    /// their slots are the loop's until then.
    fn stream(
        &mut self,
        handle: ObjectId,
        offset: u64,
        mut bytes: Bytes<'_>,
    ) -> Result<(), Failure> {
        let mut slots: [Option<Range<usize>>; SLOTS] = Default::default();
        let (mut begun, mut under_way, mut failed) = (0, 0, None);
        loop {
            for (number, place) in slots.iter_mut().enumerate().filter(|(_, it)| it.is_none()) {
                if failed.is_some() || begun == bytes.len() {
                    break;
                }
                let chunk = begun..bytes.len().min(begun + CHUNK_BYTES);
                bytes.put(&self.window, number, &chunk)?;
                let pieces = [slot(number, chunk.len())];
                let at = offset.saturating_add(begun as u64);
                let asked = operation(bytes.kind(), handle, at, 0, &pieces);
                self.push(&Operation { tag: number as u64, ..asked })?;
                begun = chunk.end;
                under_way += 1;
                *place = Some(chunk);
            }
            if under_way == 0 {
                return failed.map_or(Ok(()), Err);
            }
            self.server.ring();
            let Completion { tag, result, .. } = self.wait(under_way)?;
            let ended = slots.get_mut(tag as usize).and_then(Option::take);
            let chunk = ended.ok_or(Failure::Link(LinkError::Corrupt))?;
            under_way -= 1;
            match result_of(result) {
                Ok(done) if done == chunk.len() as u64 => {
                    bytes.take(&self.window, tag as usize, &chunk)?;
                }
                Ok(_) => return Err(Failure::Link(LinkError::Corrupt)),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
    }

    fn push(&mut self, asked: &Operation) -> Result<(), Failure> {
        // There is room: no more are under way than there are slots.
        match self.server.push(asked).map_err(Failure::Link)? {
            true => Ok(()),
            false => Err(Failure::Link(LinkError::Corrupt)),
        }
    }

    fn wait(&mut self, under_way: usize) -> Result<Completion, Failure> {
        if let Some(found) = self.server.look().map_err(Failure::Link)? {
            return Ok(found);
        }
        self.server.wait(None, under_way).map_err(gone)?;
        self.server.pop().map_err(Failure::Link)?.ok_or(Failure::Link(LinkError::Corrupt))
    }
}

impl Bytes<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Into(bytes) => bytes.len(),
            Self::From(bytes) => bytes.len(),
        }
    }

    fn kind(&self) -> OpKind {
        match self {
            Self::Into(_) => OpKind::Read,
            Self::From(_) => OpKind::Write,
        }
    }

    /// Before a chunk is under way.
    fn put(
        &self,
        window: &SharedMapping,
        slot: usize,
        chunk: &Range<usize>,
    ) -> Result<(), Failure> {
        match self {
            Self::From(bytes) => window.copy_in(slot_at(slot), &bytes[chunk.clone()]),
            Self::Into(_) => Ok(()),
        }
        .map_err(outside)
    }

    /// After it has ended.
    fn take(
        &mut self,
        window: &SharedMapping,
        slot: usize,
        chunk: &Range<usize>,
    ) -> Result<(), Failure> {
        match self {
            Self::Into(bytes) => window.copy_out(slot_at(slot), &mut bytes[chunk.clone()]),
            Self::From(_) => Ok(()),
        }
        .map_err(outside)
    }
}

fn operation(
    kind: OpKind,
    object: ObjectId,
    offset: u64,
    argument: u64,
    pieces: &[Piece],
) -> Operation {
    let pieces = Pieces::new(pieces).unwrap_or_default();
    Operation { kind, object, offset, tag: 0, timeout_us: 0, argument, pieces }
}

fn slot(number: usize, len: usize) -> Piece {
    Piece { offset: slot_at(number) as u64, bytes: len as u32 }
}

fn slot_at(number: usize) -> usize {
    SLOTS_AT + number * CHUNK_BYTES
}

fn result_of(result: i64) -> Result<u64, Failure> {
    u64::try_from(result).map_err(|_| Failure::Errno(result.unsigned_abs() as i32))
}

fn gone(_: WaitError) -> Failure {
    Failure::Gone
}

/// Every place above lies in the window.
fn outside(_: heliostat_base::mapping::OutOfRange) -> Failure {
    Failure::Link(LinkError::Corrupt)
}
