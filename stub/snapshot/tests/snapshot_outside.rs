//! Versions of a program's memory that knows nothing of it: consistency, cost, ends.

#[allow(dead_code)] // these tests use their part
#[path = "support/region.rs"]
mod region;

#[allow(dead_code)] // the same
#[path = "support/program.rs"]
mod program;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use heliostat_stub_snapshot::{Outside, OutsideError, Tracking};
use program::*;

fn stamped(tracking: Tracking, versions: usize) {
    const THREADS: usize = 4;
    const EACH: usize = 3 * WORDS;
    let all = memory(3 * THREADS + 1024);
    let records: Vec<&'static [AtomicU64]> = all[..THREADS * EACH].chunks(EACH).collect();
    let records: &'static [_] = Vec::leak(records);
    let program = Program::run(move || write_records(records));
    let outside = Outside::open(program.0, tracking).unwrap();
    let (mut region, reader) = region_of(&outside, all);
    let (mut made, mut moved, mut before) = (0, 0, 0);
    // How often the program comes to run between two versions is the scheduler's business: where
    // it seldom does, there are more of them.
    let ends = Instant::now() + WATCHDOG;
    while made < versions || moved < versions / 4 {
        assert!(Instant::now() < ends, "the program moved in {moved} of {made} versions");
        let round = outside.publish(&mut [&mut region]).unwrap();
        round.versions[0].as_ref().unwrap();
        let found = words_of(&reader.latest().unwrap());
        found[..THREADS * EACH].chunks(EACH).for_each(check_record);
        assert!(found[THREADS * EACH..].iter().all(|word| *word == 0));
        moved += usize::from(found[0] > before);
        before = found[0];
        made += 1;
    }
}

#[test]
fn a_thousand_tracked_versions_each_show_one_instant_of_four_threads() {
    stamped(Tracking::Careful, 1000);
}

#[test]
fn whole_copies_each_show_one_instant_of_four_threads() {
    stamped(Tracking::Never, 100);
}

/// A program that writes what it is told: page number from word 0 of the bell, then answers.
fn obedient(bell: &'static [AtomicU64], words: &'static [AtomicU64]) {
    loop {
        let told = bell[0].load(Ordering::SeqCst);
        if told != bell[1].load(Ordering::SeqCst) {
            words[(told as usize % (words.len() / WORDS)) * WORDS].store(told, Ordering::SeqCst);
            bell[1].store(told, Ordering::SeqCst);
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn only_pages_that_were_written_are_copied() {
    let (bell, words) = (bell(), memory(2048));
    let program = Program::run(move || obedient(bell, words));
    let outside = Outside::open(program.0, Tracking::Careful).unwrap();
    if !tracks_others() {
        return assert!(outside.untracked().is_some());
    }
    let (mut region, reader) = region_of(&outside, words);
    let mut copied = Vec::new();
    for told in 1..=20u64 {
        tell(bell, told);
        let round = outside.publish(&mut [&mut region]).unwrap();
        copied.push(round.versions[0].as_ref().unwrap().copied_bytes);
        assert_eq!(words_of(&reader.latest().unwrap())[told as usize * WORDS], told);
    }
    assert_eq!(copied[0], 2048 * PAGE, "all of it, once");
    assert_eq!(region.engine(), "tracked");
    // A page once per version, and once more for a slot of another colour that missed it; the
    // first use of each further colour copies a chunk.
    let rest: usize = copied[1..].iter().sum();
    assert!(copied[10..].iter().all(|bytes| (PAGE..=4 * PAGE).contains(bytes)), "{copied:?}");
    assert!(rest <= 3 * 512 * PAGE + 19 * 4 * PAGE, "{copied:?}");
}

#[test]
fn versions_of_two_ranges_are_of_one_instant() {
    let (one, other) = (memory(4), memory(4));
    let program = Program::run(move || {
        for stamp in 1.. {
            one[0].store(stamp, Ordering::SeqCst);
            other[0].store(stamp, Ordering::SeqCst);
        }
    });
    let outside = Outside::open(program.0, Tracking::Careful).unwrap();
    let (mut first, first_reader) = region_of(&outside, one);
    let (mut second, second_reader) = region_of(&outside, other);
    for _ in 0..200 {
        outside.publish(&mut [&mut first, &mut second]).unwrap();
        let [a, b] = [&first_reader, &second_reader].map(|it| words_of(&it.latest().unwrap())[0]);
        assert!(a == b || a == b + 1, "{a} and {b}");
    }
}

#[test]
fn what_is_unmapped_reads_as_zeros_and_what_is_mapped_anew_is_seen() {
    let (bell, words) = (bell(), memory(1024));
    let program = Program::run(move || {
        words.iter().for_each(|word| word.store(7, Ordering::SeqCst));
        let (at, len) = (words[512 * WORDS..].as_ptr() as usize, 512 * PAGE);
        bell[1].store(1, Ordering::SeqCst);
        until(|| bell[0].load(Ordering::SeqCst) == 2);
        // SAFETY: memory of this test alone.
        unsafe { libc::munmap(at as *mut _, len) };
        bell[1].store(2, Ordering::SeqCst);
        until(|| bell[0].load(Ordering::SeqCst) == 3);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: as above.
        unsafe { libc::mmap(at as *mut _, len, 3, flags, -1, 0) };
        words[600 * WORDS].store(9, Ordering::SeqCst);
        bell[1].store(3, Ordering::SeqCst);
        loop {
            std::thread::park();
        }
    });
    tell(bell, 1);
    let outside = Outside::open(program.0, Tracking::Careful).unwrap();
    let (mut region, reader) = region_of(&outside, words);
    let mut seen = || {
        outside.publish(&mut [&mut region]).unwrap().versions[0].as_ref().unwrap();
        let found = words_of(&reader.latest().unwrap());
        [0, 511, 512, 600, 1023].map(|page| found[page * WORDS])
    };
    assert_eq!(seen(), [7, 7, 7, 7, 7]);
    tell(bell, 2);
    assert_eq!(seen(), [7, 7, 0, 0, 0]);
    tell(bell, 3);
    assert_eq!(seen(), [7, 7, 0, 9, 0]);
    assert_eq!(seen(), [7, 7, 0, 9, 0]);
}

#[test]
fn a_program_that_ends_leaves_its_last_version_and_no_further_one() {
    let (bell, words) = (bell(), memory(16));
    let program = Program::run(move || obedient(bell, words));
    let outside = Outside::open(program.0, Tracking::Careful).unwrap();
    let (mut region, reader) = region_of(&outside, words);
    tell(bell, 5);
    outside.publish(&mut [&mut region]).unwrap();
    program.end();
    let gone = outside.publish(&mut [&mut region]);
    assert!(matches!(gone, Err(OutsideError::Trace(_))), "{gone:?}");
    assert!(!outside.is_there());
    assert_eq!(reader.latest_number(), reader.latest().unwrap().number());
    assert_eq!(words_of(&reader.latest().unwrap())[5 * WORDS], 5);
}
