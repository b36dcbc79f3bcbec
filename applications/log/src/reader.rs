//! Reading a log from its oldest transaction on, or from a position.

use std::time::{Duration, Instant};

use heliostat::memory::Memory;

use crate::extent::Extent;
use crate::log::{reach, shape, Position, Settings};
use crate::segment::{Segment, END, GIVEN_UP, SLOTS};
use crate::{transaction, LogError};

/// A transaction and where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// Where.
    pub position: Position,
    /// What was appended together.
    pub entries: Vec<Vec<u8>>,
}

/// Reads transactions in their order. Each is whole, and every reader reads the same.
pub struct Reader {
    memory: Memory,
    settings: Settings,
    segment: Segment,
    slot: u64,
    /// How long a slot may be undecided before it is given up.
    patience: Duration,
    /// Since when this slot is waited for, as far as others behind it are there.
    waits: Option<Instant>,
}

impl Reader {
    /// Reads from the oldest transaction that is there.
    ///
    /// # Errors
    /// The log has no segment that can be reached.
    pub fn open(
        memory: &Memory,
        settings: Settings,
        patience: Duration,
    ) -> Result<Reader, LogError> {
        let extent = Extent::of(memory, &shape(&settings))?;
        let oldest = extent.segments().next().ok_or(LogError::Lost)?;
        let segment = reach(memory, &settings, oldest)?;
        Ok(Reader { memory: memory.clone(), settings, segment, slot: 0, patience, waits: None })
    }

    /// Returns where the next one is that is read.
    pub fn position(&self) -> Position {
        Position { segment: self.segment.number, slot: self.slot }
    }

    /// Whether somebody has reserved the next slot, or one behind it: it is not the end of the log, but a
    /// writer that has his time.
    pub fn is_waiting(&self) -> bool {
        self.waits.is_some()
    }

    /// Returns the next transaction; none where there is none yet, or it is not known yet whether there is.
    ///
    /// # Errors
    /// `Cleaned`, `Lost`, or what memory says.
    pub fn read(&mut self) -> Result<Option<Transaction>, LogError> {
        loop {
            if self.slot >= SLOTS {
                if !self.go_on()? {
                    return Ok(None);
                }
                continue;
            }
            match self.segment.slot(self.slot)? {
                0 => match self.undecided()? {
                    0 => return Ok(None),
                    _ => continue,
                },
                GIVEN_UP => self.step(self.slot + 1),
                END => self.step(SLOTS),
                word => return self.take(word).map(Some),
            }
        }
    }

    fn take(&mut self, word: u64) -> Result<Transaction, LogError> {
        let bytes = self.segment.read(word)?;
        let entries = transaction::decode(self.slot, &bytes);
        let entries = entries.ok_or(LogError::Corrupt("a transaction is not what was written"))?;
        let position = self.position();
        self.step(self.slot + 1);
        Ok(Transaction { position, entries })
    }

    fn step(&mut self, slot: u64) {
        (self.slot, self.waits) = (slot, None);
    }

    /// Returns what an undecided slot has become, 0 if it is to be waited for: as the end of the log, or
    /// since it is somebody's who has his time. Then it is given up, or what the first copy says of it is
    /// carried on.
    fn undecided(&mut self) -> Result<u64, LogError> {
        if !self.segment.is_passed(self.slot)? {
            return Ok(0);
        }
        let since = *self.waits.get_or_insert_with(Instant::now);
        if since.elapsed() < self.patience {
            return Ok(0);
        }
        let decided = self.segment.give_up(self.slot)?;
        if decided == GIVEN_UP && self.segment.next_nodes()?.is_some() {
            // In a segment that is over the others need no time of their own.
            for slot in self.slot + 1..SLOTS {
                if self.segment.give_up(slot)? == END {
                    break;
                }
            }
        }
        Ok(decided)
    }

    /// Goes on to the next segment; false where there is none yet.
    fn go_on(&mut self) -> Result<bool, LogError> {
        let Some(nodes) = self.segment.next_nodes()? else { return Ok(false) };
        let number = self.segment.number + 1;
        self.segment = Segment::open(&self.memory, &shape(&self.settings), number, nodes)?;
        self.step(0);
        Ok(true)
    }
}
