//! Which pages of a window are free: runs of them, one for each operation under way.
//!
//! A page is free when nobody has it: neither the memory that it is a part of, nor an operation on that.

/// Some bytes of a window, whole pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageRun {
    first: usize,
    count: usize,
}

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

impl PageRun {
    /// The pages that some bytes of the window lie in.
    pub(crate) fn around(at: usize, bytes: usize) -> PageRun {
        let first = at / PAGE;
        PageRun { first, count: (at + bytes).div_ceil(PAGE) - first }
    }

    /// Its first byte.
    pub(crate) fn at(self) -> usize {
        self.first * PAGE
    }
}

/// The pages of a window.
#[derive(Debug)]
pub(crate) struct Pages {
    /// How many have each of them.
    users: Vec<u32>,
    /// Where the next search begins: behind what was taken last.
    next: usize,
}

impl Pages {
    /// So many, all free.
    pub(crate) fn new(count: usize) -> Pages {
        Pages { users: vec![0; count], next: 0 }
    }

    /// Takes pages one after the other for so many bytes; `None` where there are none now.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<PageRun> {
        let count = bytes.div_ceil(PAGE).max(1);
        let first = self.find(self.next, count).or_else(|| self.find(0, count))?;
        let run = PageRun { first, count };
        self.keep(run);
        self.next = first + count;
        Some(run)
    }

    /// Keeps pages that somebody has already: they are free when all have given them back.
    pub(crate) fn keep(&mut self, run: PageRun) {
        self.of(run).iter_mut().for_each(|users| *users = users.saturating_add(1));
    }

    /// Gives them back, once for each that has taken or kept them.
    pub(crate) fn give_back(&mut self, run: PageRun) {
        self.of(run).iter_mut().for_each(|users| *users = users.saturating_sub(1));
    }

    fn of(&mut self, run: PageRun) -> &mut [u32] {
        self.users.get_mut(run.first..run.first + run.count).unwrap_or_default()
    }

    fn find(&self, from: usize, count: usize) -> Option<usize> {
        let (mut first, mut found) = (from, 0);
        for (page, users) in self.users.iter().enumerate().skip(from) {
            match *users > 0 {
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
    fn pages_that_an_operation_keeps_are_free_only_after_it() {
        let mut pages = Pages::new(4);
        let run = pages.take(4 * PAGE).unwrap();
        let part = PageRun::around(PAGE + 512, PAGE);
        assert_eq!((part.at() / PAGE, part.count), (1, 2));
        pages.keep(part);
        pages.give_back(run);
        assert_eq!(pages.take(2 * PAGE), None, "the two in the middle are kept");
        pages.give_back(part);
        assert!(pages.take(4 * PAGE).is_some());
    }

    #[test]
    fn more_than_there_is_is_never_found() {
        let mut pages = Pages::new(4);
        assert_eq!(pages.take(5 * PAGE), None);
        assert!(pages.take(4 * PAGE).is_some());
    }
}
