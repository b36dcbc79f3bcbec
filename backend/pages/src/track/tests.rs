//! What cannot be reached from outside: the second scan of kernels that overlook dropped tables,
//! and the joining of runs.

use super::trial::Scratch;
use super::*;

const MIB: usize = 1 << 20;

#[test]
fn runs_that_touch_or_overlap_are_joined_and_earlier_entries_are_left_alone() {
    let mut runs = vec![0..10, 20..30, 40..50, 25..45, 60..70];
    merge(&mut runs, 1, 3);
    assert_eq!(runs, [0..10, 20..50, 60..70]);
    append(&mut runs, 3, 70..80);
    append(&mut runs, 3, 80..90);
    assert_eq!(runs, [0..10, 20..50, 60..70, 70..90]);
}

/// Both ways of looking agree where this kernel needs only one.
#[test]
fn dropped_stretches_are_found_with_and_without_a_scan_of_their_own() {
    let Ok(mut tracker) = WriteTracker::new() else {
        return println!("skipped: no write tracking here");
    };
    let scratch = Scratch::map(8 * MIB).expect("maps");
    let start = scratch.0.start.next_multiple_of(2 * MIB);
    let pages = start..start + 6 * MIB;
    let dropped = start + 2 * MIB..start + 4 * MIB;
    // The one scan alone is tried only where it is enough.
    for sees_dropped_tables in [false, tracker.sees_dropped_tables] {
        tracker.sees_dropped_tables = sees_dropped_tables;
        fill(&pages);
        tracker.watch(pages.clone()).expect("watches");
        drop_pages(&dropped);
        let last = pages.end - PAGE_BYTES..pages.end;
        drop_pages(&last);
        for (protecting, wanted) in [(false, 2), (true, 2), (true, 0)] {
            let mut found = Vec::new();
            tracker.find(pages.clone(), &mut found, protecting).expect("finds");
            assert_eq!(found, [dropped.clone(), last.clone()][..wanted]);
        }
    }
}

#[test]
fn the_scan_for_dropped_pages_finds_and_protects_them_alone() {
    let Ok(tracker) = WriteTracker::new() else {
        return println!("skipped: no write tracking here");
    };
    let scratch = Scratch::map(8 * MIB).expect("maps");
    let start = scratch.0.start.next_multiple_of(2 * MIB);
    let pages = start..start + 6 * MIB;
    fill(&(start..start + 4 * MIB));
    tracker.watch(pages.clone()).expect("watches");
    fill(&(start..start + PAGE_BYTES));
    let dropped = start + 2 * MIB..start + 4 * MIB;
    drop_pages(&dropped);
    for wanted in [vec![dropped], vec![]] {
        let mut found = Vec::new();
        tracker.scan(&pages, Wanted::Dropped, true, &mut found, 0).expect("scans");
        assert_eq!(found, wanted, "neither the written page nor the untouched ones");
    }
}

fn fill(pages: &Pages) {
    // SAFETY: the callers' ranges lie in scratch memory of their own, mapped writable.
    unsafe { std::ptr::write_bytes(pages.start as *mut u8, 1, pages.len()) };
}

fn drop_pages(pages: &Pages) {
    let at = pages.start as *mut libc::c_void;
    // SAFETY: the callers' ranges lie in scratch memory of their own, which nothing refers to.
    assert_eq!(unsafe { libc::madvise(at, pages.len(), libc::MADV_DONTNEED) }, 0);
}
