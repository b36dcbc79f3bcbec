//! Which pages of a window are free: runs of them, one for each operation under way.

/// Some bytes of a window, whole pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageRun {
    first: usize,
    count: usize,
}

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

impl PageRun {
    /// Its first byte.
    pub(crate) fn at(self) -> usize {
        self.first * PAGE
    }
}

/// The pages of a window.
#[derive(Debug)]
pub(crate) struct Pages {
    taken: Vec<bool>,
    /// Where the next search begins: behind what was taken last.
    next: usize,
}

impl Pages {
    /// So many, all free.
    pub(crate) fn new(count: usize) -> Pages {
        Pages { taken: vec![false; count], next: 0 }
    }

    /// Takes pages one after the other for so many bytes; `None` where there are none now.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<PageRun> {
        let count = bytes.div_ceil(PAGE).max(1);
        let first = self.find(self.next, count).or_else(|| self.find(0, count))?;
        self.taken.get_mut(first..first + count)?.fill(true);
        self.next = first + count;
        Some(PageRun { first, count })
    }

    /// Gives them back.
    pub(crate) fn give_back(&mut self, run: PageRun) {
        if let Some(pages) = self.taken.get_mut(run.first..run.first + run.count) {
            pages.fill(false);
        }
    }

    fn find(&self, from: usize, count: usize) -> Option<usize> {
        let (mut first, mut found) = (from, 0);
        for (page, is_taken) in self.taken.iter().enumerate().skip(from) {
            match is_taken {
                true => (first, found) = (page + 1, 0),
                false => found += 1,
            }
            if found == count {
                return Some(first);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_never_overlap_and_all_pages_come_back() {
        let mut pages = Pages::new(8);
        let runs: Vec<_> = [1, PAGE + 1, 3 * PAGE].map(|bytes| pages.take(bytes).unwrap()).into();
        assert_eq!(runs.iter().map(|run| run.at() / PAGE).collect::<Vec<_>>(), [0, 1, 3]);
        assert_eq!(pages.take(3 * PAGE), None);
        pages.give_back(runs[1]);
        assert_eq!(pages.take(2 * PAGE).map(PageRun::at), Some(6 * PAGE));
        assert_eq!(pages.take(2 * PAGE).map(PageRun::at), Some(PAGE));
        assert_eq!(pages.take(1), None);
        [runs[0], runs[2]].into_iter().for_each(|run| pages.give_back(run));
        assert_eq!(pages.take(3 * PAGE).map(PageRun::at), Some(3 * PAGE));
    }

    #[test]
    fn more_than_there_is_is_never_found() {
        let mut pages = Pages::new(4);
        assert_eq!(pages.take(5 * PAGE), None);
        assert!(pages.take(4 * PAGE).is_some());
    }
}
