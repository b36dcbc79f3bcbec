//! The engine that asks the kernel which pages were written.
//!
//! A first write to a page costs the writer some 1.2 us, so a chunk that is rewritten nearly whole
//! each time is cheaper to copy than to watch: it is taken as written, unwatched, and asked about
//! again now and then (*hot*).

use std::ops::Range;

use heliostat_abi::snapshot::CHUNK_BYTES;
use heliostat_base::live::LiveMemory;
use heliostat_base::track::{Pages, TrackError, WriteTracker};

use super::engine::{Declared, Engine, Note};
use super::ledger::PAGE_BYTES;

/// One part in so many of a chunk's watched bytes, above which it turns hot: where 1.2 us per fault and 0.04 us to find a
/// page pass 0.42 us to copy one (64 MiB, measured), rounded to lean towards watching.
const HOT_PART: usize = 3;
/// Versions after which a chunk that turned hot is asked about again, which costs a fault for each
/// page written and is done half as often with each time that it was in vain.
const PROBE_FIRST: u8 = 16;
/// The longest such time: what cooled down meanwhile is copied whole for so many versions, and
/// probing costs what stays hot a hundredth at most.
const PROBE_LAST: u8 = 128;

/// How a chunk is treated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heat {
    /// Watched. Were it hot, it would be so for this many versions.
    Watched(u8),
    /// Taken as written for `left` more versions out of `of`.
    Hot { left: u8, of: u8 },
}

const COLD: Heat = Heat::Watched(PROBE_FIRST);

/// Watches the whole pages of a region; its partial pages at both ends always count as written.
pub struct Tracked {
    tracker: WriteTracker,
    /// Address of the page in which the region begins.
    base: usize,
    span: Range<usize>,
    heat: Vec<Heat>,
    /// The kernel failed in the middle of an answer: all may have been written.
    is_doubtful: bool,
    declared: Declared,
    runs: Vec<Pages>,
}

impl Tracked {
    /// Begins to watch `memory`, whose first byte lies at `span.start` of its page.
    pub fn new(memory: LiveMemory, span: Range<usize>) -> Result<Self, TrackError> {
        let tracker = WriteTracker::new()?;
        let base = memory.start() - span.start;
        let chunks = span.end.div_ceil(CHUNK_BYTES);
        let (heat, runs) = (vec![COLD; chunks], Vec::new());
        let it = Self {
            tracker,
            base,
            span,
            heat,
            is_doubtful: false,
            declared: Declared::default(),
            runs,
        };
        if !it.whole_pages().is_empty() {
            it.tracker.watch(it.at(it.whole_pages()))?;
        }
        Ok(it)
    }

    fn at(&self, bytes: Range<usize>) -> Pages {
        self.base + bytes.start..self.base + bytes.end
    }

    /// The pages that are the region's alone.
    fn whole_pages(&self) -> Range<usize> {
        let start = self.span.start.next_multiple_of(PAGE_BYTES);
        let end = self.span.end / PAGE_BYTES * PAGE_BYTES;
        start..end.max(start)
    }

    /// Partial pages at both ends: the page's other bytes are not ours to watch.
    fn edges(&self) -> [Range<usize>; 2] {
        let whole = self.whole_pages();
        [
            self.span.start..whole.start.min(self.span.end),
            whole.end.max(self.span.start)..self.span.end,
        ]
    }

    /// Runs of neighbouring chunks that are treated alike.
    fn stretches(&self) -> Vec<(Heat, Range<usize>)> {
        let mut found: Vec<(Heat, Range<usize>)> = Vec::new();
        for (chunk, heat) in self.heat.iter().enumerate() {
            match found.last_mut() {
                Some((known, chunks)) if known == heat => chunks.end = chunk + 1,
                _ => found.push((*heat, chunk..chunk + 1)),
            }
        }
        found
    }

    /// The watched bytes of some chunks.
    fn pages_of(&self, chunks: Range<usize>) -> Range<usize> {
        let whole = self.whole_pages();
        let bytes = chunks.start * CHUNK_BYTES..chunks.end * CHUNK_BYTES;
        bytes.start.max(whole.start)..bytes.end.min(whole.end)
    }

    /// Asks the kernel for what was written of `pages`. False when it does not know, because they
    /// were unmapped and mapped anew meanwhile: they are watched again, and count as written.
    fn take(&mut self, pages: Range<usize>) -> Result<bool, TrackError> {
        self.runs.clear();
        match self.tracker.take(self.at(pages.clone()), &mut self.runs) {
            Err(TrackError::Lost { .. }) => {
                self.runs.clear();
                self.tracker.watch(self.at(pages)).map(|()| false)
            }
            answer => answer.map(|()| true),
        }
    }

    /// Notes what the kernel says of watched chunks, and all of hot ones.
    fn ask(&mut self, note: Note<'_>) -> Result<(), TrackError> {
        for (heat, chunks) in self.stretches() {
            let pages = self.pages_of(chunks.clone());
            if pages.is_empty() {
                continue;
            }
            match heat {
                Heat::Watched(_) => self.ask_watched(chunks, pages, note)?,
                Heat::Hot { left, of } if left > 1 => {
                    note(pages);
                    self.heat[chunks].fill(Heat::Hot { left: left - 1, of });
                }
                Heat::Hot { of, .. } => {
                    note(pages.clone());
                    // Unwatched until now, so all of it seems written: the next time will tell.
                    self.take(pages)?;
                    self.heat[chunks].fill(Heat::Watched((of * 2).min(PROBE_LAST)));
                }
            }
        }
        Ok(())
    }

    /// Notes what was written and watches all of it from now on, also what was hot: of that
    /// everything counts as written. No chunk is judged by a part of what a version will have.
    fn ask_ahead(&mut self, note: Note<'_>) -> Result<(), TrackError> {
        for (heat, chunks) in self.stretches() {
            let pages = self.pages_of(chunks.clone());
            if pages.is_empty() {
                continue;
            }
            let is_known = self.take(pages.clone())?;
            match heat {
                Heat::Watched(_) if is_known => self.note_runs(note),
                Heat::Watched(_) => note(pages),
                Heat::Hot { of, .. } => {
                    note(pages);
                    self.heat[chunks].fill(Heat::Watched(of));
                }
            }
        }
        Ok(())
    }

    fn note_runs(&self, note: Note<'_>) {
        self.runs.iter().for_each(|run| note(run.start - self.base..run.end - self.base));
    }

    /// All that `ask` names, and what nobody has to ask for.
    fn collect_by(
        &mut self,
        note: Note<'_>,
        ask: fn(&mut Self, Note<'_>) -> Result<(), TrackError>,
    ) -> Result<(), TrackError> {
        self.edges().into_iter().filter(|edge| !edge.is_empty()).for_each(&mut *note);
        self.declared.collect(note)?;
        if self.is_doubtful {
            note(self.span.clone());
        }
        // Set for the time of asking: what was taken before an error is not told again.
        self.is_doubtful = true;
        ask(self, note)?;
        self.is_doubtful = false;
        Ok(())
    }

    fn ask_watched(
        &mut self,
        chunks: Range<usize>,
        pages: Range<usize>,
        note: Note<'_>,
    ) -> Result<(), TrackError> {
        if self.take(pages.clone())? {
            self.note_runs(note);
        } else {
            note(pages);
        }
        self.judge(chunks);
        Ok(())
    }

    /// Counts what was written of each watched chunk and says which are hot from now on.
    fn judge(&mut self, chunks: Range<usize>) {
        let mut written = vec![0; chunks.len()];
        for run in &self.runs {
            let (mut at, end) = (run.start - self.base, run.end - self.base);
            while at < end {
                let chunk = at / CHUNK_BYTES;
                let next = end.min((chunk + 1) * CHUNK_BYTES);
                written[chunk - chunks.start] += next - at;
                at = next;
            }
        }
        for (chunk, bytes) in chunks.zip(written) {
            // Of the region's own part: the first and last chunk may hold little of it.
            let limit = self.pages_of(chunk..chunk + 1).len() / HOT_PART;
            self.heat[chunk] = match self.heat[chunk] {
                Heat::Watched(of) if bytes > limit => Heat::Hot { left: of, of },
                _ => COLD,
            };
        }
    }
}

impl Engine for Tracked {
    fn name(&self) -> &'static str {
        "tracked"
    }

    fn collect(&mut self, note: Note<'_>) -> Result<(), TrackError> {
        self.collect_by(note, |it, note| it.ask(note))
    }

    fn collect_ahead(&mut self, note: Note<'_>) -> Result<(), TrackError> {
        self.collect_by(note, |it, note| it.ask_ahead(note))
    }

    fn declare(&mut self, bytes: Range<usize>) {
        self.declared.declare(bytes);
    }

    fn has_raced(&mut self) -> Option<bool> {
        for (heat, chunks) in self.stretches() {
            let pages = self.pages_of(chunks);
            if matches!(heat, Heat::Hot { .. }) || pages.is_empty() {
                continue;
            }
            self.runs.clear();
            self.tracker.peek(self.at(pages), &mut self.runs).ok()?;
            if !self.runs.is_empty() {
                return Some(true);
            }
        }
        Some(false)
    }
}
