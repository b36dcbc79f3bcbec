//! Regions that are spread over several nodes, so that one may be longer than a node's memory.
//!
//! ```text
//! the whole    0 ........ 1 GiB ........ 2 GiB ........ 3 GiB
//! parts        | node 1   | node 2       | node 3       |      ordinary regions NAME.spread
//! each part    head: directory of all parts, generation, state; then its bytes
//! ```
//!
//! Each part is an ordinary region with a head in front of its bytes (`abi/src/memory/spread.rs`), which
//! tells of all of them: whoever has found one part knows the others, and no node is more important than
//! another. Nothing is asked of control planes that they are not asked for other regions. Bytes that lie
//! one after the other lie on one node as far as possible: a region is cut into as many blocks as there
//! are nodes, and an error of one node is about one range of bytes.
//!
//! ```text
//! make   parts (leased) -> heads: making -> names -> lasting -> last part ready ... first part ready
//! free   first part freed ... last part freed -> parts are freed
//! ```
//!
//! The first part decides: before it says ready the region cannot be found, and once it says freed it is
//! gone. What a maker that died leaves is leased, and ends with it; or it is lasting, says making and has
//! no handle, and is freed by whoever meets it. What somebody who died while freeing leaves says freed.
//!
//! A part that moves to another node is an ordinary region that does: whoever has a handle finds it there,
//! and who maps the region later looks for it on all nodes, by its name, generation and number.
//!
//! *Hot* where bytes lie in one part on this node: as for an ordinary region.

mod copying;
mod ending;
mod error;
mod finding;
mod later;
mod making;
mod moving;
mod sought;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use heliostat_abi::memory::spread::{Directory, HEAD_BYTES};
use heliostat_abi::memory::Rights;
use heliostat_ring::area::WORD_BYTES;

use super::{MappedBytes, Memory, MemoryError, Region};

pub use error::SpreadError;
pub use making::SpreadAllocation;

/// Handles on all parts of a region. Dropped, they are given back.
pub struct SpreadRegion {
    memory: Memory,
    directory: Directory,
    parts: Vec<Part>,
}

/// Where some of the bytes lie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartPlace {
    /// On which node; 0 without a cluster.
    pub node: u64,
    /// Which bytes of the whole.
    pub bytes: Range<u64>,
    /// Why they could not be reached when the region was mapped.
    pub lost: Option<MemoryError>,
}

struct Part {
    /// On which node it was made.
    made_on: u64,
    /// This process's node; 0 without a cluster.
    here: u64,
    bytes: Range<u64>,
    found: Result<Arc<Region>, MemoryError>,
}

/// Bytes that lie in one part.
struct Segment<'a> {
    part: &'a Part,
    region: &'a Arc<Region>,
    /// Where in its region.
    at: u64,
    bytes: u64,
}

impl SpreadRegion {
    /// Returns how many bytes it has.
    pub fn size(&self) -> u64 {
        self.directory.bytes()
    }

    /// Returns where they lie, in order; of parts that have moved, where this process has found them.
    pub fn parts(&self) -> Vec<PartPlace> {
        let told = |part: &Part| {
            let lost = part.found.as_ref().err().copied();
            PartPlace { node: part.node(), bytes: part.bytes.clone(), lost }
        };
        self.parts.iter().map(told).collect()
    }

    /// Returns what tells this region from all others, also from an earlier one of the same name.
    pub fn generation(&self) -> u64 {
        self.directory.generation
    }

    /// Reads bytes from an offset on; all of `into`. Parts on several nodes are on their way at once.
    ///
    /// # Errors
    /// `Range`; `Part` names the node and its bytes.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), SpreadError> {
        match self.in_one(offset, into.len() as u64)? {
            Some(one) => one.region.read(one.at, into).map_err(|why| one.part.error(why)),
            None => self.read_vectored(&mut [(offset, into)]),
        }
    }

    /// Writes bytes from an offset on; all of `from`.
    ///
    /// # Errors
    /// As `read`. Some of them may have been written, on other nodes too.
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<(), SpreadError> {
        match self.in_one(offset, from.len() as u64)? {
            Some(one) => one.region.write(one.at, from).map_err(|why| one.part.error(why)),
            None => self.write_vectored(&[(offset, from)]),
        }
    }

    /// Sets bytes from an offset on to a value.
    ///
    /// # Errors
    /// As `write`.
    pub fn set(&self, offset: u64, bytes: u64, value: u8) -> Result<(), SpreadError> {
        for it in self.segments(offset, bytes)? {
            it.region.set(it.at, it.bytes, value).map_err(|why| it.part.error(why))?;
        }
        Ok(())
    }

    /// Adds to the word at an offset, a multiple of 8, and returns what it was; as of any region.
    ///
    /// # Errors
    /// `Misaligned`; else as `write`.
    pub fn fetch_add(&self, offset: u64, more: u64) -> Result<u64, SpreadError> {
        self.change(offset, |region, at| region.fetch_add(at, more))
    }

    /// Stores `new` in the word at an offset if it is `expected`; returns what it was.
    ///
    /// # Errors
    /// As `fetch_add`.
    pub fn compare_swap(&self, offset: u64, expected: u64, new: u64) -> Result<u64, SpreadError> {
        self.change(offset, |region, at| region.compare_swap(at, expected, new))
    }

    /// Stores `new` in the word at an offset and returns what it was.
    ///
    /// # Errors
    /// As `fetch_add`.
    pub fn swap(&self, offset: u64, new: u64) -> Result<u64, SpreadError> {
        self.change(offset, |region, at| region.swap(at, new))
    }

    /// Returns where bytes lie in this process, as `Region::mapped`: where they are in one part, on this
    /// node, by the direct path and in one piece; else `None`.
    ///
    /// # Errors
    /// As `read`.
    pub fn mapped(&self, offset: u64, bytes: u64) -> Result<Option<MappedBytes>, SpreadError> {
        let Some(one) = self.in_one(offset, bytes)? else { return Ok(None) };
        one.region.mapped(one.at, one.bytes).map_err(|why| one.part.error(why))
    }

    /// Returns where bytes lie: for each part that they meet its number, where in the part's region, and
    /// how many.
    ///
    /// # Errors
    /// As `read`.
    pub fn places(&self, offset: u64, bytes: u64) -> Result<Vec<(usize, u64, u64)>, SpreadError> {
        let number = |it: &Segment<'_>| {
            self.parts.iter().position(|part| std::ptr::eq(part, it.part)).unwrap_or_default()
        };
        let segments = self.segments(offset, bytes)?;
        Ok(segments.iter().map(|it| (number(it), it.at, it.bytes)).collect())
    }

    /// Returns the region that a part is, for operations at the places that `places` tells. Its first
    /// bytes are the part's head, which nobody else is to write.
    ///
    /// # Errors
    /// `Part` where it is lost; `Range` where there is no such part.
    pub fn part(&self, number: usize) -> Result<&Arc<Region>, SpreadError> {
        let part = self.parts.get(number).ok_or_else(|| self.beyond(number as u64, 0))?;
        part.found.as_ref().map_err(|why| part.error(*why))
    }

    /// Returns the error of an operation on a part as one of the whole.
    pub fn error_of(&self, number: usize, why: MemoryError) -> SpreadError {
        self.parts.get(number).map_or(why.into(), |part| part.error(why))
    }

    fn change(
        &self,
        offset: u64,
        act: impl FnOnce(&Region, u64) -> Result<u64, MemoryError>,
    ) -> Result<u64, SpreadError> {
        if offset % WORD_BYTES != 0 {
            return Err(SpreadError::Misaligned { offset });
        }
        // A word lies in one part, since parts begin at multiples of more.
        let one = self.in_one(offset, WORD_BYTES)?;
        let one = one.ok_or_else(|| self.beyond(offset, WORD_BYTES))?;
        act(one.region, one.at).map_err(|why| one.part.error(why))
    }

    /// The one part that all of the bytes lie in, if there is one.
    fn in_one(&self, offset: u64, bytes: u64) -> Result<Option<Segment<'_>>, SpreadError> {
        let end = self.check(offset, bytes)?;
        let number = self.parts.partition_point(|part| part.bytes.end <= offset);
        // Behind the last one are no bytes, which lie in any part.
        let number = number.min(self.parts.len().saturating_sub(1));
        match self.parts.get(number) {
            Some(part) if end <= part.bytes.end => part.segment(offset..end).map(Some),
            _ => Ok(None),
        }
    }

    /// The bytes by their parts.
    ///
    /// # Errors
    /// One of the parts is lost; nothing was done.
    fn segments(&self, offset: u64, bytes: u64) -> Result<Vec<Segment<'_>>, SpreadError> {
        let end = self.check(offset, bytes)?;
        let meets = |part: &&Part| part.bytes.start < end && offset < part.bytes.end;
        let cut = |part: &Part| offset.max(part.bytes.start)..end.min(part.bytes.end);
        self.parts.iter().filter(meets).map(|part| part.segment(cut(part))).collect()
    }

    fn check(&self, offset: u64, bytes: u64) -> Result<u64, SpreadError> {
        let end = offset.checked_add(bytes).filter(|end| *end <= self.size());
        end.ok_or_else(|| self.beyond(offset, bytes))
    }

    fn beyond(&self, offset: u64, bytes: u64) -> SpreadError {
        SpreadError::Range { offset, bytes, limit: self.size() }
    }
}

impl Part {
    /// Bytes of the whole that lie in this part.
    fn segment(&self, bytes: Range<u64>) -> Result<Segment<'_>, SpreadError> {
        let region = self.found.as_ref().map_err(|why| self.error(*why))?;
        let at = HEAD_BYTES as u64 + (bytes.start - self.bytes.start);
        Ok(Segment { part: self, region, at, bytes: bytes.end - bytes.start })
    }

    /// On which node it is, as far as this process knows.
    fn node(&self) -> u64 {
        match &self.found {
            Ok(region) => region.node().unwrap_or(match self.here {
                0 => self.made_on,
                here => here,
            }),
            Err(_) => self.made_on,
        }
    }

    fn error(&self, why: MemoryError) -> SpreadError {
        let Range { start: from, end: to } = self.bytes;
        SpreadError::Part { node: self.node(), from, to, why }
    }
}

impl fmt::Debug for SpreadRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<_> = self.parts.iter().map(Part::node).collect();
        write!(f, "{} bytes spread over nodes {nodes:?}", self.size())
    }
}

/// What a handle on a part has to allow, besides what is wanted: its head is read.
fn with_head(wanted: Rights) -> Rights {
    wanted.and(Rights::READ)
}
