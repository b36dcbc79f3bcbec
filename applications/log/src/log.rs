//! The log: appending transactions, going on in the next segment, cleaning.

use heliostat::memory::Memory;

use crate::extent::Extent;
use crate::segment::{answers, Segment, Shape, NODES_MAX};
use crate::{transaction, LogError};

/// Segments that an append tries: a death costs one of them.
const TRIES: usize = 32;

/// What a log is. All of its programs say the same.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name.
    pub name: String,
    /// The nodes whose memory it may use, 32 at most.
    pub nodes: Vec<u64>,
    /// On how many of them each transaction is.
    pub copies: usize,
    /// Bytes of transactions in a segment.
    pub segment_bytes: u64,
}

/// Where a transaction is in the log, in the order of all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Position {
    /// Which segment.
    pub segment: u64,
    /// Which slot of it.
    pub slot: u64,
}

/// A transaction that is in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Appended {
    /// Where.
    pub position: Position,
    /// On how many nodes it was when this was returned: fewer than asked for where fewer live.
    pub copies: usize,
}

/// A log, as one thread of a process has it.
pub struct Log {
    memory: Memory,
    settings: Settings,
    segment: Segment,
}

impl Log {
    /// Opens a log at its newest segment, and makes its first one where it has none.
    ///
    /// # Errors
    /// No node of it can be reached, or a control plane says no.
    pub fn open(memory: &Memory, settings: Settings) -> Result<Log, LogError> {
        if settings.nodes.is_empty() || settings.nodes.len() > NODES_MAX {
            return Err(LogError::Corrupt("a log has 1 to 32 nodes"));
        }
        let extent = Extent::of(memory, &shape(&settings))?;
        // One that somebody is just making names no nodes yet: those before it lead there.
        let newest = extent.segments().rev().find_map(|n| reach(memory, &settings, n).ok());
        let begins = extent.begins();
        let segment = match newest {
            Some(segment) => segment,
            None if extent.segments().any(|number| number > begins) => return Err(LogError::Lost),
            None => {
                let first = choose(memory, &settings, begins)?;
                Segment::open(memory, &shape(&settings), begins, first)?
            }
        };
        Ok(Log { memory: memory.clone(), settings, segment })
    }

    /// Appends entries as one transaction: once this returns it is on all nodes of its segment, and every
    /// reader comes to it, or has.
    ///
    /// # Errors
    /// Nothing was appended; but after `CutOff`, `Lost`, or an error of memory, it may have been.
    pub fn append(&mut self, entries: &[&[u8]]) -> Result<Appended, LogError> {
        let bytes = transaction::length(entries);
        if bytes > self.segment.limit() {
            return Err(LogError::TooLong { bytes, limit: self.segment.limit() });
        }
        for _ in 0..TRIES {
            let done = match self.append_here(entries, bytes) {
                Ok(Some(appended)) => return Ok(appended),
                Ok(None) => self.go_on(),
                Err(error) => Err(error),
            };
            match done {
                Ok(()) | Err(LogError::GivenUp) => {}
                // Others went on, and the cleaner came behind them.
                Err(LogError::Cleaned) => self.jump()?,
                Err(error) => return Err(error),
            }
        }
        Err(LogError::Busy)
    }

    /// None where this segment takes no more.
    fn append_here(&mut self, entries: &[&[u8]], bytes: u64) -> Result<Option<Appended>, LogError> {
        let segment = &mut self.segment;
        let Some(place) = segment.reserve(bytes)? else { return Ok(None) };
        let is_written = segment.write(place, &transaction::encode(place.slot, entries))?;
        if !is_written {
            // In the next segment it will be on as many nodes as it should be.
            segment.give_up(place.slot)?;
            return Ok(None);
        }
        if !segment.commit(place, bytes)? {
            // Somebody has waited for this writer too long: as if nothing had been written.
            return Err(LogError::GivenUp);
        }
        let position = Position { segment: segment.number, slot: place.slot };
        Ok(Some(Appended { position, copies: segment.copies() }))
    }

    /// Goes on to the next segment, which the first to come decides.
    fn go_on(&mut self) -> Result<(), LogError> {
        let nodes = match self.segment.next_nodes()? {
            Some(nodes) => nodes,
            None => {
                let number = self.segment.number + 1;
                let chosen = choose(&self.memory, &self.settings, number)?;
                self.segment.decide_next(chosen)?
            }
        };
        let number = self.segment.number + 1;
        self.segment = Segment::open(&self.memory, &shape(&self.settings), number, nodes)?;
        Ok(())
    }

    fn jump(&mut self) -> Result<(), LogError> {
        self.segment = Log::open(&self.memory, self.settings.clone())?.segment;
        Ok(())
    }

    /// Frees the segments that lie wholly before a position, the oldest first, but never the newest one;
    /// returns how many the log does not have any more. Who still reads there is told `Cleaned`. Memory on
    /// nodes that do not answer is freed by the next cleaner; nobody goes to it any more.
    ///
    /// # Errors
    /// `CutOff`: most nodes do not answer, and nothing is freed. A control plane says no.
    pub fn clean(memory: &Memory, settings: &Settings, before: Position) -> Result<u64, LogError> {
        let shape = shape(settings);
        Extent::of(memory, &shape)?.clean(memory, &shape, before.segment)
    }
}

pub(crate) fn shape(settings: &Settings) -> Shape<'_> {
    let Settings { name, nodes, segment_bytes, .. } = settings;
    Shape { name, nodes, bytes: *segment_bytes }
}

/// Reaches a segment that is there.
pub(crate) fn reach(
    memory: &Memory,
    settings: &Settings,
    number: u64,
) -> Result<Segment, LogError> {
    let nodes = Segment::nodes_by_name(memory, &shape(settings), number)?;
    Segment::open(memory, &shape(settings), number, nodes)
}

/// Chooses the nodes of a segment, among those that answer; for the next segment from another one on. None
/// where fewer than most answer: others may be choosing too.
fn choose(memory: &Memory, settings: &Settings, number: u64) -> Result<u64, LogError> {
    let count = settings.nodes.len();
    let places = (0..count).map(|n| (n + number as usize) % count);
    let living: Vec<usize> = places.filter(|node| answers(memory, settings.nodes[*node])).collect();
    if living.len() * 2 <= count {
        return Err(LogError::CutOff);
    }
    let chosen = living.iter().take(settings.copies.max(1));
    Ok(chosen.fold(0, |nodes, node| nodes | 1 << node))
}
