//! What was transferred of the files that sessions have open, for people: which way, and how much.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use heliostat_abi::file::delegated::Way;
use heliostat_server_loop::Counts;

/// Counters of one open file; the server loop writes them, the control plane reads.
#[derive(Default)]
pub struct FileStats {
    transfers: [AtomicU64; Way::SERVED.len()],
    bytes: [AtomicU64; Way::SERVED.len()],
    followed: AtomicU64,
}

impl FileStats {
    /// Counts a transfer that has ended.
    #[inline]
    pub fn ended(&self, way: Way, bytes: u64) {
        let way = way as usize;
        if let (Some(count), Some(sum)) = (self.transfers.get(way), self.bytes.get(way)) {
            Counts::add(count, 1);
            Counts::add(sum, bytes);
        }
    }

    /// Counts a read for which the cache was filled because another session reads the file behind.
    pub(crate) fn count_followed(&self) {
        Counts::add(&self.followed, 1);
    }

    /// Returns how many such reads there were.
    pub fn followed(&self) -> u64 {
        self.followed.load(Relaxed)
    }

    /// Returns each way that was taken, with its transfers and bytes.
    pub fn taken(&self) -> impl Iterator<Item = (Way, u64, u64)> + '_ {
        let each = Way::SERVED.into_iter().zip(self.transfers.iter().zip(&self.bytes));
        let each = each.map(|(way, (count, sum))| (way, count.load(Relaxed), sum.load(Relaxed)));
        each.filter(|(way, transfers, _)| *way != Way::None && *transfers > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ways_that_were_taken_are_told() {
        let stats = FileStats::default();
        stats.ended(Way::Cached, 10);
        stats.ended(Way::Cached, 5);
        stats.ended(Way::None, 0);
        assert_eq!(stats.taken().collect::<Vec<_>>(), [(Way::Cached, 2, 15)]);
    }
}
