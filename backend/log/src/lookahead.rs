//! Bytes of the log that were read ahead, and the entries in them.

use crate::channel::READ_BYTES;
use crate::error::LogError;
use crate::format::{Broken, EntryHeader, PayloadChecksum, Position, Seed, ENTRY_BYTES};

/// What entries of one log have to agree with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) seed: Seed,
    pub(crate) longest: u64,
    /// Who reads keeps no longer payload in memory, whatever the log's writer may have done.
    pub(crate) longest_kept: u64,
}

/// Bytes from a position on.
#[derive(Default, Debug)]
pub(crate) struct Lookahead {
    start: u64,
    bytes: Vec<u8>,
}

/// Reads positions `start..end` onto the end of a list.
pub(crate) trait Fetch: FnMut(u64, u64, &mut Vec<u8>) -> Result<(), LogError> {}
impl<F: FnMut(u64, u64, &mut Vec<u8>) -> Result<(), LogError>> Fetch for F {}

impl Lookahead {
    /// The entry at `place` with its payload, or what is wrong with the bytes there. Nothing from
    /// `limit` on is read.
    ///
    /// # Errors
    /// The bytes could not be read, or are more than the reader keeps.
    pub(crate) fn entry(
        &mut self,
        place: Position,
        limit: u64,
        rules: Rules,
        fetch: &mut impl Fetch,
    ) -> Result<Result<EntryHeader, Broken>, LogError> {
        let header = match self.header(place, limit, rules, fetch)? {
            Ok(header) => header,
            Err(broken) => return Ok(Err(broken)),
        };
        let found = u64::from(header.length);
        if found > rules.longest_kept {
            return Err(LogError::TooLong { found, limit: rules.longest_kept });
        }
        let bytes = ENTRY_BYTES + found;
        let whole = self.slice(place.at, bytes, limit, fetch)?;
        let payload = whole.get(ENTRY_BYTES as usize..).unwrap_or_default();
        Ok(header.check(payload).map(|()| header))
    }

    /// The same, whose payload is checked piece by piece and not kept: its length is what somebody else
    /// has written down.
    ///
    /// # Errors
    /// The bytes could not be read.
    pub(crate) fn checked(
        &mut self,
        place: Position,
        limit: u64,
        rules: Rules,
        fetch: &mut impl Fetch,
    ) -> Result<Result<EntryHeader, Broken>, LogError> {
        let header = match self.header(place, limit, rules, fetch)? {
            Ok(header) => header,
            Err(broken) => return Ok(Err(broken)),
        };
        let (from, found) = (place.at + ENTRY_BYTES, u64::from(header.length));
        let there = limit.saturating_sub(from);
        if found > there {
            return Ok(Err(Broken::Length { found, limit: there }));
        }
        let mut checksum = PayloadChecksum::default();
        for at in (0..found).step_by(READ_BYTES as usize) {
            let piece = self.slice(from + at, READ_BYTES.min(found - at), limit, fetch)?;
            checksum = checksum.and(piece);
        }
        Ok(header.agree(checksum).map(|()| header))
    }

    fn header(
        &mut self,
        place: Position,
        limit: u64,
        rules: Rules,
        fetch: &mut impl Fetch,
    ) -> Result<Result<EntryHeader, Broken>, LogError> {
        let first = self.slice(place.at, ENTRY_BYTES, limit, fetch)?;
        Ok(EntryHeader::decode(first, place, rules.longest, rules.seed))
    }

    /// Where the bytes end that are there.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// The payload of the entry that was just found at a position.
    pub(crate) fn payload(&self, at: u64, length: u32) -> &[u8] {
        let from = (at - self.start + ENTRY_BYTES) as usize;
        self.bytes.get(from..from + length as usize).unwrap_or_default()
    }

    /// The bytes at a position, as many as there are of those wanted.
    fn slice(
        &mut self,
        at: u64,
        wanted: u64,
        limit: u64,
        fetch: &mut impl Fetch,
    ) -> Result<&[u8], LogError> {
        let end = at.saturating_add(wanted).min(limit);
        let has = self.start <= at && end <= self.start + self.bytes.len() as u64;
        if !has {
            self.bytes.clear();
            self.start = at;
            let until = at.saturating_add(wanted.max(READ_BYTES)).min(limit);
            fetch(at, until.max(at), &mut self.bytes)?;
        }
        let from = (at - self.start) as usize;
        let until = (from + wanted as usize).min(self.bytes.len());
        Ok(&self.bytes[from.min(until)..until])
    }
}
