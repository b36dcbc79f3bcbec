//! What was transferred of the files that sessions have open, for people: which way, and how much.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use heliostat_abi::file::delegated::Way;
use heliostat_server_loop::Counts;

use super::reason::WayReason;

/// Counters of one open file; the server loop writes them, the control plane reads.
#[derive(Default)]
pub struct FileStats {
    transfers: [AtomicU64; Way::SERVED.len()],
    bytes: [AtomicU64; Way::SERVED.len()],
    followed: AtomicU64,
    /// Blocks of its head that had been read ahead when its session came to it.
    found: AtomicU64,
    /// Reads that a program could have made from a mapping as well as by a server.
    small: AtomicU64,
    reasons: [AtomicU64; WayReason::ALL.len()],
    /// Why the last read took its way, and the last write, as the reason's number and one.
    last: [AtomicU64; 2],
}

/// Reads of so many bytes at most are worth a mapping (docs/files.md).
pub const SMALL_BYTES: u64 = 32 * 1024;

impl FileStats {
    /// Counts a transfer that has ended.
    #[inline]
    pub fn ended(&self, way: Way, bytes: u64) {
        let place = way as usize;
        if let (Some(count), Some(sum)) = (self.transfers.get(place), self.bytes.get(place)) {
            Counts::add(count, 1);
            Counts::add(sum, bytes);
        }
        if matches!(way, Way::Cached | Way::Filled) && bytes <= SMALL_BYTES {
            Counts::add(&self.small, 1);
        }
    }

    /// Counts why a transfer takes its way.
    #[inline]
    pub(crate) fn chose(&self, reason: WayReason, is_read: bool) {
        let number = reason as usize;
        if let (Some(count), Some(last)) =
            (self.reasons.get(number), self.last.get(usize::from(!is_read)))
        {
            Counts::add(count, 1);
            last.store(number as u64 + 1, Relaxed);
        }
    }

    /// Returns each reason for which transfers took their ways, with how many there were.
    pub fn reasons(&self) -> impl Iterator<Item = (WayReason, u64)> + '_ {
        let each = WayReason::ALL.into_iter().zip(&self.reasons);
        let each = each.map(|(reason, count)| (reason, count.load(Relaxed)));
        each.filter(|(_, count)| *count > 0)
    }

    /// Returns why the last read took its way, and the last write.
    pub fn last(&self) -> [Option<WayReason>; 2] {
        let reason = |last: &AtomicU64| {
            let number = (last.load(Relaxed) as usize).checked_sub(1)?;
            WayReason::ALL.get(number).copied()
        };
        [reason(&self.last[0]), reason(&self.last[1])]
    }

    /// Returns how many reads had no more than [`SMALL_BYTES`] and went through the cache.
    pub fn small(&self) -> u64 {
        self.small.load(Relaxed)
    }

    /// Counts blocks that were there because they were read ahead.
    pub(crate) fn count_found(&self, blocks: u64) {
        Counts::add(&self.found, blocks);
    }

    /// Returns how many such blocks there were.
    pub fn found(&self) -> u64 {
        self.found.load(Relaxed)
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

    #[test]
    fn reasons_are_counted_and_the_last_of_reads_and_of_writes_is_told() {
        let stats = FileStats::default();
        assert_eq!(stats.last(), [None, None]);
        for (reason, is_read) in
            [(WayReason::Asked, true), (WayReason::Write, false), (WayReason::Hit, true)]
        {
            stats.chose(reason, is_read);
        }
        stats.chose(WayReason::Hit, true);
        assert_eq!(stats.last(), [Some(WayReason::Hit), Some(WayReason::Write)]);
        let counted: Vec<_> = stats.reasons().collect();
        assert_eq!(counted, [(WayReason::Asked, 1), (WayReason::Write, 1), (WayReason::Hit, 2)]);
    }
}
