//! Who closes next, and whose share of the threads is used up: a line for each holder, in turn.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_base::mapping::SharedMapping;
use heliostat_server_loop::pool::thread_shares;
use heliostat_server_loop::pool_lines;
use heliostat_service_grant::{Holder, Quota, Shares, Used};

use super::CLOSERS_MAX;

/// How often those that others still use are looked at.
const LOOK: Duration = Duration::from_millis(5);

/// A descriptor to be closed.
pub struct Item {
    /// The descriptor.
    pub fd: Arc<OwnedFd>,
    /// Of memory: its mapping here, which ends before.
    pub mapping: Option<Arc<SharedMapping>>,
    /// Whose share its close counts against.
    pub holder: Holder,
    /// Others use it on: its options are theirs.
    pub is_shared: bool,
}

/// What waits, and whose threads are away with one.
pub struct Lines {
    waiting: pool_lines::Lines<Item>,
    /// Those that others still use.
    used: Vec<Item>,
    /// When these were last looked at.
    looked: Option<Instant>,
    /// Descriptors that are not closed yet.
    open: Quota,
}

impl Default for Lines {
    fn default() -> Self {
        Lines {
            waiting: pool_lines::Lines::new(closers()),
            used: Vec::new(),
            looked: None,
            open: Quota::new(Shares::whole(u64::MAX)),
        }
    }
}

impl Lines {
    /// Puts a descriptor in its holder's line.
    pub fn push(&mut self, item: Item) {
        self.open.take_anyway(item.holder, 1);
        self.waiting.push(item.holder, item);
    }

    /// The next one that nobody uses any more and whose holder may have a thread, which is away from
    /// now on. Whoever has had its turn is the last.
    pub fn take(&mut self, now: Instant) -> Option<Item> {
        self.look(now);
        let used = &mut self.used;
        self.waiting.take(|line| {
            while let Some(item) = line.pop_front() {
                if Arc::strong_count(&item.fd) == 1 {
                    return Some(item);
                }
                used.push(item);
            }
            None
        })
    }

    /// A thread is back.
    pub fn closed(&mut self, holder: Holder) {
        self.waiting.is_back(holder);
        self.open.give_back(holder, 1);
    }

    /// When those that others use are to be looked at again.
    pub fn due(&self) -> Option<Instant> {
        let next_look = || self.looked.map_or_else(Instant::now, |looked| looked + LOOK);
        (!self.used.is_empty()).then(next_look)
    }

    /// How many are not closed yet.
    pub fn used(&self, holder: Holder) -> Used {
        self.open.used(holder)
    }

    /// Puts those that nobody else uses any more in line, at their time.
    fn look(&mut self, now: Instant) {
        if self.used.is_empty() || self.looked.is_some_and(|looked| now < looked + LOOK) {
            return;
        }
        self.looked = Some(now);
        let all = std::mem::take(&mut self.used);
        let (used, free): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|item| Arc::strong_count(&item.fd) > 1);
        self.used = used;
        free.into_iter().for_each(|item| self.waiting.push(item.holder, item));
    }
}

/// Shares of the threads.
fn closers() -> Shares {
    thread_shares(CLOSERS_MAX as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(holder: Holder) -> Item {
        Item {
            fd: Arc::new(std::io::pipe().unwrap().1.into()),
            mapping: None,
            holder,
            is_shared: false,
        }
    }

    fn taken(lines: &mut Lines, holder: Holder) -> usize {
        let all = std::iter::from_fn(|| lines.take(Instant::now()));
        all.filter(|item| item.holder == holder).count()
    }

    #[test]
    fn whoever_hangs_leaves_threads_to_others() {
        let mut lines = Lines::default();
        let shares = closers();
        for uid in 1..=20 {
            (0..20).for_each(|_| lines.push(item(Holder::user(uid))));
            let wanted = if uid * shares.user as u32 <= 48 { shares.user } else { 0 };
            assert!(taken(&mut lines, Holder::user(uid)) as u64 >= wanted, "user {uid}");
        }
        let root = Holder::trusted(0);
        lines.push(item(root));
        assert_eq!(taken(&mut lines, root), 1);
        assert_eq!(lines.used(Holder::user(1)).user, 20);
    }

    #[test]
    fn a_sealed_program_that_hangs_leaves_threads_to_its_user() {
        let mut lines = Lines::default();
        let sealed = Holder::user(1).sealed_by(7);
        (0..20).for_each(|_| lines.push(item(sealed)));
        assert_eq!(taken(&mut lines, sealed) as u64, closers().sealed);
        lines.push(item(Holder::user(1)));
        assert_eq!(taken(&mut lines, Holder::user(1)), 1);
        lines.closed(sealed);
        assert_eq!(taken(&mut lines, sealed), 1);
    }
}
