//! What operations do to regions and the window, a turn's part at a time.
//!
//! *Warm*: nothing is allocated, and a part is as large as the turn allows. An error may leave what
//! lies before it done.

use heliostat_abi::file::delegated::{OpKind, Operation};
use heliostat_abi::memory::operation::{set_of, CopySource, COPY_BYTES, WORD_BYTES};
use heliostat_abi::memory::Rights;
use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::{OutOfRange, SharedMapping};
use heliostat_server_loop::{Area, RegionPage};

use super::handles::{Handles, Refusal};

/// What an operation works with in one turn.
pub struct Work<'a> {
    pub handles: &'a Handles,
    pub page: &'a RegionPage,
    pub window: &'a SharedMapping,
    /// Bytes that it may move now; one or more.
    pub most: u64,
}

impl Work<'_> {
    /// Moves the next bytes of a Read or Write; returns how many.
    pub fn transfer(&self, asked: &Operation, mut done: u64) -> Result<u64, Refusal> {
        let is_read = asked.kind == OpKind::Read;
        let wanted = if is_read { Rights::READ } else { Rights::WRITE };
        let area = self.find(asked.object, wanted)?;
        let whole = asked.pieces.bytes();
        area.check(asked.offset, whole).map_err(beyond)?;
        let (begun, end) = (done, whole.min(done + self.most));
        while done < end {
            let Some(piece) = asked.pieces.at(done) else { break };
            let bytes = u64::from(piece.bytes).min(end - done);
            let place = (self.window, piece.offset);
            let moved = match is_read {
                true => area.read_to(asked.offset + done, place, bytes, whole),
                false => area.write_from(asked.offset + done, place, bytes, whole),
            };
            moved.map_err(outside)?;
            done += bytes;
        }
        Ok(done - begun)
    }

    /// Sets the next bytes of a Set; returns how many, and how many it is about.
    pub fn set(&self, asked: &Operation, done: u64) -> Result<(u64, u64), Refusal> {
        let (value, whole) = set_of(asked.argument).ok_or(Refusal::Errno(libc::EINVAL))?;
        let area = self.find(asked.object, Rights::WRITE)?;
        area.check(asked.offset, whole).map_err(beyond)?;
        let bytes = self.most.min(whole.saturating_sub(done));
        area.set(asked.offset + done, bytes, value).map_err(beyond)?;
        Ok((bytes, whole))
    }

    /// Copies the next bytes from a source to the place that is asked for; returns how many.
    pub fn copy(&self, asked: &Operation, source: &CopySource, done: u64) -> Result<u64, Refusal> {
        let from = self.find(source.handle, Rights::READ)?;
        let into = self.find(asked.object, Rights::WRITE)?;
        from.check(source.offset, source.bytes).map_err(beyond)?;
        into.check(asked.offset, source.bytes).map_err(beyond)?;
        let (mut now, whole) = (0, source.bytes);
        while now < self.most && done + now < whole {
            let target = (into, asked.offset);
            let most = self.most - now;
            let copied = from.copy_some(source.offset, target, (whole, done + now), most);
            now += copied.map_err(beyond)?;
        }
        Ok(now)
    }

    /// Reads from the window where a copy comes from, once.
    pub fn copy_source(&self, asked: &Operation) -> Result<CopySource, Refusal> {
        copy_source(self.window, asked)
    }

    /// Changes a word in one step; returns the result.
    pub fn change_word(&self, asked: &Operation) -> Result<u64, Refusal> {
        let area = self.find(asked.object, Rights::ATOMIC)?;
        area.check(asked.offset, WORD_BYTES as u64).map_err(beyond)?;
        if asked.offset % WORD_BYTES as u64 != 0 {
            return Err(Refusal::Errno(libc::EINVAL));
        }
        let mut word = [0; WORD_BYTES];
        let (offset, new) = (asked.offset, asked.argument);
        let old = match asked.kind {
            OpKind::FetchAdd => area.fetch_add(offset, new),
            OpKind::Swap => area.swap(offset, new),
            _ => {
                self.copy_out(asked, &mut word)?;
                area.compare_swap(offset, u64::from_le_bytes(word), new)
            }
        };
        let old = old.map_err(beyond)?;
        let place = asked.pieces.at(0).map_or(0, |piece| piece.offset as usize);
        self.window.copy_in(place, &old.to_le_bytes()).map_err(outside)?;
        let is_changed = asked.kind != OpKind::CompareSwap || old == u64::from_le_bytes(word);
        Ok(if is_changed { WORD_BYTES as u64 } else { 0 })
    }

    fn find(&self, handle: ObjectId, wanted: Rights) -> Result<&Area, Refusal> {
        self.handles.find(self.page, handle, wanted)
    }

    fn copy_out(&self, asked: &Operation, into: &mut [u8]) -> Result<(), Refusal> {
        copy_out(self.window, asked, into)
    }
}

/// How many bytes an operation is about. Where a copy comes from is read for that, and kept: what is
/// paid for is what is done.
pub fn bytes(
    handles: &mut Handles,
    window: &SharedMapping,
    id: ObjectId,
    asked: &Operation,
) -> u64 {
    match asked.kind {
        OpKind::Set => set_of(asked.argument).map_or(0, |(_, bytes)| bytes),
        OpKind::Copy => {
            let known = handles.copy_source(id);
            // One that is wrong is told so in its turn.
            let Some(source) = known.or_else(|| copy_source(window, asked).ok()) else { return 0 };
            handles.keep_copy_source(id, source);
            source.bytes
        }
        _ => asked.pieces.bytes(),
    }
}

fn copy_source(window: &SharedMapping, asked: &Operation) -> Result<CopySource, Refusal> {
    let mut bytes = [0; COPY_BYTES];
    copy_out(window, asked, &mut bytes)?;
    CopySource::decode(&bytes).ok_or(Refusal::Errno(libc::ERANGE))
}

fn copy_out(window: &SharedMapping, asked: &Operation, into: &mut [u8]) -> Result<(), Refusal> {
    let place = asked.pieces.at(0).map_or(0, |piece| piece.offset as usize);
    window.copy_out(place, into).map_err(outside)
}

/// What is asked for does not lie in the region.
fn beyond(_: OutOfRange) -> Refusal {
    Refusal::Errno(libc::ERANGE)
}

/// A piece does not lie in the window. The record was checked for that; its mapping has the last word.
fn outside(_: OutOfRange) -> Refusal {
    Refusal::Errno(libc::EFAULT)
}
