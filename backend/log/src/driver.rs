//! The one who talks to the device: batches of sealed entries, header blocks, acknowledgements.
//!
//! ```text
//! step: cut a batch -> a header block, if one is due -> begin operations -> take completions
//!       -> acknowledge batches, in order
//! ```
//!
//! A batch is everything that was sealed by then, written durably from memory where it lies. A lone
//! writer's entry is a batch of its own, at once; while one is under way what comes meanwhile gathers
//! to the next. Where a flush takes long several are under way, but never two in one sector: of two
//! writes of a sector that are under way together, the one with fewer entries might come last.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_backend_block::{BeginError, BlockError, Buffer, Completion, Request};
use heliostat_base::mapping::SharedMapping;

use crate::area::Layout;
use crate::channel::{Channel, PATIENCE};
use crate::error::LogError;
use crate::format::{Header, Position, HEADER_DISTANCE};
use crate::mutant::Mutant;
use crate::options::Options;
use crate::pace::Pace;
use crate::shared::Shared;
use crate::waiting::IN_FLIGHT_MAX;

/// Bytes of one operation at most: longer batches are several, under way together.
const PIECE_BYTES: u64 = 256 << 10;
/// A token is the batch's number and the piece's, so that each operation has its own.
const PIECE_BITS: u32 = 12;
/// Of header blocks.
const HEADER_TOKEN: u64 = u64::MAX - 1;
/// A batch of at least so many sectors is filled up to its last one's end: it costs half a sector
/// on average, and the next batch need not wait for it.
const FILLED_SECTORS_MIN: u64 = 4;
/// How long one waits for a completion while another batch could be begun and others append.
const GATHER: Duration = Duration::from_micros(50);
/// The header's begin lags at most such a part of the area behind.
const BEGIN_LAG_PARTS: u64 = 8;

/// Entries that are written together.
#[derive(Debug)]
struct Batch {
    number: u64,
    end: Position,
    pieces_left: usize,
    begun: Instant,
    /// No other was under way meanwhile.
    is_alone: bool,
}

/// A header block on its way.
#[derive(Debug)]
struct HeaderUnderWay {
    header: Header,
    wishes: u64,
}

/// The device, and what is under way.
pub(crate) struct Driver {
    channel: Channel,
    layout: Layout,
    /// The last header block that is durable.
    header: Header,
    header_under_way: Option<HeaderUnderWay>,
    header_memory: Arc<SharedMapping>,
    checkpoint_bytes: u64,
    in_flight: usize,
    batches: VecDeque<Batch>,
    waiting: VecDeque<(u64, Request)>,
    /// Taken from the device, and looked at; empty between two steps.
    completed: Vec<Completion>,
    under_way: usize,
    /// Behind the last entry that is in a batch.
    cut: Position,
    durable: Position,
    /// Others appended while the last batch was under way.
    has_company: bool,
    pace: Pace,
}

impl Driver {
    pub(crate) fn new(
        channel: Channel,
        header: Header,
        options: Options,
    ) -> Result<Driver, LogError> {
        let memory = SharedMapping::for_descendants(HEADER_DISTANCE as usize);
        let in_flight = options.in_flight.clamp(1, channel.depth().min(IN_FLIGHT_MAX));
        Ok(Driver {
            layout: channel.layout(),
            channel,
            header,
            header_under_way: None,
            header_memory: Arc::new(memory.map_err(LogError::Memory)?),
            checkpoint_bytes: options.checkpoint_bytes(header.data_bytes),
            in_flight,
            batches: VecDeque::new(),
            waiting: VecDeque::new(),
            completed: Vec::new(),
            under_way: 0,
            cut: header.end,
            durable: header.end,
            has_company: false,
            pace: Pace::new(options.overlap_from),
        })
    }

    /// Does what is to be done, then takes completions; waits for the first of them, or not.
    pub(crate) fn step(&mut self, shared: &Shared, waits: bool) {
        if shared.check().is_ok() {
            if let Err(error) = self.advance(shared, waits) {
                shared.fail(error);
            }
        }
    }

    /// Reads positions `start..end` onto the end of a list, beside what is under way.
    pub(crate) fn read(
        &mut self,
        start: u64,
        end: u64,
        into: &mut Vec<u8>,
    ) -> Result<(), LogError> {
        self.channel.read(start, end, into)
    }

    pub(crate) fn into_channel(self) -> Channel {
        self.channel
    }

    fn advance(&mut self, shared: &Shared, waits: bool) -> Result<(), LogError> {
        self.cut_batch(shared);
        self.write_header(shared);
        self.begin_waiting()?;
        if self.under_way == 0 {
            return Ok(());
        }
        let wait = waits.then(|| self.patience());
        // The list keeps its memory: beneath a program's own libc nothing is allocated here.
        let mut completed = std::mem::take(&mut self.completed);
        self.channel.reap(wait, &mut completed).map_err(LogError::Failed)?;
        let mut each = completed.drain(..);
        let outcome = each.try_for_each(|completion| self.complete(shared, completion));
        drop(each);
        self.completed = completed;
        outcome.map_err(LogError::Failed)?;
        // What has completed may have made room for what waits.
        self.begin_waiting()?;
        self.acknowledge(shared);
        Ok(())
    }

    fn patience(&self) -> Duration {
        if self.has_company && self.may_begin() && self.is_apart(self.cut.at) {
            GATHER
        } else {
            PATIENCE
        }
    }

    /// Whether another batch may be begun beside those that are under way.
    fn may_begin(&self) -> bool {
        self.batches.is_empty() || self.overlaps() && self.batches.len() < self.in_flight
    }

    /// Whether batches take so long that the next one had better not wait.
    fn overlaps(&self) -> bool {
        self.in_flight > 1 && self.pace.overlaps()
    }

    /// Whether a write from here on touches no sector of the batch before.
    fn is_apart(&self, at: u64) -> bool {
        self.batches.is_empty() || at % self.layout.sector == 0
    }

    /// Makes a batch of what is sealed and in none.
    fn cut_batch(&mut self, shared: &Shared) {
        let shares = shared.mutant == Mutant::SharesSectors;
        let may = self.may_begin() && (shares || self.is_apart(self.cut.at));
        let mut space = shared.space();
        if !may || space.sealed == self.cut {
            return;
        }
        let bytes = space.sealed.at - self.cut.at;
        if self.overlaps() && bytes >= FILLED_SECTORS_MIN * self.layout.sector {
            shared.fill_sector(&mut space);
        }
        let (number, start, end) = (space.next_batch, self.cut, space.sealed);
        space.next_batch += 1;
        drop(space);
        let durable = shared.mutant != Mutant::AcknowledgesUnflushed;
        let before = self.waiting.len();
        for (index, piece) in self.layout.pieces(start.at, end.at, PIECE_BYTES).enumerate() {
            let from = shared.memory.buffer(piece.position, piece.bytes);
            let token = number << PIECE_BITS | index as u64;
            self.waiting.push_back((token, Request::Write { offset: piece.offset, from, durable }));
        }
        let (pieces_left, begun) = (self.waiting.len() - before, Instant::now());
        let is_alone = self.batches.is_empty();
        self.batches.iter_mut().for_each(|batch| batch.is_alone = false);
        self.batches.push_back(Batch { number, end, pieces_left, begun, is_alone });
        self.cut = end;
    }

    /// Has a header block written if somebody wants one, or the last one lags too far behind.
    fn write_header(&mut self, shared: &Shared) {
        if self.header_under_way.is_some() {
            return;
        }
        let wishes = shared.headers_wanted();
        let (begin, marks) = {
            let space = shared.space();
            (space.begin, space.marks)
        };
        let end = if shared.mutant == Mutant::HeaderBeforeData { self.cut } else { self.durable };
        let lag = begin.at - self.header.begin.at;
        let is_due = !shared.is_header_written(wishes)
            || lag >= self.layout.data_bytes / BEGIN_LAG_PARTS
            || end.at - self.header.end.at >= self.checkpoint_bytes;
        if !is_due {
            return;
        }
        let Some(counter) = self.header.counter.checked_add(1) else {
            return shared.fail(LogError::WornOut);
        };
        let header = Header { begin, marks, end, counter, ..self.header };
        // The memory is as long as the longest sector.
        let _ = self.header_memory.copy_in(0, &header.encode());
        let from = Buffer {
            memory: self.header_memory.clone(),
            at: 0,
            bytes: self.layout.sector as usize,
        };
        let offset = self.layout.header(counter);
        self.waiting.push_back((HEADER_TOKEN, Request::Write { offset, from, durable: true }));
        self.header_under_way = Some(HeaderUnderWay { header, wishes });
    }

    fn begin_waiting(&mut self) -> Result<(), LogError> {
        while let Some((token, request)) = self.waiting.front() {
            match self.channel.begin(*token, request.clone()) {
                Ok(()) => {
                    self.waiting.pop_front();
                    self.under_way += 1;
                }
                Err(BeginError::Full { .. }) => return Ok(()),
                Err(error) => return Err(LogError::Refused(error)),
            }
        }
        Ok(())
    }

    fn complete(&mut self, shared: &Shared, completion: Completion) -> Result<(), BlockError> {
        self.under_way = self.under_way.saturating_sub(1);
        completion.result?;
        if completion.token == HEADER_TOKEN {
            if let Some(HeaderUnderWay { header, wishes }) = self.header_under_way.take() {
                self.header = header;
                shared.space().writable = self.layout.limit(header.begin);
                shared.header_written(wishes);
            }
            return Ok(());
        }
        let number = completion.token >> PIECE_BITS;
        if let Some(batch) = self.batches.iter_mut().find(|batch| batch.number == number) {
            batch.pieces_left = batch.pieces_left.saturating_sub(1);
        }
        Ok(())
    }

    /// Acknowledges the batches that have ended, as far as none before them is under way.
    fn acknowledge(&mut self, shared: &Shared) {
        let is_done = |batch: &Batch| batch.pieces_left == 0;
        if shared.mutant == Mutant::AcknowledgesOutOfOrder && self.batches.iter().any(is_done) {
            self.batches.iter_mut().for_each(|batch| batch.pieces_left = 0);
        }
        let mut ended: Option<Range<u64>> = None;
        while self.batches.front().is_some_and(is_done) {
            if let Some(batch) = self.batches.pop_front() {
                self.durable = batch.end;
                self.pace.count(batch.begun.elapsed(), batch.is_alone);
                let first = ended.map_or(batch.number, |range| range.start);
                ended = Some(first..batch.number + 1);
            }
        }
        if let Some(batches) = ended {
            self.has_company = shared.space().sealed != self.cut;
            shared.acknowledge(self.durable, batches);
        }
    }
}
