//! The header: which version of which region a file holds, and on which file it builds.
//!
//! ```text
//!   0  magic, 8 bytes         56  published, monotonic ns u64
//!   8  format u32             64  depth u32            bases below this file
//!  12  header bytes u32       68  name bytes u32
//!  16  page bytes u32         72  description bytes u32
//!  20  chunk pages u32        76  base name bytes u32
//!  24  length u64             80  identity of the base, 32 bytes, zero without one
//!  32  generation u64        112  name, description, base name
//!  40  number u64
//!  48  published, ns since 1970 u64
//! ```

use crate::error::{FileError, Part};
use crate::layout::{Identity, CHUNK_PAGES, DEPTH_MAX, FORMAT, LENGTH_MAX, MAGIC, PAGE_BYTES};

/// Longest name of a region.
pub const NAME_BYTES_MAX: usize = 255;
/// Longest description, as in a region's table.
pub const DESCRIPTION_BYTES_MAX: usize = 2044;
/// Longest path of a base.
pub const BASE_NAME_BYTES_MAX: usize = 4095;
/// Bytes before the texts.
pub(crate) const FIXED_BYTES: usize = 112;
pub(crate) const HEADER_BYTES_MAX: usize =
    FIXED_BYTES + NAME_BYTES_MAX + DESCRIPTION_BYTES_MAX + BASE_NAME_BYTES_MAX;

/// The file that another one builds on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Base {
    /// What it is known by.
    pub identity: Identity,
    /// Where it was, as a path from the folder of the file that needs it.
    pub name: Vec<u8>,
}

/// What a file says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// Name of the region.
    pub name: String,
    /// Bytes of the region, 1 to `LENGTH_MAX`.
    pub length: u64,
    /// Counts the producers of the region.
    pub generation: u64,
    /// Number of the version.
    pub number: u64,
    /// When it was published, ns since 1970 by the clock of the machine.
    pub published_unix_ns: u64,
    /// The same by the monotonic clock, which counts from the machine's start.
    pub published_ns: u64,
    /// What the bytes mean, in the producer's words.
    pub description: Vec<u8>,
    /// Files below this one; 0 without a base.
    pub depth: u32,
    /// The file that this one builds on.
    pub base: Option<Base>,
}

impl Header {
    /// Checks what a writer says, and encodes it.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, FileError> {
        let base_name = self.base.as_ref().map_or(&[][..], |base| &base.name);
        within("bytes of the name", self.name.len(), NAME_BYTES_MAX)?;
        within("bytes of the description", self.description.len(), DESCRIPTION_BYTES_MAX)?;
        within("bytes of the base's path", base_name.len(), BASE_NAME_BYTES_MAX)?;
        self.check()?;
        let texts = [self.name.as_bytes(), &self.description, base_name];
        let texts_bytes: usize = texts.iter().map(|text| text.len()).sum();
        let mut bytes = Vec::with_capacity(FIXED_BYTES + texts_bytes);
        bytes.extend(MAGIC);
        let grains = [PAGE_BYTES, CHUNK_PAGES].map(|grain| grain as u32);
        let first = [FORMAT, (FIXED_BYTES + texts_bytes) as u32, grains[0], grains[1]];
        first.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        let times = [self.published_unix_ns, self.published_ns];
        let words = [self.length, self.generation, self.number, times[0], times[1]];
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(self.depth.to_le_bytes());
        texts.iter().for_each(|text| bytes.extend((text.len() as u32).to_le_bytes()));
        bytes.extend(self.base.as_ref().map_or([0; 32], |base| base.identity.0));
        texts.iter().for_each(|text| bytes.extend(*text));
        Ok(bytes)
    }

    /// The header in foreign bytes that begin with the magic and are of the length it says.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FileError> {
        let mut at = Fields(bytes.get(FIXED_START..).ok_or(FileError::Truncated)?);
        let grains = [at.u32()?, at.u32()?];
        if grains != [PAGE_BYTES, CHUNK_PAGES].map(|grain| grain as u32) {
            return Err(FileError::Damaged(Part::Field("page or chunk")));
        }
        let [length, generation, number] = [at.u64()?, at.u64()?, at.u64()?];
        let [published_unix_ns, published_ns] = [at.u64()?, at.u64()?];
        let depth = at.u32()?;
        let [name, description, base_name] = [at.u32()?, at.u32()?, at.u32()?];
        let identity = Identity(at.take(32)?.try_into().unwrap_or([0; 32]));
        let name = String::from_utf8(at.take(name as usize)?.to_vec())
            .map_err(|_| FileError::Damaged(Part::Field("name")))?;
        let description = at.take(description as usize)?.to_vec();
        let base_name = at.take(base_name as usize)?.to_vec();
        let is_whole = at.0.is_empty() && (depth > 0 || (identity.0, &base_name[..]) == NO_BASE);
        if !is_whole {
            return Err(FileError::Damaged(Part::Field("length of texts")));
        }
        let base = (depth > 0).then_some(Base { identity, name: base_name });
        let header = Self {
            name,
            length,
            generation,
            number,
            published_unix_ns,
            published_ns,
            description,
            depth,
            base,
        };
        header.check().map(|()| header)
    }

    fn check(&self) -> Result<(), FileError> {
        if self.length == 0 || self.length > LENGTH_MAX {
            let (what, found, limit) = ("bytes of the region", self.length, LENGTH_MAX);
            return Err(FileError::Limit { what, found, limit });
        }
        within("files in a chain of bases", self.depth as usize, DEPTH_MAX as usize)?;
        match (self.depth > 0) == self.base.is_some() {
            true => Ok(()),
            false => Err(FileError::Damaged(Part::Field("depth"))),
        }
    }
}

/// Where the fields begin that only version 1 has: behind magic, format and header bytes.
const FIXED_START: usize = 16;
const NO_BASE: ([u8; 32], &[u8]) = ([0; 32], &[]);

fn within(what: &'static str, found: usize, limit: usize) -> Result<(), FileError> {
    let (found, limit) = (found as u64, limit as u64);
    if found > limit {
        return Err(FileError::Limit { what, found, limit });
    }
    Ok(())
}

/// Takes fields off the front of foreign bytes.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn take(&mut self, bytes: usize) -> Result<&'a [u8], FileError> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(FileError::Damaged(Part::Head))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, FileError> {
        Ok(self.take(4)?.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, FileError> {
        Ok(self.take(8)?.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
    }
}
