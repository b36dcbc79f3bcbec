//! Versions of a program's memory that knows nothing of it: consistency, cost, ends.

#[allow(dead_code)] // these tests use their part
#[path = "support/region.rs"]
mod region;

use std::sync::atomic::{fence, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use heliostat_stub::snapshot::{
    Attachment, Outside, OutsideError, Region, Settings, Tracking, Version,
};
use region::{attach, content};

const PAGE: usize = 4096;
const WORDS: usize = PAGE / 8;

/// Memory that is private after a fork, at the same address there.
fn memory(pages: usize) -> &'static [AtomicU64] {
    let (flags, len) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, pages * PAGE);
    // SAFETY: fresh zeroed memory, never unmapped here; zeros are atomics.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), len, 3, flags, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        std::slice::from_raw_parts(at.cast(), pages * WORDS)
    }
}

/// A forked program; killed on drop.
struct Program(i32);

impl Program {
    fn run(program: impl FnOnce()) -> Self {
        // SAFETY: the child runs the test's own code and ends by _exit.
        unsafe {
            match libc::fork() {
                0 => {
                    // A test that fails leaves nothing behind.
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(program));
                    libc::_exit(1);
                }
                pid => Self(pid),
            }
        }
    }

    fn end(&self) {
        // SAFETY: a child of ours; no status is asked for.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), libc::__WALL);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}

fn until(mut is_so: impl FnMut() -> bool) {
    let ends = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < ends, "never");
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn region_of(outside: &Outside, words: &[AtomicU64]) -> (Region, Attachment) {
    let (start, len) = (words.as_ptr() as usize, words.len() * 8);
    let mut region = outside.region(start, len, Settings::default()).unwrap();
    let (reader, _) = attach(&mut region);
    (region, reader)
}

fn words_of(version: &Version) -> Vec<u64> {
    let bytes = content(version);
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

/// Each thread writes its records for ever: word 0 counts up before and after, and between both
/// all other words of the record, page by page, get the same stamp.
fn write_records(records: &'static [&'static [AtomicU64]]) {
    std::thread::scope(|scope| {
        for record in records {
            scope.spawn(move || {
                for stamp in 1.. {
                    record[0].store(2 * stamp - 1, Ordering::Relaxed);
                    fence(Ordering::SeqCst);
                    record[1..].iter().for_each(|word| word.store(stamp, Ordering::Relaxed));
                    fence(Ordering::SeqCst);
                    record[0].store(2 * stamp, Ordering::Relaxed);
                }
            });
        }
    });
}

/// At every instant a record is whole (even count: all words the same stamp), or being written
/// (odd count: the new stamp, then the old one).
fn check_record(record: &[u64]) {
    let (count, words) = (record[0], &record[1..]);
    let stamp = count.div_ceil(2);
    let is_written = words.iter().take_while(|word| **word == stamp).count();
    match count % 2 {
        0 => assert_eq!(is_written, words.len(), "whole record {count} is torn"),
        _ => assert!(
            words[is_written..].iter().all(|word| *word == stamp - 1),
            "record {count} shows more than one instant"
        ),
    }
}

fn stamped(tracking: Tracking, versions: usize) {
    const THREADS: usize = 4;
    const EACH: usize = 3 * WORDS;
    let all = memory(3 * THREADS + 1024);
    let records: Vec<&'static [AtomicU64]> = all[..THREADS * EACH].chunks(EACH).collect();
    let records: &'static [_] = Vec::leak(records);
    let program = Program::run(move || write_records(records));
    let outside = Outside::open(program.0, tracking).unwrap();
    let (mut region, reader) = region_of(&outside, all);
    let (mut moved, mut before) = (0, 0);
    for _ in 0..versions {
        let round = outside.publish(&mut [&mut region]).unwrap();
        round.versions[0].as_ref().unwrap();
        let found = words_of(&reader.latest().unwrap());
        found[..THREADS * EACH].chunks(EACH).for_each(check_record);
        assert!(found[THREADS * EACH..].iter().all(|word| *word == 0));
        moved += usize::from(found[0] > before);
        before = found[0];
    }
    assert!(moved > versions / 2, "the program stood still: {moved}");
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

/// Words that parent and child share.
fn bell() -> &'static [AtomicU64] {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: fresh zeroed memory, never unmapped; zeros are atomics.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), PAGE, 3, flags, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        std::slice::from_raw_parts(at.cast(), WORDS)
    }
}

fn tell(bell: &[AtomicU64], what: u64) {
    bell[0].store(what, Ordering::SeqCst);
    until(|| bell[1].load(Ordering::SeqCst) == what);
}

#[test]
fn only_pages_that_were_written_are_copied() {
    let (bell, words) = (bell(), memory(2048));
    let program = Program::run(move || obedient(bell, words));
    let outside = Outside::open(program.0, Tracking::Careful).unwrap();
    if outside.untracked().is_some() {
        return println!("skipped: {:?}", outside.untracked());
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
