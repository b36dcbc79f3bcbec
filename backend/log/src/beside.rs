//! Reading a log without its lock, while another process may be writing it.
//!
//! ```text
//! begin ...... end of the header ...... last whole entry ...... what is being written
//!   |  acknowledged    |  whole, flushed before it is shown  |  no entry yet: the end, for now
//! ```
//!
//! Nothing is written and nobody is asked. What makes that safe is the format: an entry that is not
//! whole has no checksum that agrees, one that was overwritten lies at another position, and room is
//! used again only after a header block that says so is durable. What lies behind the header's end was
//! perhaps not flushed yet. It is flushed from here before it is shown, so no crash takes back what
//! a reader has seen: recovery keeps every whole entry that follows the header's end without a gap.

use std::time::Duration;

use heliostat_backend_block::{BlockError, Device};

use crate::area::Area;
use crate::channel::Channel;
use crate::error::LogError;
use crate::format::{entry_bytes, Broken, EntryHeader, EntryKind, Header, Position, POSITION_MAX};
use crate::lookahead::{Lookahead, Rules};
use crate::reader::Entry;
use crate::recovery;

/// Looks before bytes that should be an entry count as damage: a header block or a sector that is
/// being written may be read in part.
const LOOKS: u32 = 6;
/// Between two of them, from the third on.
const PAUSE: Duration = Duration::from_millis(2);

/// Reads the entries of a log that somebody else may have open. It follows the writer: at the end it
/// says so, and goes on from there when there is more.
pub struct LogReader {
    channel: Channel,
    header: Header,
    at: Position,
    generation: u32,
    ahead: Lookahead,
    longest_kept: u64,
    /// What lies before it is durable.
    durable: u64,
}

/// What stands at a place.
enum Found {
    Entry(Entry),
    Filler,
    End,
}

impl LogReader {
    /// Opens the log of an area to be read, at its first entry. The device is only read, and flushed.
    ///
    /// # Errors
    /// There is no log, it is not this area's, or the device fails.
    pub fn open(device: Box<dyn Device>, area: Area) -> Result<LogReader, LogError> {
        let (channel, header) = recovery::open_to_read(device, area)?;
        let (at, durable) = (header.begin, header.end.at);
        let (generation, ahead, longest_kept) = (0, Lookahead::default(), u64::MAX);
        Ok(LogReader { channel, header, at, generation, ahead, longest_kept, durable })
    }

    /// Refuses an entry with a longer payload, unread: of a log that somebody has made who is not trusted.
    #[must_use]
    pub fn at_most(self, payload: u64) -> LogReader {
        LogReader { longest_kept: payload, ..self }
    }

    /// The header block that was read last.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Where the next entry begins.
    pub fn position(&self) -> Position {
        self.at
    }

    /// Goes on at a position that an entry or an append has told. Whether an entry begins there, the
    /// next `read` finds out.
    pub fn go_to(&mut self, position: Position) {
        (self.at, self.generation) = (position, 0);
        self.ahead = Lookahead::default();
    }

    /// Goes on at the first entry that is wanted now.
    ///
    /// # Errors
    /// The header cannot be read.
    pub fn go_to_begin(&mut self) -> Result<(), LogError> {
        self.refresh()?;
        self.go_to(self.header.begin);
        Ok(())
    }

    /// The next entry, or none at the end. Nothing that it shows is taken back by a crash.
    ///
    /// # Errors
    /// `Trimmed` where the writer has given the entry up meanwhile; `Damaged` where an acknowledged
    /// one is not there; the device fails. The reader stays where it is.
    pub fn read(&mut self) -> Result<Option<Entry>, LogError> {
        self.read_before(u64::MAX)
    }

    /// The same, or none where no entry begins before `limit`: what a log holds may be long.
    ///
    /// # Errors
    /// As `read`.
    pub fn read_before(&mut self, limit: u64) -> Result<Option<Entry>, LogError> {
        while self.at.at < limit {
            match self.next_place()? {
                Found::Entry(entry) => return Ok(Some(entry)),
                Found::Filler => {}
                Found::End => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Looks whether the end, where `read` has found none, is one: an entry behind it may prove that
    /// there was another one. Reads as much as the writer's window is long.
    ///
    /// # Errors
    /// `Damaged` with the position; the device fails.
    pub fn check_end(&mut self) -> Result<(), LogError> {
        loop {
            self.refresh()?;
            let generation = self.header.generation;
            let has_proof = recovery::has_evidence(&mut self.channel, &self.header, self.at.at)?;
            self.ahead = Lookahead::default();
            let now = self.look()?;
            self.refresh()?;
            match now {
                Err(why) if has_proof && self.header.generation == generation => {
                    return Err(LogError::Damaged { position: self.at, why });
                }
                Err(_) if has_proof => {}
                // Written meanwhile: `read` finds it. Or there is no proof.
                _ => return Ok(()),
            }
        }
    }

    fn next_place(&mut self) -> Result<Found, LogError> {
        let mut looks = 1;
        loop {
            let why = match self.look()? {
                Ok(entry) => return self.take(entry),
                Err(why) => why,
            };
            // What was read ahead may be older than what is there by now.
            self.ahead = Lookahead::default();
            self.refresh()?;
            let (wanted, begin) = (self.at, self.header.begin);
            if wanted.at < begin.at {
                return Err(LogError::Trimmed { wanted, begin });
            }
            if looks > 1 && wanted.at >= self.header.end.at {
                return Ok(Found::End);
            }
            if looks == LOOKS {
                return Err(LogError::Damaged { position: wanted, why });
            }
            if looks > 1 {
                std::thread::sleep(PAUSE);
            }
            looks += 1;
        }
    }

    /// The entry at the position, or why there is none.
    fn look(&mut self) -> Result<Result<EntryHeader, Broken>, LogError> {
        let limit = self.channel.layout().limit(self.header.begin).min(POSITION_MAX);
        let (rules, channel) = (self.rules(), &mut self.channel);
        let mut fetch = |from, until, into: &mut Vec<u8>| channel.read(from, until, into);
        let found = self.ahead.entry(self.at, limit, rules, &mut fetch)?;
        Ok(found.and_then(|entry| self.of_a_fitting_generation(entry, self.at, self.generation)))
    }

    /// Each opening moves the header's end, so what follows it is of the header's generation.
    fn of_a_fitting_generation(
        &self,
        entry: EntryHeader,
        place: Position,
        last: u32,
    ) -> Result<EntryHeader, Broken> {
        let newest = self.header.generation;
        let oldest = if place.at < self.header.end.at { last } else { newest };
        match (oldest..=newest).contains(&entry.generation) {
            true => Ok(entry),
            false => Err(Broken::Generation { found: entry.generation }),
        }
    }

    fn take(&mut self, entry: EntryHeader) -> Result<Found, LogError> {
        let position = self.at;
        let next = after(position, entry);
        if next.at > self.durable && !self.make_durable(next)? {
            self.ahead = Lookahead::default();
            return Ok(Found::End);
        }
        (self.at, self.generation) = (next, entry.generation);
        let payload = self.ahead.payload(position.at, entry.length);
        Ok(match entry.kind {
            EntryKind::Filler => Found::Filler,
            EntryKind::Payload => Found::Entry(Entry { position, next, payload: payload.to_vec() }),
        })
    }

    /// Sees to it that an entry is durable, together with those that were read with it: a later one
    /// may say that it was acknowledged, else the device is flushed. Who may not flush it waits for
    /// what the writer says: then false.
    fn make_durable(&mut self, next: Position) -> Result<bool, LogError> {
        let limit = self.ahead.end();
        let (rules, mut place, mut acknowledged) = (self.rules(), self.at, self.durable);
        let mut none = |_, _, _: &mut Vec<u8>| Ok(());
        while let Ok(entry) = self.ahead.checked(place, limit, rules, &mut none)? {
            if self.of_a_fitting_generation(entry, place, self.generation).is_err() {
                break;
            }
            acknowledged = acknowledged.max(place.at.saturating_sub(entry.unsettled.into()));
            place = after(place, entry);
        }
        if acknowledged < next.at {
            match self.channel.flush() {
                Ok(()) => acknowledged = place.at.max(next.at),
                Err(error) if is_right_missing(error) => self.refresh()?,
                Err(error) => return Err(error),
            }
        }
        self.durable = self.durable.max(acknowledged);
        Ok(self.durable >= next.at)
    }

    fn rules(&self) -> Rules {
        Rules {
            seed: self.header.seed(),
            longest: self.header.longest.into(),
            longest_kept: self.longest_kept,
        }
    }

    /// Reads the header blocks again.
    fn refresh(&mut self) -> Result<(), LogError> {
        let found = recovery::newest_header(&mut self.channel)?;
        if found.identity != self.header.identity {
            return Err(LogError::Replaced);
        }
        // Of a block that is being written the other one may have been read.
        if found.counter > self.header.counter {
            self.header = found;
            self.durable = self.durable.max(found.end.at);
        }
        Ok(())
    }
}

/// Whether a device refuses to be flushed by who only reads.
fn is_right_missing(error: LogError) -> bool {
    const EPERM: i32 = 1;
    const EBADF: i32 = 9;
    const EACCES: i32 = 13;
    let LogError::Failed(BlockError::Device { errno }) = error else { return false };
    matches!(errno, EPERM | EBADF | EACCES)
}

/// Where the entry after this one begins.
fn after(place: Position, entry: EntryHeader) -> Position {
    let at = place.at + entry_bytes(entry.length.into());
    Position { at, sequence: place.sequence + 1 }
}

/// Ends at the end; an error is repeated for ever.
impl Iterator for LogReader {
    type Item = Result<Entry, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

impl std::fmt::Debug for LogReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogReader").field("at", &self.at).finish_non_exhaustive()
    }
}
