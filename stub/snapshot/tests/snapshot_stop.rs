//! What happens within a stop, and to programs that do as they like meanwhile: bytes copied,
//! threads, forks, another program in their place, a kill, a filter of system calls.

#[allow(dead_code)] // these tests use their part
#[path = "support/region.rs"]
mod region;

#[allow(dead_code)] // the same
#[path = "support/program.rs"]
mod program;

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{fence, AtomicU64, Ordering};
use std::time::Duration;

use heliostat_backend_pages::tracee::TraceError;
use heliostat_stub_snapshot::{Attachment, Outside, OutsideError, Region, Tracking};
use program::*;

/// Pages of a chunk, the grain in which slots are given.
const CHUNK: usize = 512;

/// Writes one page after another for ever, each in another chunk than the one before, and counts
/// in `bell[1]`, of each write before it is made.
fn wander(bell: &[AtomicU64], words: &[AtomicU64]) {
    let chunks = words.len() / WORDS / CHUNK;
    for step in 0.. {
        let page = step % chunks * CHUNK + step / chunks * 7 % CHUNK;
        bell[1].fetch_add(1, Ordering::SeqCst);
        words[page * WORDS + 1].store(step as u64 + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_micros(300));
    }
}

fn count(bell: &[AtomicU64]) {
    loop {
        bell[1].fetch_add(1, Ordering::SeqCst);
    }
}

/// All pages are whole, and the last write in them is one that was made at the time.
fn check_wandered(found: &[u64], before: u64, after: u64) {
    assert!(found.iter().step_by(WORDS).all(|word| *word == 7), "a page is not whole");
    let newest = found.iter().skip(1).step_by(WORDS).max().copied().unwrap_or(0);
    // A write is counted before it is made.
    assert!((before.saturating_sub(1)..=after).contains(&newest), "{before} {newest} {after}");
}

/// Bytes copied within each stop, and writes during each publishing, until these are enough.
fn stops(tracking: Tracking, are_enough: fn(&[(usize, usize)]) -> bool) -> Vec<(usize, usize)> {
    let (bell, words) = (bell(), memory(32 * CHUNK));
    let program = Program::run(move || {
        words.iter().step_by(WORDS).for_each(|word| word.store(7, Ordering::SeqCst));
        wander(bell, words);
    });
    until(|| bell[1].load(Ordering::SeqCst) > 0);
    let outside = Outside::open(program.0, tracking).unwrap();
    let (mut region, reader) = region_of(&outside, words);
    let mut publish = |version| {
        let before = bell[1].load(Ordering::SeqCst);
        let round = outside.publish(&mut [&mut region]).unwrap();
        let after = bell[1].load(Ordering::SeqCst);
        let made = *round.versions[0].as_ref().unwrap();
        assert!(round.ahead_bytes + round.stopped_bytes <= made.copied_bytes);
        if version % 20 == 1 {
            check_wandered(&words_of(&reader.latest().unwrap()), before, after);
        }
        (round.stopped_bytes, (after - before) as usize)
    };
    let mut found = Vec::new();
    until(|| {
        found.push(publish(found.len()));
        are_enough(&found)
    });
    found
}

/// Most of these writes touch a chunk that the last look had not found written, so its slot is new
/// or old: all of it was copied within the stop once. On a busy machine many versions may pass
/// until the program writes just before a stop.
#[test]
fn no_more_is_copied_within_a_stop_than_was_written_since_the_publishing_began() {
    if !tracks_others() {
        return;
    }
    let found = stops(Tracking::Careful, |found| {
        found.len() >= 60 && found.iter().any(|(copied, _)| *copied > 0)
    });
    for (at, (copied, writes)) in found.iter().enumerate() {
        assert!(*copied <= (writes + 1) * PAGE, "stop {at}: {copied} bytes for {writes} writes");
    }
}

#[test]
fn without_tracking_everything_is_copied_within_the_stop_and_counted() {
    let found = stops(Tracking::Never, |found| found.len() >= 3);
    assert!(found.iter().all(|(copied, _)| *copied == 32 * CHUNK * PAGE));
}

#[test]
fn a_program_is_not_stopped_for_a_version_that_has_no_place() {
    let words = memory(4);
    let program = Program::run(wait_for_ever);
    let outside = Outside::open(program.0, Tracking::Careful).unwrap();
    let (mut region, reader) = region_of(&outside, words);
    let mut held = Vec::new();
    let full = loop {
        let round = outside.publish(&mut [&mut region]).unwrap();
        match round.versions[0] {
            Ok(_) => held.push(reader.latest().unwrap()),
            Err(_) => break round,
        }
    };
    assert_eq!((full.threads, full.stopped_ns, full.stopped_bytes), (0, 0, 0));
    assert!(held.len() > 1);
}

fn wait_for_ever() {
    loop {
        std::thread::park();
    }
}

/// As `write_records`, but each round of a record is a thread of its own.
fn write_by_short_threads(records: &'static [&'static [AtomicU64]]) {
    let write = |record: &[AtomicU64], stamp: u64| {
        record[0].store(2 * stamp - 1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        record[1..].iter().for_each(|word| word.store(stamp, Ordering::Relaxed));
        fence(Ordering::SeqCst);
        record[0].store(2 * stamp, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        for record in records {
            scope.spawn(move || {
                for stamp in 1.. {
                    std::thread::spawn(move || write(record, stamp)).join().expect("joins");
                }
            });
        }
    });
}

#[test]
fn versions_are_of_one_instant_while_threads_begin_and_end() {
    const EACH: usize = 3 * WORDS;
    let all = memory(9);
    let records: &'static [_] = Vec::leak(all.chunks(EACH).collect());
    let program = Program::run(move || write_by_short_threads(records));
    let outside = Outside::open(program.0, Tracking::Careful).unwrap();
    let (mut region, reader) = region_of(&outside, all);
    let mut made = 0;
    until(|| {
        outside.publish(&mut [&mut region]).unwrap().versions[0].as_ref().unwrap();
        let found = words_of(&reader.latest().unwrap());
        found.chunks(EACH).for_each(check_record);
        made += 1;
        made >= 200 && found[0] > 10
    });
}

#[test]
fn what_a_fork_of_the_program_writes_is_in_no_version_and_the_fork_runs_on() {
    let (bell, words) = (bell(), memory(64));
    let program = Program::run(move || {
        for stamp in 1.. {
            words[0].store(stamp, Ordering::SeqCst);
            let fork = Program::run(move || {
                words.iter().step_by(WORDS).for_each(|word| word.store(u64::MAX, Ordering::SeqCst));
                bell[0].fetch_add(1, Ordering::SeqCst);
                wait_for_ever();
            });
            until(|| bell[0].load(Ordering::SeqCst) >= stamp);
            fork.end();
        }
    });
    let outside = Outside::open(program.0, Tracking::Careful).unwrap();
    let (mut region, reader) = region_of(&outside, words);
    let mut made = 0;
    until(|| {
        outside.publish(&mut [&mut region]).unwrap().versions[0].as_ref().unwrap();
        let found = words_of(&reader.latest().unwrap());
        assert!(found.iter().all(|word| *word != u64::MAX), "a fork's page");
        made += 1;
        made >= 200 && found[0] > 3
    });
}

/// Publishes until there is no further version; the program does something else in the middle.
fn until_gone(outside: &Outside, (mut region, reader): (Region, Attachment)) {
    let gone = loop {
        if let Err(error) = outside.publish(&mut [&mut region]) {
            break error;
        }
    };
    assert!(matches!(gone, OutsideError::Trace(TraceError::Gone)), "{gone}");
    assert!(!outside.is_there());
    if reader.latest_number() > 0 {
        assert_eq!(words_of(&reader.latest().unwrap())[0], 7);
    }
}

#[test]
fn a_program_that_is_killed_at_any_moment_is_gone_and_its_versions_stay() {
    for round in 0..20u64 {
        let words = memory(2048);
        words[0].store(7, Ordering::SeqCst);
        let program = Program::run(wait_for_ever);
        let outside = Outside::open(program.0, Tracking::Careful).unwrap();
        let named = region_of(&outside, words);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_micros(300 * round));
                program.end();
            });
            until_gone(&outside, named);
        });
    }
}

#[test]
fn a_program_that_becomes_another_at_any_moment_is_gone_and_the_other_runs() {
    for round in 0..20u64 {
        let (bell, words) = (bell(), memory(2048));
        words[0].store(7, Ordering::SeqCst);
        let program = Program::run(move || {
            until(|| bell[0].load(Ordering::SeqCst) == 1);
            std::thread::sleep(Duration::from_micros(300 * round));
            panic!("{}", Command::new("sleep").arg("1000").exec());
        });
        let outside = Outside::open(program.0, Tracking::Careful).unwrap();
        let named = region_of(&outside, words);
        bell[0].store(1, Ordering::SeqCst);
        until_gone(&outside, named);
        let status = || std::fs::read_to_string(format!("/proc/{}/status", program.0)).unwrap();
        until(|| status().contains("Name:\tsleep") && status().contains("State:\tS"));
        assert!(status().contains("TracerPid:\t0"));
    }
}

/// A filter that answers userfaultfd by `action` and lets all else pass.
fn filter(action: u32) {
    let step = |code: u32, jt, k| libc::sock_filter { code: code as u16, jt, jf: 0, k };
    let load = step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0);
    let is_it = step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, libc::SYS_userfaultfd as u32);
    let answer = |what| step(libc::BPF_RET | libc::BPF_K, 0, what);
    let mut steps = [load, is_it, answer(libc::SECCOMP_RET_ALLOW), answer(action)];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: a live program of four steps.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &program), 0);
    }
}

/// A program under such a filter, that counts.
fn filtered(action: u32) -> (Program, &'static [AtomicU64], &'static [AtomicU64]) {
    let (bell, words) = (bell(), memory(16));
    let program = Program::run(move || {
        words[0].store(7, Ordering::SeqCst);
        filter(action);
        count(bell);
    });
    until(|| bell[1].load(Ordering::SeqCst) > 0);
    (program, bell, words)
}

/// It is published whole, and goes on.
fn whole_versions(outside: &Outside, bell: &[AtomicU64], words: &[AtomicU64]) {
    let (mut region, reader) = region_of(outside, words);
    for _ in 0..5 {
        let round = outside.publish(&mut [&mut region]).unwrap();
        assert_eq!(round.versions[0].as_ref().unwrap().copied_bytes, 16 * PAGE);
        assert_eq!(words_of(&reader.latest().unwrap())[0], 7);
        let seen = bell[1].load(Ordering::SeqCst);
        until(|| bell[1].load(Ordering::SeqCst) > seen + 100);
    }
    assert_eq!(region.engine(), "whole");
}

#[test]
fn a_program_with_a_filter_of_its_own_makes_no_call_and_is_published_whole() {
    let (program, bell, words) = filtered(libc::SECCOMP_RET_KILL_PROCESS);
    let outside = Outside::open(program.0, Tracking::Careful).unwrap();
    let why = outside.untracked().unwrap().to_string();
    assert!(why.contains("seccomp") && why.contains("may kill it"), "{why}");
    whole_versions(&outside, bell, words);
}

#[test]
fn a_filter_that_refuses_the_forced_call_is_named_and_the_program_goes_on() {
    for action in [libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, libc::SECCOMP_RET_TRAP] {
        let (program, bell, words) = filtered(action);
        let outside = Outside::open(program.0, Tracking::Forced).unwrap();
        let why = outside.untracked().unwrap().to_string();
        assert!(why.contains("userfaultfd") && why.contains("seccomp"), "{why}");
        whole_versions(&outside, bell, words);
    }
}
