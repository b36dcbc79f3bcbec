//! How long a file is left alone after a writer has broken its lease.
//!
//! A lease costs the writer that breaks it a wait, and its readers a mapping. A file that is written
//! again and again therefore stays the kernel's for twice as long each time; one whose writers
//! leave it alone for long enough starts afresh.

use std::collections::{HashMap, VecDeque};

use crate::key::FileKey;

/// After the first break.
pub const PAUSE_SHORTEST_NS: u64 = 10_000_000;
/// Never longer.
pub const PAUSE_LONGEST_NS: u64 = 10_000_000_000;
/// Pauses after which a break counts as a first one again. With 16 a writer that comes at regular
/// intervals is met by a lease at most once in the interval, and by none at all for most of ten
/// seconds when it comes more often than 16 times in that time.
pub const FORGIVEN_AFTER: u64 = 16;
/// Files whose breaks are remembered; the one broken longest ago is forgotten first.
pub const PAUSES_MAX: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Pause {
    broken_ns: u64,
    length_ns: u64,
}

/// The files that were broken lately.
#[derive(Clone, Default, Debug)]
pub(crate) struct Pauses {
    known: HashMap<FileKey, Pause>,
    /// Their keys, the one broken longest ago first.
    order: VecDeque<FileKey>,
}

impl Pauses {
    /// How much longer the file is left alone; `None` when it is not.
    pub(crate) fn left_ns(&self, key: FileKey, now_ns: u64) -> Option<u64> {
        let pause = self.known.get(&key)?;
        let until_ns = pause.broken_ns.saturating_add(pause.length_ns);
        until_ns.checked_sub(now_ns).filter(|left_ns| *left_ns > 0)
    }

    /// A lease on the file was broken.
    pub(crate) fn broken(&mut self, key: FileKey, now_ns: u64) {
        let length_ns = match self.known.get(&key) {
            Some(last) if now_ns.saturating_sub(last.broken_ns) < last.forgiven_ns() => {
                (last.length_ns * 2).min(PAUSE_LONGEST_NS)
            }
            _ => PAUSE_SHORTEST_NS,
        };
        let known = self.known.insert(key, Pause { broken_ns: now_ns, length_ns }).is_some();
        if known {
            self.order.retain(|other| *other != key);
        }
        self.order.push_back(key);
        if self.order.len() > PAUSES_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        assert_eq!(self.known.len(), self.order.len());
        self.order.len()
    }
}

impl Pause {
    fn forgiven_ns(self) -> u64 {
        self.length_ns.saturating_mul(FORGIVEN_AFTER)
    }
}
