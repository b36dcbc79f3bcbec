//! Where a watched region lies: bytes, pages and chunks of it, and addresses.

use std::ops::Range;

use heliostat_abi::snapshot::memory::CHUNK_BYTES;
use heliostat_backend_pages::track::Pages;

use super::pages::PageSet;
use crate::ledger::PAGE_BYTES;

/// Bytes are counted from the page in which the region begins.
pub(super) struct RegionSpan {
    /// Address of that page.
    base: usize,
    pub(super) span: Range<usize>,
}

impl RegionSpan {
    /// For memory at address `start` whose first byte is `span.start`.
    pub(super) fn new(start: usize, span: Range<usize>) -> Self {
        Self { base: start - span.start, span }
    }

    pub(super) fn chunks(&self) -> usize {
        self.span.end.div_ceil(CHUNK_BYTES)
    }

    pub(super) fn bytes(&self, run: &Pages) -> Range<usize> {
        run.start - self.base..run.end - self.base
    }

    /// Their addresses.
    pub(super) fn at(&self, bytes: Range<usize>) -> Pages {
        self.base + bytes.start..self.base + bytes.end
    }

    /// The pages that are the region's alone.
    pub(super) fn whole_pages(&self) -> Range<usize> {
        let start = self.span.start.next_multiple_of(PAGE_BYTES);
        let end = self.span.end / PAGE_BYTES * PAGE_BYTES;
        start..end.max(start)
    }

    /// Partial pages at both ends: the page's other bytes are not ours to watch.
    pub(super) fn edges(&self) -> [Range<usize>; 2] {
        let whole = self.whole_pages();
        [
            self.span.start..whole.start.min(self.span.end),
            whole.end.max(self.span.start)..self.span.end,
        ]
    }

    /// The watched bytes of some chunks.
    pub(super) fn pages_of(&self, chunks: Range<usize>) -> Range<usize> {
        let whole = self.whole_pages();
        let bytes = chunks.start * CHUNK_BYTES..chunks.end * CHUNK_BYTES;
        bytes.start.max(whole.start)..bytes.end.min(whole.end)
    }

    /// Watched pages of a chunk.
    pub(super) fn page_count(&self, chunk: usize) -> usize {
        self.pages_of(chunk..chunk + 1).len() / PAGE_BYTES
    }

    /// Of each chunk, the pages that lie in the runs.
    pub(super) fn written(&self, runs: &[Pages], chunks: Range<usize>) -> Vec<PageSet> {
        let mut written = vec![PageSet::EMPTY; chunks.len()];
        for run in runs {
            let Range { start: mut at, end } = self.bytes(run);
            while at < end {
                let chunk = at / CHUNK_BYTES;
                let (begins, next) = (chunk * CHUNK_BYTES, end.min((chunk + 1) * CHUNK_BYTES));
                let pages = (at - begins) / PAGE_BYTES..(next - begins) / PAGE_BYTES;
                written[chunk - chunks.start].insert(pages);
                at = next;
            }
        }
        written
    }
}
