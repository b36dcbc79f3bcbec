//! Reading acknowledged entries, from any of them on.

use std::sync::Arc;

use crate::core::Core;
use crate::error::LogError;
use crate::format::{entry_bytes, Broken, EntryKind, Position};
use crate::lookahead::{Lookahead, Rules};

/// One entry of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Where it begins.
    pub position: Position,
    /// Where the next one begins: what to trim up to so that this entry goes.
    pub next: Position,
    /// What was appended.
    pub payload: Vec<u8>,
}

/// Goes through the acknowledged entries of a log in order. At the end it says so, and goes on from
/// there when more were acknowledged.
pub struct Reader {
    core: Arc<Core>,
    at: Position,
    generation: u32,
    ahead: Lookahead,
    longest_kept: u64,
}

impl Reader {
    pub(crate) fn new(core: Arc<Core>, at: Position) -> Reader {
        Reader { core, at, generation: 0, ahead: Lookahead::default(), longest_kept: u64::MAX }
    }

    /// Refuses an entry with a longer payload, unread: of a log that somebody has made who is not trusted.
    #[must_use]
    pub fn at_most(self, payload: u64) -> Reader {
        Reader { longest_kept: payload, ..self }
    }

    /// Where the next entry begins.
    pub fn position(&self) -> Position {
        self.at
    }

    /// The next entry, or none at the acknowledged end. Reads from the device.
    ///
    /// # Errors
    /// The entry is damaged, was trimmed meanwhile, is too long, or could not be read. The reader stays where it
    /// is: what follows a damaged entry cannot be found from it.
    pub fn read(&mut self) -> Result<Option<Entry>, LogError> {
        loop {
            let (begin, end) = {
                let space = self.core.space();
                (space.begin, space.durable)
            };
            if self.at.at < begin.at {
                return Err(LogError::Trimmed { wanted: self.at, begin });
            }
            if self.at.at >= end.at {
                return Ok(None);
            }
            if let Some(entry) = self.next_below(end.at)? {
                return Ok(Some(entry));
            }
        }
    }

    /// Goes one entry on; none where it was a filler.
    fn next_below(&mut self, end: u64) -> Result<Option<Entry>, LogError> {
        let (position, core) = (self.at, self.core.clone());
        let rules =
            Rules { seed: core.seed, longest: core.longest, longest_kept: self.longest_kept };
        let mut fetch = |from, until, into: &mut Vec<u8>| {
            core.with_driver(|driver| driver.read(from, until, into))
        };
        let found = self.ahead.entry(position, end, rules, &mut fetch)?;
        let found = found.and_then(|entry| match entry.generation {
            generation if (self.generation..=core.generation).contains(&generation) => Ok(entry),
            found => Err(Broken::Generation { found }),
        });
        let header = found.map_err(|why| {
            // What was read wrongly may be right the next time.
            self.ahead = Lookahead::default();
            self.what_happened(position, why)
        })?;
        self.generation = header.generation;
        self.at.at += entry_bytes(header.length.into());
        self.at.sequence += 1;
        let payload = self.ahead.payload(position.at, header.length);
        Ok((header.kind == EntryKind::Payload).then(|| {
            let payload = payload.to_vec();
            Entry { position, next: self.at, payload }
        }))
    }

    /// Bytes that are no entry were overwritten, if the log was trimmed while they were read.
    fn what_happened(&self, position: Position, why: Broken) -> LogError {
        let begin = self.core.space().begin;
        match position.at < begin.at {
            true => LogError::Trimmed { wanted: position, begin },
            false => LogError::Damaged { position, why },
        }
    }
}

/// Ends at the acknowledged end; an error is repeated for ever.
impl Iterator for Reader {
    type Item = Result<Entry, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
