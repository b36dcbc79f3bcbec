//! One thread's own pages: what is reported, and what is called lost.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::sync::atomic::Ordering;

use crate::memory::{tracker, Memory, PAGE};
use heliostat_backend_pages::track::{TrackError, WriteTracker};

#[test]
fn single_stores_are_found_exactly_and_neighbours_are_one_run() {
    let Some(tracker) = tracker() else { return };
    for memory in [Memory::of_pages(100), Memory::shared_of_pages(100)] {
        memory.fill();
        tracker.watch(memory.all()).expect("watches");
        assert_eq!(memory.taken(&tracker), []);
        [3, 50, 51, 99].iter().for_each(|&page| memory.store(page));
        let wanted = [memory.pages(3, 4), memory.pages(50, 52), memory.pages(99, 100)];
        let earlier = 0..PAGE;
        let mut written = vec![earlier.clone()];
        tracker.peek(memory.all(), &mut written).expect("peeks");
        assert_eq!(written[0], earlier, "appended, not replaced");
        assert_eq!(written[1..], wanted);
        assert_eq!(memory.taken(&tracker), wanted, "a peek forgets nothing");
        assert_eq!(memory.taken(&tracker), []);
        memory.store(50);
        assert_eq!(memory.taken(&tracker), [memory.pages(50, 51)], "protected again");
    }
}

#[test]
fn a_take_of_one_part_leaves_the_others() {
    let Some(tracker) = tracker() else { return };
    let memory = Memory::of_pages(10);
    tracker.watch(memory.all()).expect("watches");
    [1, 5, 6].iter().for_each(|&page| memory.store(page));
    let mut written = Vec::new();
    tracker.take(memory.pages(0, 6), &mut written).expect("takes");
    assert_eq!(written, [memory.pages(1, 2), memory.pages(5, 6)]);
    assert_eq!(memory.taken(&tracker), [memory.pages(6, 7)]);
    tracker.watch(memory.pages(3, 3)).expect("nothing is nothing");
}

#[test]
fn untouched_pages_stay_clean_when_read_and_dropped_ones_are_reported() {
    let Some(tracker) = tracker() else { return };
    let memory = Memory::of_pages(2048);
    tracker.watch(memory.all()).expect("watches");
    assert_eq!(memory.taken(&tracker), []);
    assert_eq!(memory.word(9, 0).load(Ordering::Relaxed), 0);
    assert_eq!(memory.taken(&tracker), []);
    memory.fill();
    assert_eq!(memory.taken(&tracker), [memory.all()]);
    memory.advise(memory.pages(4, 5), libc::MADV_DONTNEED);
    memory.advise(memory.pages(512, 1536), libc::MADV_DONTNEED);
    assert_eq!(memory.taken(&tracker), [memory.pages(4, 5), memory.pages(512, 1536)]);
    assert_eq!(memory.taken(&tracker), []);
}

/// A huge page may be dropped whole, and then not even its page table is left.
#[test]
fn a_huge_page_is_tracked_by_small_pages_and_its_loss_is_reported() {
    let Some(tracker) = tracker() else { return };
    let memory = Memory::of_pages(4 * 512);
    memory.advise(memory.all(), libc::MADV_HUGEPAGE);
    memory.fill();
    tracker.watch(memory.all()).expect("watches");
    memory.store(700);
    assert_eq!(memory.taken(&tracker), [memory.pages(700, 701)]);
    let first = (memory.all().start.next_multiple_of(512 * PAGE) - memory.all().start) / PAGE;
    let whole = memory.pages(first + 512, first + 1024);
    memory.advise(whole.clone(), libc::MADV_DONTNEED);
    assert_eq!(memory.taken(&tracker), [whole]);
}

#[test]
fn what_the_kernel_writes_is_noted() {
    let Some(tracker) = tracker() else { return };
    let memory = Memory::of_pages(64);
    memory.fill();
    let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(&[7; 3 * PAGE]).expect("fits the pipe");
    let mut file = File::options().read(true).open("/proc/self/exe").expect("opens");
    tracker.watch(memory.all()).expect("watches");
    read_into(&memory, 10, &mut reader);
    file.rewind().expect("seeks");
    read_into(&memory, 20, &mut file);
    assert_eq!(memory.word(11, 3).load(Ordering::Relaxed), 0x0707_0707_0707_0707);
    assert_eq!(memory.taken(&tracker), [memory.pages(10, 13), memory.pages(20, 23)]);
}

fn read_into(memory: &Memory, page: usize, from: &mut impl Read) {
    let at = memory.pages(page, page + 3).start as *mut u8;
    // SAFETY: three mapped pages that nothing else refers to while the slice lives.
    let into = unsafe { std::slice::from_raw_parts_mut(at, 3 * PAGE) };
    from.read_exact(into).expect("reads");
}

#[test]
fn a_change_of_rights_keeps_the_watch() {
    let Some(tracker) = tracker() else { return };
    let memory = Memory::of_pages(16);
    memory.fill();
    tracker.watch(memory.all()).expect("watches");
    memory.store(2);
    memory.allow(libc::PROT_READ);
    memory.allow(libc::PROT_READ | libc::PROT_WRITE);
    memory.store(8);
    assert_eq!(memory.taken(&tracker), [memory.pages(2, 3), memory.pages(8, 9)]);
    memory.allow(libc::PROT_READ);
    assert_eq!(memory.taken(&tracker), []);
}

#[test]
fn pages_mapped_anew_or_not_at_all_are_lost_until_they_are_watched_again() {
    let Some(tracker) = tracker() else { return };
    let memory = Memory::of_pages(16);
    let lost = Err(TrackError::Lost { start: memory.all().start });
    let earlier = 0..PAGE;
    let mut written = vec![earlier.clone()];
    assert_eq!(tracker.take(memory.all(), &mut written), lost, "never watched");
    tracker.watch(memory.all()).expect("watches");
    memory.store(0);
    memory.replace(memory.pages(5, 6));
    assert_eq!(tracker.peek(memory.all(), &mut written), lost);
    assert_eq!(tracker.take(memory.all(), &mut written), lost);
    assert_eq!(written, [earlier], "as it was");
    tracker.watch(memory.all()).expect("watches");
    assert_eq!(memory.taken(&tracker), []);
    let (all, gap) = (memory.all(), memory.pages(7, 8));
    memory.leave_without(gap);
    assert_eq!(tracker.take(all.clone(), &mut written), lost);
    assert_eq!(tracker.watch(all), lost);
}

#[test]
fn an_ended_watch_reports_nothing_and_another_trackers_is_not_ended() {
    let Some(tracker) = tracker() else { return };
    let memory = Memory::of_pages(16);
    tracker.watch(memory.all()).expect("watches");
    let other = WriteTracker::new().expect("probed");
    assert!(matches!(other.watch(memory.all()), Err(TrackError::System { .. })));
    assert!(matches!(other.unwatch(memory.all()), Err(TrackError::System { .. })));
    memory.store(1);
    assert_eq!(memory.taken(&tracker), [memory.pages(1, 2)]);
    tracker.unwatch(memory.all()).expect("ends");
    tracker.unwatch(memory.all()).expect("ends once more");
    let lost = Err(TrackError::Lost { start: memory.all().start });
    assert_eq!(tracker.take(memory.all(), &mut Vec::new()), lost);
    other.watch(memory.all()).expect("free for another");
    drop(other);
    tracker.watch(memory.all()).expect("free again");
}

#[test]
fn more_runs_than_one_answer_holds_all_arrive_and_stay_apart() {
    let Some(tracker) = tracker() else { return };
    let memory = Memory::of_pages(16384);
    tracker.watch(memory.all()).expect("watches");
    (0..16384).step_by(2).for_each(|page| memory.store(page));
    let wanted: Vec<_> = (0..16384).step_by(2).map(|page| memory.pages(page, page + 1)).collect();
    let mut written = Vec::new();
    tracker.peek(memory.all(), &mut written).expect("peeks");
    assert!(written == wanted);
    assert!(memory.taken(&tracker) == wanted);
    assert_eq!(memory.taken(&tracker), []);
}

#[test]
fn ranges_that_are_not_whole_pages_are_refused() {
    let Some(tracker) = tracker() else { return };
    for (start, end) in [(1, PAGE), (PAGE, PAGE + 8), (2 * PAGE, PAGE)] {
        assert_eq!(tracker.watch(start..end), Err(TrackError::Misaligned { start, end }));
    }
}
