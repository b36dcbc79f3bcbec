//! Threads answer as an io_uring does.

use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::SeqCst;

use heliostat_base::mapping::Access;

use super::*;
use crate::tests::file;

fn next<T>(ring: &mut ThreadRing<T>) -> (T, i32) {
    loop {
        if let Some(found) = ring.reap() {
            return found;
        }
        ring.sleep(Some(Duration::from_secs(20))).expect("slept");
    }
}

fn window(bytes: usize) -> Arc<SharedMapping> {
    Arc::new(SharedMapping::create(c"window", bytes).expect("created").1)
}

#[test]
fn many_more_requests_than_threads_all_come_back_once() {
    let (plain, shared) = file();
    plain.write_all_at(&[7; 4096], 0).expect("room on the disk");
    let memory = window(4096);
    let mut ring = ThreadRing::create(200).expect("futex_waitv");
    for number in 0..200usize {
        let into = [Range { offset: number * 16, len: 16 }];
        ring.read(number, &shared, 0, (&memory, &into), Manner::Plain).expect("room");
    }
    assert!(!ring.has_room());
    let mut seen: Vec<usize> = (0..200)
        .map(|_| next(&mut ring))
        .map(|(number, bytes)| {
            assert_eq!(bytes, 16);
            number
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..200).collect::<Vec<_>>());
    assert_eq!(ring.under_way(), 0);
}

/// Reads of an empty pipe last until something is written to it.
#[test]
fn an_owner_whose_requests_hang_leaves_threads_to_others() {
    let (plain, shared) = file();
    plain.write_all_at(&[7; 16], 0).expect("room on the disk");
    let (empty, _writer) = std::io::pipe().expect("a pipe");
    let (empty, memory) = (Arc::new(OwnedFd::from(empty)), window(4096));
    let into = [Range { offset: 0, len: 16 }];
    let mut ring = ThreadRing::create(300).expect("futex_waitv");
    ring.act_for(1);
    // At no offset, which a pipe has none of (preadv2(2)).
    let nowhere = u64::MAX;
    for number in 0..256 {
        ring.read(number, &empty, nowhere, (&memory, &into), Manner::Plain).expect("room");
    }
    ring.act_for(2);
    ring.read(1000, &shared, 0, (&memory, &into), Manner::Plain).expect("room");
    assert_eq!(next(&mut ring), (1000, 16));
}

#[test]
fn a_word_that_changes_and_a_bell_wake_the_sleeper() {
    let (fd, memory) = SharedMapping::create(c"words", 4096).expect("created");
    let memory = Arc::new(memory);
    let mut ring = ThreadRing::create(16).expect("futex_waitv");
    ring.wait_word("changed", &memory, 64, 7).expect("room");
    assert_eq!(next(&mut ring), ("changed", 0));
    ring.wait_word("rung", &memory, 64, 0).expect("room");
    ring.sleep(Some(Duration::from_millis(1))).expect("timed out");
    assert_eq!(ring.reap(), None);
    let theirs = SharedMapping::from_fd(fd.as_raw_fd(), 4096, Access::ReadWrite).expect("mapped");
    let ringer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        theirs.atomic_u32(64).store(1, SeqCst);
        futex::wake(theirs.atomic_u32(64), 1);
    });
    assert_eq!(next(&mut ring), ("rung", 0));
    ringer.join().expect("rang");
}

#[test]
fn what_is_cancelled_completes_and_a_full_ring_says_so() {
    let (_plain, shared) = file();
    let memory = window(4096);
    let mut ring = ThreadRing::create(2).expect("futex_waitv");
    let first = ring.wait_word(1, &memory, 0, 0).expect("room");
    let second = ring.fsync(2, &shared).expect("room");
    assert!(matches!(ring.wait_word(3, &memory, 128, 0), Err(NotPrepared::Full)));
    ring.cancel(first);
    assert_eq!(next(&mut ring), (1, -libc::ECANCELED));
    ring.cancel(second);
    assert_eq!(next(&mut ring), (2, -libc::ECANCELED));
    ring.cancel(second);
    assert_eq!((ring.reap(), ring.under_way()), (None, 0));
}

#[test]
fn no_more_words_are_watched_than_one_sleep_can_be_on() {
    let memory = window(4096);
    let mut ring = ThreadRing::create(200).expect("futex_waitv");
    for number in 0..WATCHED_MAX {
        ring.wait_word(number, &memory, number * 4, 0).expect("room");
    }
    assert!(matches!(ring.wait_word(0, &memory, 0, 0), Err(NotPrepared::Full)));
    ring.sleep(Some(Duration::from_millis(1))).expect("the kernel takes so many");
    assert_eq!(ring.reap(), None);
}

#[test]
fn memory_and_file_of_a_dropped_ring_go_when_the_workers_are_done() {
    let (_plain, shared) = file();
    let memory = window(1 << 20);
    let mut ring = ThreadRing::create(64).expect("futex_waitv");
    let from = [Range { offset: 0, len: 1 << 20 }];
    for number in 0..64 {
        ring.write(number, &shared, 0, (&memory, &from), Manner::Plain).expect("room");
    }
    ring.submit();
    drop(ring);
    let begun = std::time::Instant::now();
    while Arc::strong_count(&memory) > 1 || Arc::strong_count(&shared) > 1 {
        assert!(begun.elapsed() < Duration::from_secs(20), "something is kept");
        std::thread::sleep(Duration::from_millis(1));
    }
}
