//! The engine that asks the kernel which pages another program wrote.
//!
//! What is mapped changes while nobody looks: what is new counts as written and is watched from
//! then on, and so does what was mapped anew in place of something else (the kernel says so).
//! There are no hot chunks here as in `Tracked`: they would be copied while the program stands.

use std::ops::Range;
use std::sync::Arc;

use heliostat_backend_pages::track::{Pages, TrackError, WriteTracker};

use super::pieces::{overlap, without};
use super::Target;
use crate::engine::{Engine, Note};

/// Watches what is mapped privately of a range of another program's memory.
pub(super) struct Watched {
    target: Arc<Target>,
    /// Address of the page in which the region begins.
    base: usize,
    span: Range<usize>,
    /// What is watched, in order.
    watched: Vec<Pages>,
    /// What could be read when it was last asked; the rest was zeros.
    readable: Vec<Pages>,
    /// The kernel failed in the middle of an answer: all may have been written.
    is_doubtful: bool,
    declared: Vec<Range<usize>>,
}

impl Watched {
    /// For a region at `span` behind the page boundary `base`. Nothing is watched yet.
    pub(super) fn new(target: Arc<Target>, base: usize, span: Range<usize>) -> Self {
        let (watched, readable, declared) = (Vec::new(), Vec::new(), Vec::new());
        Self { target, base, span, watched, readable, is_doubtful: false, declared }
    }

    /// What is mapped of the region now: all of it, and what of it can be watched.
    fn mapped(&self) -> (Vec<Pages>, Vec<Pages>) {
        let end = self.base + self.span.end.next_multiple_of(super::PAGE_BYTES);
        let region = std::slice::from_ref(&(self.base..end)).to_vec();
        let mapped = self.target.mapped();
        let pages = |is_wanted: fn(&super::Part) -> bool| -> Vec<Pages> {
            let wanted = mapped.iter().filter(|part| is_wanted(part));
            overlap(&wanted.map(|part| part.pages.clone()).collect::<Vec<_>>(), &region)
        };
        (pages(|_| true), pages(|part| part.is_private))
    }

    fn ask(&mut self, tracker: &WriteTracker, note: Note<'_>) -> Result<(), TrackError> {
        let (base, limit) = (self.base, self.span.end);
        let mut note = |pages: &Pages| note(pages.start - base..(pages.end - base).min(limit));
        let (readable, private) = self.mapped();
        // What is gone reads as zeros, which is another content than before.
        without(&self.readable, &readable).iter().for_each(&mut note);
        let (mut watched, mut runs) = (Vec::new(), Vec::new());
        for known in overlap(&private, &self.watched) {
            match tracker.take(known.clone(), &mut runs) {
                Ok(()) => watched.push(known),
                Err(TrackError::Lost { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        runs.iter().for_each(&mut note);
        for fresh in without(&readable, &watched) {
            note(&fresh);
            for part in overlap(std::slice::from_ref(&fresh), &private) {
                // What cannot be watched (another watches it, or it went meanwhile) counts as
                // written every time.
                if tracker.watch(part.clone()).is_ok() {
                    watched.push(part);
                }
            }
        }
        watched.sort_unstable_by_key(|it| it.start);
        (self.watched, self.readable) = (watched, readable);
        Ok(())
    }
}

impl Engine for Watched {
    /// What most of the region is subject to: of memory that another watches, its edges may be
    /// left for this engine.
    fn name(&self) -> &'static str {
        let bytes = |ranges: &[Pages]| ranges.iter().map(|it| it.len()).sum::<usize>();
        match bytes(&self.watched) < bytes(&self.readable) / 2 {
            true => "whole",
            false => "tracked",
        }
    }

    fn collect(&mut self, note: Note<'_>) -> Result<(), TrackError> {
        self.declared.drain(..).for_each(&mut *note);
        if self.is_doubtful {
            note(self.span.clone());
        }
        // Set for the time of asking: what was taken before an error is not told again.
        self.is_doubtful = true;
        let target = self.target.clone();
        match &target.tracker {
            Some(tracker) => self.ask(tracker, note)?,
            None => note(self.span.clone()),
        }
        self.is_doubtful = false;
        Ok(())
    }

    fn declare(&mut self, bytes: Range<usize>) {
        self.declared.push(bytes);
    }

    fn has_raced(&mut self) -> Option<bool> {
        None
    }
}
