//! The engine that asks the kernel which pages were written.
//!
//! A first write to a page costs the writer some 1.2 us, so what is written in every version is
//! left unwatched and copied unasked; `tracked/heat.rs` says when.

mod heat;
mod pages;
mod place;

use std::ops::Range;

use heliostat_abi::snapshot::memory::CHUNK_BYTES;
use heliostat_backend_pages::live::LiveMemory;
use heliostat_backend_pages::track::{Pages, TrackError, WriteTracker};

use super::engine::{Declared, Engine, Note};
use super::ledger::PAGE_BYTES;
use heat::{Chunk, Query, Verdict, COLD};
use place::RegionSpan;

/// Watches the whole pages of a region; its partial pages at both ends always count as written.
pub struct Tracked {
    tracker: WriteTracker,
    place: RegionSpan,
    chunks: Vec<Chunk>,
    /// The kernel failed in the middle of an answer: all may have been written.
    is_doubtful: bool,
    declared: Declared,
    runs: Vec<Pages>,
}

impl Tracked {
    /// Begins to watch `memory`, whose first byte lies at `span.start` of its page.
    pub fn new(memory: LiveMemory, span: Range<usize>) -> Result<Self, TrackError> {
        let tracker = WriteTracker::new()?;
        let place = RegionSpan::new(memory.start(), span);
        let (chunks, runs) = (vec![COLD; place.chunks()], Vec::new());
        let (is_doubtful, declared) = (false, Declared::default());
        let it = Self { tracker, place, chunks, is_doubtful, declared, runs };
        if !it.place.whole_pages().is_empty() {
            it.tracker.watch(it.place.at(it.place.whole_pages()))?;
        }
        Ok(it)
    }

    /// Runs of neighbouring chunks that have watched pages and are asked about alike.
    fn stretches(&self) -> Vec<(Query, Range<usize>)> {
        let mut found: Vec<(Query, Range<usize>)> = Vec::new();
        for (chunk, it) in self.chunks.iter().enumerate() {
            match found.last_mut() {
                Some((way, chunks)) if *way == it.query() => chunks.end = chunk + 1,
                _ => found.push((it.query(), chunk..chunk + 1)),
            }
        }
        found.retain(|(_, chunks)| !self.place.pages_of(chunks.clone()).is_empty());
        found
    }

    /// Asks the kernel for what was written of `pages`. False when it does not know, because they
    /// were unmapped and mapped anew meanwhile: they are watched again, and count as written.
    fn find(&mut self, pages: Range<usize>, protecting: bool) -> Result<bool, TrackError> {
        self.runs.clear();
        let (asked, runs) = (self.place.at(pages.clone()), &mut self.runs);
        let answer = match protecting {
            true => self.tracker.take(asked, runs),
            false => self.tracker.peek(asked, runs),
        };
        match answer {
            Err(TrackError::Lost { .. }) => {
                self.runs.clear();
                self.tracker.watch(self.place.at(pages)).map(|()| false)
            }
            answer => answer.map(|()| true),
        }
    }

    /// Notes what the kernel says of watched chunks, and all of hot ones.
    fn ask(&mut self, note: Note<'_>) -> Result<(), TrackError> {
        for (way, chunks) in self.stretches() {
            let pages = self.place.pages_of(chunks.clone());
            match way {
                Query::Take => self.ask_watched(chunks, pages, note)?,
                Query::Look => self.look(chunks, pages, note)?,
                Query::Believe => {
                    note(pages);
                    self.chunks[chunks].iter_mut().for_each(Chunk::believed);
                }
                Query::Watch => {
                    note(pages.clone());
                    // Unwatched until now, so all of it seems written: the next time will tell.
                    self.find(pages, true)?;
                    self.chunks[chunks].iter_mut().for_each(Chunk::watched);
                }
            }
        }
        Ok(())
    }

    /// Notes what was written and watches all of it from now on, also what was not watched: of
    /// hot chunks everything counts as written.
    fn ask_ahead(&mut self, note: Note<'_>) -> Result<(), TrackError> {
        for (way, chunks) in self.stretches() {
            let pages = self.place.pages_of(chunks.clone());
            let is_known = self.find(pages.clone(), true)?;
            match way {
                Query::Take | Query::Look if is_known => self.note_runs(note),
                _ => note(pages),
            }
            self.chunks[chunks].iter_mut().for_each(Chunk::watched_between);
        }
        Ok(())
    }

    fn note_runs(&self, note: Note<'_>) {
        self.runs.iter().for_each(|run| note(self.place.bytes(run)));
    }

    /// All that `ask` names, and what nobody has to ask for.
    fn collect_by(
        &mut self,
        note: Note<'_>,
        ask: fn(&mut Self, Note<'_>) -> Result<(), TrackError>,
    ) -> Result<(), TrackError> {
        self.place.edges().into_iter().filter(|edge| !edge.is_empty()).for_each(&mut *note);
        self.declared.collect(note)?;
        if self.is_doubtful {
            note(self.place.span.clone());
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
        if !self.find(pages.clone(), true)? {
            self.begin_anew(chunks, pages, note);
            return Ok(());
        }
        self.note_runs(note);
        for (chunk, written) in chunks.clone().zip(self.place.written(&self.runs, chunks)) {
            let pages = self.place.page_count(chunk);
            self.chunks[chunk].judge_taken(written, pages);
        }
        Ok(())
    }

    /// Looks at chunks before it is decided what of them to protect.
    fn look(
        &mut self,
        chunks: Range<usize>,
        pages: Range<usize>,
        note: Note<'_>,
    ) -> Result<(), TrackError> {
        if !self.find(pages.clone(), false)? {
            self.begin_anew(chunks, pages, note);
            return Ok(());
        }
        self.note_runs(note);
        for (chunk, written) in chunks.clone().zip(self.place.written(&self.runs, chunks)) {
            let (all, pages) =
                (self.place.pages_of(chunk..chunk + 1), self.place.page_count(chunk));
            match self.chunks[chunk].judge_seen(written, pages) {
                Verdict::AllWritten => note(all),
                Verdict::Take => self.protect(chunk, all, note)?,
                Verdict::Protect(these) => {
                    for run in these.runs() {
                        let at = chunk * CHUNK_BYTES;
                        let run = at + run.start * PAGE_BYTES..at + run.end * PAGE_BYTES;
                        self.protect(chunk, run, note)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Watches `pages` of a chunk again. What was written of them since the look is noted as well:
    /// it will not be told again.
    fn protect(
        &mut self,
        chunk: usize,
        pages: Range<usize>,
        note: Note<'_>,
    ) -> Result<(), TrackError> {
        match self.find(pages, true)? {
            true => self.note_runs(note),
            false => {
                // Of the rest of the chunk nothing is known either, nor whether it is watched.
                let all = self.place.pages_of(chunk..chunk + 1);
                self.tracker.watch(self.place.at(all.clone()))?;
                self.begin_anew(chunk..chunk + 1, all, note);
            }
        }
        Ok(())
    }

    /// Chunks that are watched again because the kernel knew nothing of them.
    fn begin_anew(&mut self, chunks: Range<usize>, pages: Range<usize>, note: Note<'_>) {
        note(pages);
        self.chunks[chunks].fill(COLD);
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
        // Of pages that are not watched nobody knows; of the partial ones at the ends it is not asked.
        let is_watched = |chunk: &Chunk| chunk.unwatched().is_empty();
        let is_any_watched = !self.place.whole_pages().is_empty();
        let is_all_watched = is_any_watched && self.chunks.iter().all(is_watched);
        for (way, chunks) in self.stretches() {
            if matches!(way, Query::Believe | Query::Watch) {
                continue;
            }
            self.runs.clear();
            self.tracker
                .peek(self.place.at(self.place.pages_of(chunks.clone())), &mut self.runs)
                .ok()?;
            let written = self.place.written(&self.runs, chunks.clone());
            let mut both = self.chunks[chunks].iter().zip(written);
            if both.any(|(chunk, written)| !written.minus(chunk.unwatched()).is_empty()) {
                return Some(true);
            }
        }
        is_all_watched.then_some(false)
    }
}
