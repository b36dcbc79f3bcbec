//! What operations do to regions, for sessions with a window and for other nodes with bytes.
//!
//! *Warm*: nothing is allocated, and a part is as large as the turn allows. An error may leave what
//! lies before it done.

use std::ops::Range;

use heliostat_abi::file::delegated::{OpKind, Operation, Pieces};
use heliostat_abi::memory::operation::{CopySource, COPY_BYTES, WORD_BYTES};
use heliostat_abi::memory::Rights;
use heliostat_base::mapping::{OutOfRange, SharedMapping};
use heliostat_server_loop::Area;

use super::held::Refusal;

/// Who looks handles up.
pub trait Find {
    /// What a handle is called.
    type Handle: Copy;

    /// Finds where the region of a handle lies, if it may be used so.
    fn find(&self, handle: Self::Handle, wanted: Rights) -> Result<&Area, Refusal>;
}

/// The bytes of a transfer on the other side of the region.
pub trait Payload {
    /// Copies the bytes of this range of the transfer, which begins at `offset` in the area, out of it.
    fn read(
        &mut self,
        from: &Area,
        offset: u64,
        range: Range<u64>,
        whole: u64,
    ) -> Result<(), Refusal>;

    /// Copies them into it.
    fn write(
        &mut self,
        into: &Area,
        offset: u64,
        range: Range<u64>,
        whole: u64,
    ) -> Result<(), Refusal>;
}

/// Which way a transfer goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Out of the region.
    Read,
    /// Into it.
    Write,
}

/// How a word changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// So much is added.
    Add(u64),
    /// The second is stored if it was the first.
    CompareSwap(u64, u64),
    /// That is stored.
    Swap(u64),
}

impl Change {
    /// What an operation that found this ends with: 8, or 0 where nothing was changed.
    pub const fn result(self, old: u64) -> u64 {
        match self {
            Self::CompareSwap(expected, _) if expected != old => 0,
            _ => WORD_BYTES as u64,
        }
    }
}

/// Operations on what `handles` finds.
pub struct Work<'a, F: Find> {
    pub handles: &'a F,
}

impl<F: Find> Work<'_, F> {
    /// Moves the bytes of a range of a transfer of `whole` bytes; returns how many.
    pub fn transfer(
        &self,
        way: Way,
        (handle, offset): (F::Handle, u64),
        (range, whole): (Range<u64>, u64),
        payload: &mut impl Payload,
    ) -> Result<u64, Refusal> {
        let wanted = if way == Way::Read { Rights::READ } else { Rights::WRITE };
        let area = self.handles.find(handle, wanted)?;
        area.check(offset, whole).map_err(beyond)?;
        let moved = range.end.saturating_sub(range.start);
        match way {
            Way::Read => payload.read(area, offset, range, whole)?,
            Way::Write => payload.write(area, offset, range, whole)?,
        }
        Ok(moved)
    }

    /// Sets the bytes of a range of a Set of `whole` bytes; returns how many.
    pub fn set(
        &self,
        (handle, offset): (F::Handle, u64),
        (range, whole): (Range<u64>, u64),
        value: u8,
    ) -> Result<u64, Refusal> {
        let area = self.handles.find(handle, Rights::WRITE)?;
        area.check(offset, whole).map_err(beyond)?;
        let bytes = range.end.saturating_sub(range.start);
        area.set(offset + range.start, bytes, value).map_err(beyond)?;
        Ok(bytes)
    }

    /// Copies the next bytes, `most` or some less, of `whole` of which so many are done, from a region
    /// to a place in one; returns how many.
    pub fn copy(
        &self,
        (source, offset): (F::Handle, u64),
        (handle, at): (F::Handle, u64),
        (whole, done): (u64, u64),
        most: u64,
    ) -> Result<u64, Refusal> {
        let from = self.handles.find(source, Rights::READ)?;
        let into = self.handles.find(handle, Rights::WRITE)?;
        from.check(offset, whole).map_err(beyond)?;
        into.check(at, whole).map_err(beyond)?;
        let mut now = 0;
        while now < most && done + now < whole {
            let copied = from.copy_some(offset, (into, at), (whole, done + now), most - now);
            now += copied.map_err(beyond)?;
        }
        Ok(now)
    }

    /// Changes a word in one step; returns what it was.
    pub fn change_word(
        &self,
        (handle, offset): (F::Handle, u64),
        change: Change,
    ) -> Result<u64, Refusal> {
        let area = self.handles.find(handle, Rights::ATOMIC)?;
        area.check(offset, WORD_BYTES as u64).map_err(beyond)?;
        if offset % WORD_BYTES as u64 != 0 {
            return Err(Refusal::Errno(libc::EINVAL));
        }
        let old = match change {
            Change::Add(more) => area.fetch_add(offset, more),
            Change::CompareSwap(expected, new) => area.compare_swap(offset, expected, new),
            Change::Swap(new) => area.swap(offset, new),
        };
        old.map_err(beyond)
    }
}

/// Pieces of a session's window.
pub struct WindowPieces<'a> {
    pub window: &'a SharedMapping,
    pub pieces: Pieces,
}

impl WindowPieces<'_> {
    fn each(
        &self,
        range: Range<u64>,
        act: impl Fn(u64, (&SharedMapping, u64), u64) -> Result<(), OutOfRange>,
    ) -> Result<(), Refusal> {
        let mut done = range.start;
        while done < range.end {
            let Some(piece) = self.pieces.at(done) else { break };
            let bytes = u64::from(piece.bytes).min(range.end - done);
            act(done, (self.window, piece.offset), bytes).map_err(outside)?;
            done += bytes;
        }
        Ok(())
    }

    /// Copies bytes of the transfer out of the window, those from `at` on.
    pub fn take(&self, at: u64, into: &mut [u8]) -> Result<(), Refusal> {
        let mut done = 0;
        while done < into.len() {
            let piece = self.pieces.at(at + done as u64).ok_or(Refusal::Errno(libc::EFAULT))?;
            let end = into.len().min(done + piece.bytes as usize);
            let part = &mut into[done..end];
            self.window.copy_out(piece.offset as usize, part).map_err(outside)?;
            done = end;
        }
        Ok(())
    }

    /// Copies bytes of the transfer into the window, those from `at` on.
    pub fn put(&self, at: u64, from: &[u8]) -> Result<(), Refusal> {
        let mut done = 0;
        while done < from.len() {
            let piece = self.pieces.at(at + done as u64).ok_or(Refusal::Errno(libc::EFAULT))?;
            let end = from.len().min(done + piece.bytes as usize);
            self.window.copy_in(piece.offset as usize, &from[done..end]).map_err(outside)?;
            done = end;
        }
        Ok(())
    }

    /// Reads where a copy comes from, once.
    pub fn copy_source(&self) -> Result<CopySource, Refusal> {
        let mut bytes = [0; COPY_BYTES];
        self.take(0, &mut bytes)?;
        CopySource::decode(&bytes).ok_or(Refusal::Errno(libc::ERANGE))
    }

    /// How a word is to be changed; what is expected is read from the window, once.
    pub fn change_of(&self, asked: &Operation) -> Result<Change, Refusal> {
        Ok(match asked.kind {
            OpKind::FetchAdd => Change::Add(asked.argument),
            OpKind::Swap => Change::Swap(asked.argument),
            _ => {
                let mut expected = [0; WORD_BYTES];
                self.take(0, &mut expected)?;
                Change::CompareSwap(u64::from_le_bytes(expected), asked.argument)
            }
        })
    }

    /// Tells a session what a word was; returns the operation's result.
    pub fn answer_word(&self, change: Change, old: u64) -> Result<u64, Refusal> {
        self.put(0, &old.to_le_bytes())?;
        Ok(change.result(old))
    }
}

impl Payload for WindowPieces<'_> {
    fn read(
        &mut self,
        from: &Area,
        offset: u64,
        range: Range<u64>,
        whole: u64,
    ) -> Result<(), Refusal> {
        self.each(range, |at, place, bytes| from.read_to(offset + at, place, bytes, whole))
    }

    fn write(
        &mut self,
        into: &Area,
        offset: u64,
        range: Range<u64>,
        whole: u64,
    ) -> Result<(), Refusal> {
        self.each(range, |at, place, bytes| into.write_from(offset + at, place, bytes, whole))
    }
}

/// What is asked for does not lie in the region.
pub fn beyond(_: OutOfRange) -> Refusal {
    Refusal::Errno(libc::ERANGE)
}

/// A piece does not lie in the window. The record was checked for that; its mapping has the last word.
fn outside(_: OutOfRange) -> Refusal {
    Refusal::Errno(libc::EFAULT)
}
