//! Versions of memory that several threads write: with a barrier or a gate none is torn, without
//! one some are, and a writer that takes no part is caught.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use heliostat_backend_pages::live::LiveMemory;
use heliostat_backend_pages::track;
use heliostat_stub_snapshot::threads::{Barrier, Gate, StepError};
use heliostat_stub_snapshot::{Attachment, EngineKind, Region, Settings, Version};

const WORDS: usize = 64 * 512;
const WRITERS: usize = 3;

fn words() -> &'static [AtomicU64] {
    Box::leak((0..WORDS).map(|_| AtomicU64::new(0)).collect())
}

fn region(words: &[AtomicU64], settings: Settings) -> (Region, Attachment) {
    // SAFETY: the words are leaked.
    let memory = unsafe { LiveMemory::new(words.as_ptr() as usize, size_of_val(words)) };
    let mut region = Region::new(memory, settings).unwrap();
    let (table, pool) = region.descriptors();
    let (table, pool) = (table.duplicate().unwrap(), pool.duplicate().unwrap());
    let reader = Attachment::new(&table, pool, |pins| region.admit(pins).map(drop));
    (region, reader.unwrap().unwrap())
}

fn whole() -> Settings {
    Settings { engine: EngineKind::Whole, ..Settings::default() }
}

/// Each writer's part carries one number everywhere.
fn is_torn(version: &Version) -> bool {
    let mut bytes = vec![0; version.len()];
    version.read(0, &mut bytes).unwrap();
    bytes
        .chunks(bytes.len() / WRITERS / 8 * 8)
        .take(WRITERS)
        .any(|part| part.chunks(8).any(|word| word != &part[..8]))
}

fn part(words: &[AtomicU64], at: usize) -> &[AtomicU64] {
    let len = words.len() / WRITERS;
    &words[at * len..(at + 1) * len]
}

fn fill(part: &[AtomicU64], number: u64) {
    part.iter().for_each(|word| word.store(number, Relaxed));
}

#[test]
fn without_a_barrier_versions_tear() {
    let words = words();
    let (mut region, reader) = region(words, whole());
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for at in 0..WRITERS {
            let (ends, part) = (&ends, part(words, at));
            scope.spawn(move || {
                (1..).take_while(|_| !ends.load(Relaxed)).for_each(|n| fill(part, n))
            });
        }
        let mut torn = false;
        while !torn {
            region.publish().unwrap();
            torn = is_torn(&reader.latest().unwrap());
        }
        ends.store(true, Relaxed);
    });
}

#[test]
fn a_barrier_makes_one_whole_version_of_each_step() {
    let words = words();
    let (region, reader) = region(words, whole());
    let barrier = Barrier::new(region, WRITERS);
    std::thread::scope(|scope| {
        for at in 0..WRITERS {
            let (barrier, reader, part) = (&barrier, &reader, part(words, at));
            scope.spawn(move || {
                let member = barrier.join().unwrap();
                // One leaves early; the others go on without it.
                for number in 1..=if at == 2 { 50 } else { 100 } {
                    fill(part, number);
                    assert_eq!(member.arrive(None).unwrap().number, number);
                    assert!(!is_torn(&reader.numbered(number).unwrap()) || at != 0);
                }
            });
        }
    });
    assert_eq!(reader.latest_number(), 100);
}

#[test]
fn a_barrier_with_a_deadline_names_who_is_late_and_who_is_dead() {
    let (region, _reader) = region(words(), whole());
    let barrier = Barrier::new(region, 3);
    let member = barrier.join().unwrap();
    std::thread::scope(|scope| {
        let dies = std::thread::Builder::new().name("dies".into());
        let dies = dies.spawn_scoped(scope, || std::mem::forget(barrier.join().unwrap())).unwrap();
        dies.join().unwrap();
    });
    let error = member.arrive(Some(Duration::from_millis(20))).unwrap_err();
    let StepError::Late(missing) = &error else { panic!("{error}") };
    assert_eq!(missing.len(), 2, "{error}");
    assert_eq!((missing[0].name.as_str(), missing[0].is_dead), ("dies", true));
    assert_eq!((missing[1].tid, missing[1].is_dead), (0, false));
    let second = barrier.join().unwrap();
    assert_eq!(barrier.join().err(), Some(StepError::NoPlace { limit: 3 }));
    drop((second, member));
}

#[test]
fn a_gate_is_never_shut_on_a_writer_and_lets_everybody_on() {
    let words = words();
    let (region, reader) = region(words, whole());
    let gate = Gate::new(region, WRITERS);
    let ends = AtomicBool::new(false);
    let rounds: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for (at, round) in rounds.iter().enumerate() {
            let (gate, ends, part) = (&gate, &ends, part(words, at));
            scope.spawn(move || {
                let mut writer = gate.join().unwrap();
                while !ends.load(Relaxed) {
                    let guard = writer.write();
                    fill(part, round.fetch_add(1, Relaxed));
                    drop(guard);
                }
            });
        }
        let is_through = || rounds.iter().all(|round| round.load(Relaxed) > 50);
        let mut versions = 0;
        while versions < 100 || !is_through() {
            gate.publish(None).unwrap();
            assert!(!is_torn(&reader.latest().unwrap()), "a torn version");
            versions += 1;
        }
        ends.store(true, Relaxed);
    });
}

#[test]
fn a_gate_with_a_deadline_names_who_is_inside_and_opens_again() {
    let (region, _reader) = region(words(), whole());
    let gate = Gate::new(region, 1);
    let mut writer = gate.join().unwrap();
    let guard = writer.write();
    let error = gate.publish(Some(Duration::from_millis(10))).unwrap_err();
    let StepError::Late(missing) = &error else { panic!("{error}") };
    assert_eq!((missing.len(), missing[0].tid), (1, heliostat_base::process::tid()));
    drop(guard);
    drop(writer.write());
    assert_eq!(gate.publish(None).unwrap().number, 1);
}

#[test]
fn a_writer_that_takes_no_part_is_caught_where_the_kernel_tracks() {
    if let Err(refused) = track::probe() {
        println!("skipped: {refused}");
        return;
    }
    let words = words();
    let settings =
        Settings { engine: EngineKind::Tracked, looks_for_races: true, ..Settings::default() };
    let (region, _reader) = region(words, settings);
    let gate = Gate::new(region, 1);
    let ends = AtomicBool::new(false);
    assert_eq!(gate.publish(None).unwrap().has_raced, Some(false));
    std::thread::scope(|scope| {
        scope.spawn(|| (1..).take_while(|_| !ends.load(Relaxed)).for_each(|n| fill(words, n)));
        while gate.publish(None).unwrap().has_raced != Some(true) {}
        ends.store(true, Relaxed);
    });
}

#[test]
fn a_limit_beyond_the_clock_is_none() {
    let words = words();
    let barrier = Barrier::new(region(words, whole()).0, 1);
    assert!(barrier.join().unwrap().arrive(Some(Duration::MAX)).is_ok());
    let gate = Gate::new(region(words, whole()).0, 1);
    let mut writer = gate.join().unwrap();
    let (entered, is_in) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _guard = writer.write();
            entered.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(30));
        });
        is_in.recv().unwrap();
        // 2^64 ns and a little more: cut to 64 bits it would be over at once.
        let limit = Duration::from_secs(18_446_744_073) + Duration::from_nanos(709_551_616);
        assert!(gate.publish(Some(limit)).is_ok());
    });
}

/// The partial pages at a region's ends are not watched, and it may have no other.
#[test]
fn of_a_region_without_a_whole_page_nobody_says_that_nobody_raced() {
    if let Err(refused) = track::probe() {
        println!("skipped: {refused}");
        return;
    }
    let settings =
        Settings { engine: EngineKind::Tracked, looks_for_races: true, ..Settings::default() };
    let (mut region, _reader) = region(&words()[1..9], settings);
    assert_eq!(region.publish().unwrap().has_raced, None);
}
