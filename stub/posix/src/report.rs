//! What this process tells the control plane of its connections: counts and one line each.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use heliostat_abi::code::{Native, Unheld, Unlogged, Unmapped, Unoffloaded};
use heliostat_abi::limits::REPORT_ENTRIES_MAX;
use heliostat_abi::offload::Group;
use heliostat_abi::session::report::{self, Counter, Entry, OffloadCount};
use heliostat_abi::session::report::{ENTRY_RECEIVED, ENTRY_SENT};
use heliostat_base::lock::Lock;
use heliostat_base::mapping::SharedMapping;

use crate::thread::Critical;

static CURRENT: Lock<Option<Arc<ReportPage>>> = Lock::new(None);
/// Counts of this process before and between sessions; added to the page when one arrives. By
/// offset from the counters' base, reasons included.
static EARLY: Lock<[u64; PLACES]> = Lock::new([0; PLACES]);
/// Eight-byte places from the first counter to the last word that is added to.
const PLACES: usize = (report::ENTRIES - report::COUNTER_BASE) / 8;

/// A session's report page; the stub is its only writer.
struct ReportPage {
    memory: SharedMapping,
    used: Lock<[u64; REPORT_ENTRIES_MAX / 64]>,
}

impl ReportPage {
    fn new(memory: SharedMapping) -> Self {
        Self { memory, used: Lock::new([0; REPORT_ENTRIES_MAX / 64]) }
    }

    fn tell_whole(&self, reason: Native) {
        self.memory.atomic_u32(report::WHOLE).store(reason as u32, Relaxed);
    }

    fn take_place(&self) -> Option<usize> {
        let mut used = self.used.lock();
        let (word, bits) = used.iter_mut().enumerate().find(|(_, bits)| **bits != u64::MAX)?;
        let bit = bits.trailing_ones() as usize;
        *bits |= 1 << bit;
        let place = word * 64 + bit;
        // Before the line is written: who reads up to here finds it or nothing.
        self.memory.atomic_u32(report::ENTRIES_USED).fetch_max(place as u32 + 2, Relaxed);
        Some(place)
    }
}

/// One connection's line; dropping it clears the line.
pub struct Line {
    page: Arc<ReportPage>,
    place: usize,
    /// True for the accepting side.
    pub accepted: bool,
}

impl Line {
    /// Updates the received bytes.
    #[inline]
    pub fn received(&self, total: u64) {
        let at = report::entry(self.place) + ENTRY_RECEIVED;
        self.page.memory.atomic_u64(at).store(total, Relaxed);
    }

    /// Updates the sent bytes.
    #[inline]
    pub fn sent(&self, total: u64) {
        let at = report::entry(self.place) + ENTRY_SENT;
        self.page.memory.atomic_u64(at).store(total, Relaxed);
    }

    /// Writes the whole line anew.
    pub fn write(&self, entry: &Entry) {
        let _ = self.page.memory.copy_in(report::entry(self.place), &entry.encode());
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let _ = self.page.memory.zero(report::entry(self.place), report::ENTRY_BYTES);
        self.page.used.lock()[self.place / 64] &= !(1 << (self.place % 64));
    }
}

/// Makes the page of a session that has just been greeted the current one.
pub fn install(page: SharedMapping) {
    let page = Arc::new(ReportPage::new(page));
    let mut current = CURRENT.lock();
    let mut early = EARLY.lock();
    for (place, count) in early.iter_mut().enumerate() {
        let at = report::COUNTER_BASE + place * 8;
        page.memory.atomic_u64(at).fetch_add(std::mem::take(count), Relaxed);
    }
    page.tell_whole(crate::native_as_a_whole());
    *current = Some(page);
}

/// Says why the program is native as a whole, now and in every page to come.
pub fn tell_whole(reason: Native) {
    if let Some(page) = CURRENT.lock().as_ref() {
        page.tell_whole(reason);
    }
}

/// A line for a connection; `None` when there is no page or no place (then it is counted).
pub fn line(entry: &Entry) -> Option<Line> {
    let _critical = Critical::enter();
    let page = CURRENT.lock().clone()?;
    let Some(place) = page.take_place() else {
        count(Counter::Unlisted);
        return None;
    };
    let line = Line { page, place, accepted: entry.accepted };
    line.write(entry);
    Some(line)
}

/// Adds one to a counter.
pub fn count(counter: Counter) {
    count_many(counter, 1);
}

/// Adds `many` to a counter.
pub fn count_many(counter: Counter, many: u64) {
    add(report::counter(counter), many);
}

/// Counts a connection that is native from the start.
pub fn count_native(reason: Native) {
    count(Counter::Native);
    add(report::reason(reason), 1);
}

/// Counts a direct stream that went native.
pub fn count_demoted(reason: Native) {
    count(Counter::Demoted);
    add(report::reason(reason), 1);
}

/// As `count_demoted`, where a signal handler may have interrupted whoever holds the page: then it
/// is not counted.
pub fn count_demoted_at_exit(reason: Native) {
    let Some(current) = CURRENT.try_lock() else { return };
    let Some(page) = current.as_ref() else { return };
    for at in [report::counter(Counter::Demoted), report::reason(reason)] {
        page.memory.atomic_u64(at).fetch_add(1, Relaxed);
    }
}

/// Counts an open file whose reads stay the kernel's, or are again.
pub fn count_unmapped(reason: Unmapped) {
    add(report::file_reason(reason), 1);
}

/// Counts a flush of a durable file that went to the file where there is a log.
pub fn count_unlogged(reason: Unlogged) {
    add(report::unlogged_reason(reason), 1);
}

/// Counts a flush of a durable file that was waited for.
pub fn count_unheld(reason: Unheld) {
    add(report::unheld_reason(reason), 1);
}

/// Counts calls of a group that kernel cores made, or that their threads made.
pub fn count_offloaded(group: Group, count: OffloadCount, many: u64) {
    if many == 0 {
        return;
    }
    add(report::offload_group(group, count), many);
    if count == OffloadCount::Offloaded {
        count_many(Counter::Offloaded, many);
    }
}

/// Counts calls that their threads made, for this reason.
pub fn count_unoffloaded(reason: Unoffloaded, many: u64) {
    if many != 0 && reason != Unoffloaded::None {
        add(report::unoffloaded_reason(reason), many);
    }
}

/// Says what a call of a group takes, in ns, as measured last.
pub fn tell_offload_cost(group: Group, count: OffloadCount, ns: u64) {
    let _critical = Critical::enter();
    let current = CURRENT.lock();
    if let Some(page) = current.as_ref() {
        page.memory.atomic_u64(report::offload_group(group, count)).store(ns, Relaxed);
    }
}

fn add(offset: usize, many: u64) {
    let _critical = Critical::enter();
    // By a name, so that it is let go before the section ends.
    let current = CURRENT.lock();
    match current.as_ref() {
        Some(page) => {
            page.memory.atomic_u64(offset).fetch_add(many, Relaxed);
        }
        None => {
            let mut early = EARLY.lock();
            early[(offset - report::COUNTER_BASE) / 8] += many;
        }
    }
}

/// In the child of a fork: the parent's page is not ours.
pub fn forget_in_forked_child() {
    CURRENT.reset_in_forked_child();
    EARLY.reset_in_forked_child();
    std::mem::forget(CURRENT.lock().take());
    *EARLY.lock() = [0; PLACES];
}
