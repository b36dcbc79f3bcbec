//! Versions of live memory: every version is what the memory was when it was published, for as
//! long as somebody has it pinned, whatever engine, policy and traffic.

mod support;

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use heliostat_abi::snapshot::memory::CHUNK_BYTES;
use heliostat_backend_pages::track::{self, TrackError};
use heliostat_stub_snapshot::{
    Declared, Engine, EngineKind, Placement, Policy, PublishError, Region, Settings, Version, View,
    PAGE_BYTES,
};
use proptest::prelude::*;
use support::play::{play, steps, Step};
use support::region::{attach, content, live, region};

const ENGINES: [EngineKind; 3] = [EngineKind::Tracked, EngineKind::Declared, EngineKind::Whole];

fn engines() -> impl Iterator<Item = EngineKind> {
    let refused = track::probe().err();
    if let Some(refused) = &refused {
        println!("skipped: the engine that tracks ({refused})");
    }
    ENGINES.into_iter().filter(move |it| refused.is_none() || *it != EngineKind::Tracked)
}

fn engines_and_placements() -> impl Iterator<Item = Settings> {
    engines().flat_map(|engine| {
        let placements = [Placement::Chunks, Placement::Slab];
        placements.map(|placement| Settings { engine, placement, ..Settings::default() })
    })
}

/// Steps on memory of the test's own, `offset` bytes into an allocation.
fn play_copied(settings: Settings, offset: usize, length: usize, steps: &[Step]) {
    let mut bytes = vec![0u8; offset + length];
    let settings = Settings { looks_for_races: true, ..settings };
    let region = region(&bytes[offset..], settings);
    // The newest of four stays.
    play(region, &mut bytes[offset..], steps, 3);
}

/// Steps on memory that the region brings along.
fn play_allocated(length: usize, steps: &[Step]) {
    let settings = Settings { looks_for_races: true, ..Settings::default() };
    let region = Region::allocate(length, settings).unwrap();
    let (start, length) = region.memory().unwrap();
    // SAFETY: the region's own memory, which `play` keeps until it returns.
    let memory = unsafe { std::slice::from_raw_parts_mut(start, length) };
    // The newest of four stays, and one is left for what is written next.
    play(region, memory, steps, 2);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_pinned_version_stays_what_the_memory_was(
        offset in 0..2 * PAGE_BYTES, steps in steps(9 * PAGE_BYTES + 77),
    ) {
        for settings in engines_and_placements() {
            play_copied(settings, offset, 9 * PAGE_BYTES + 77, &steps);
        }
        play_allocated(9 * PAGE_BYTES + 77, &steps);
    }

    #[test]
    fn every_pinned_version_of_two_chunks_stays_what_the_memory_was(
        offset in 0..2 * PAGE_BYTES, steps in steps(CHUNK_BYTES + PAGE_BYTES + 77),
    ) {
        for settings in engines_and_placements() {
            play_copied(settings, offset, CHUNK_BYTES + PAGE_BYTES + 77, &steps);
        }
        play_allocated(CHUNK_BYTES + PAGE_BYTES + 77, &steps);
    }
}

#[test]
fn chunks_that_did_not_change_are_not_copied_and_keep_their_place() {
    let length = 5 * (2 << 20) + 100;
    let mut bytes = vec![1u8; length];
    for engine in engines().filter(|engine| *engine != EngineKind::Whole) {
        let settings = Settings { engine, placement: Placement::Chunks, ..Settings::default() };
        let mut region = region(&bytes, settings);
        let (consumer, _) = attach(&mut region);
        let first = region.publish().unwrap();
        assert_eq!((first.dirty_bytes, first.copied_bytes), (length, length), "{engine:?}");
        // The first use of a slot takes the whole chunk; afterwards only what changed. An odd
        // number of them, so that the version is not of one colour by chance.
        for _ in 0..5 {
            bytes[3 << 20] += 1;
            region.declare(3 << 20..(3 << 20) + 1).unwrap();
            region.publish().unwrap();
        }
        let mut view = View::new(consumer.latest().unwrap()).unwrap();
        let unchanged = region.publish().unwrap();
        assert!(unchanged.copied_bytes <= 2 * PAGE_BYTES, "{engine:?}: {unchanged:?}");
        let edges = unchanged.copied_bytes > 0;
        assert!(view.advance(consumer.latest().unwrap()).unwrap() <= usize::from(edges) * 2);
        bytes[3 << 20] += 1;
        region.declare(3 << 20..(3 << 20) + 1).unwrap();
        let changed = region.publish().unwrap();
        assert!(changed.dirty_bytes <= 3 * PAGE_BYTES, "{engine:?}: {changed:?}");
        assert!(changed.copied_bytes <= 3 * PAGE_BYTES, "{engine:?}: {changed:?}");
        view.advance(consumer.latest().unwrap()).unwrap();
        let mut byte = [0];
        view.read(3 << 20, &mut byte).unwrap();
        assert_eq!(byte[0], bytes[3 << 20]);
    }
}

#[test]
fn what_the_kernel_writes_into_the_region_is_in_the_next_version() {
    use std::io::{Read, Write};
    if engines().count() < ENGINES.len() {
        return;
    }
    let mut bytes = vec![0u8; 64 * PAGE_BYTES];
    let settings = Settings { engine: EngineKind::Tracked, ..Settings::default() };
    let mut region = region(&bytes, settings);
    let (consumer, _) = attach(&mut region);
    region.publish().unwrap();
    let (mut from, mut to) = std::io::pipe().unwrap();
    to.write_all(&[7; 5000]).unwrap();
    from.read_exact(&mut bytes[100_000..105_000]).unwrap();
    region.publish().unwrap();
    assert!(content(&consumer.latest().unwrap()) == bytes);
}

#[test]
fn kept_versions_can_be_had_by_number_and_older_ones_cannot() {
    let mut bytes = vec![0u8; PAGE_BYTES];
    let policy = Policy { keep: 3, patience: Duration::ZERO };
    let mut region = region(&bytes, Settings { policy, colours: 5, ..Settings::default() });
    let (consumer, _) = attach(&mut region);
    for value in 1..=10 {
        bytes[17] = value;
        region.declare(17..18).unwrap();
        region.publish().unwrap();
    }
    for number in 8..=10 {
        let version = consumer.numbered(number).unwrap();
        assert_eq!(content(&version)[17], number as u8);
    }
    assert!(consumer.numbered(5).is_err());
    assert_eq!(consumer.latest_number(), 10);
}

#[test]
fn a_publishing_without_room_is_skipped_and_its_writes_come_with_the_next() {
    let mut bytes = vec![0u8; 3 * PAGE_BYTES];
    for engine in engines() {
        bytes.fill(0);
        let mut region = region(&bytes, Settings { engine, colours: 3, ..Settings::default() });
        let (consumer, place) = attach(&mut region);
        let mut pinned = Vec::new();
        for value in 1..=3u8 {
            bytes[PAGE_BYTES] = value;
            region.declare(PAGE_BYTES..PAGE_BYTES + 1).unwrap();
            region.publish().unwrap();
            pinned.push(consumer.latest().unwrap());
        }
        bytes[2 * PAGE_BYTES] = 99;
        region.declare(2 * PAGE_BYTES..2 * PAGE_BYTES + 1).unwrap();
        assert_eq!(region.publish(), Err(PublishError::Full { alive: 3 }));
        assert_eq!(region.metrics().skipped, 1);
        pinned.remove(0);
        region.publish().unwrap();
        let newest = content(&consumer.latest().unwrap());
        assert!(newest == bytes, "{engine:?}");
        assert_eq!(content(&pinned[0])[PAGE_BYTES], 2);
        // A consumer that was killed keeps its pins set: the producer forgets it.
        std::mem::forget(pinned);
        region.dismiss(place);
        region.publish().unwrap();
    }
}

/// How often a thread of this process went to sleep.
fn sleeps(tid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).unwrap();
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.unwrap().trim().parse().unwrap()
}

#[test]
fn a_patient_producer_waits_for_a_consumer_to_let_go() {
    let bytes = vec![0u8; PAGE_BYTES];
    let policy = Policy { keep: 1, patience: Duration::from_secs(30) };
    let mut region = region(&bytes, Settings { policy, colours: 2, ..Settings::default() });
    let (consumer, _) = attach(&mut region);
    region.publish().unwrap();
    let held = consumer.latest().unwrap();
    region.publish().unwrap();
    let producer = heliostat_base::process::tid();
    let before = sleeps(producer);
    let reader = std::thread::spawn(move || {
        // The producer naps and looks again; nothing else here makes it sleep that often.
        while sleeps(producer) < before + 100 {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(held);
    });
    region.publish().unwrap();
    reader.join().unwrap();
    assert_eq!(region.metrics().stalled, 1);
}

#[test]
fn a_waiting_consumer_is_woken_by_a_version_and_by_the_end() {
    let bytes = vec![0u8; PAGE_BYTES];
    let mut region = region(&bytes, Settings::default());
    let (consumer, _) = attach(&mut region);
    assert!(!consumer.wait(0, Some(Duration::from_millis(5))));
    let waiting = consumer.clone();
    let waiter = std::thread::spawn(move || (waiting.wait(0, None), waiting.wait(1, None)));
    std::thread::sleep(Duration::from_millis(20));
    region.publish().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    drop(region);
    assert_eq!(waiter.join().unwrap(), (true, false));
    assert!(consumer.is_closed());
    assert_eq!(content(&consumer.latest().unwrap()), bytes, "the last version stays readable");
}

/// Tells what was declared to it, but fails first, every other time.
#[derive(Default)]
struct Failing(Declared, bool);

impl Engine for Failing {
    fn name(&self) -> &'static str {
        "failing"
    }

    fn collect(&mut self, note: &mut dyn FnMut(Range<usize>)) -> Result<(), TrackError> {
        self.0.collect(note)?;
        self.1 = !self.1;
        self.1.then_some(()).ok_or(TrackError::Forked)
    }

    fn declare(&mut self, bytes: Range<usize>) {
        self.0.declare(bytes);
    }

    fn has_raced(&mut self) -> Option<bool> {
        None
    }
}

#[test]
fn a_version_that_could_not_be_made_takes_nothing_with_it() {
    let mut bytes = vec![0u8; 3 * (2 << 20)];
    let (memory, engine) = (Box::new(live(&bytes)), Box::new(Failing::default()));
    let mut region = Region::with_engine(memory, Settings::default(), engine).unwrap();
    let (consumer, _) = attach(&mut region);
    region.publish().unwrap();
    for (round, at) in [100, 3 << 20, 5 << 20].into_iter().enumerate() {
        bytes[at] = round as u8 + 1;
        region.declare(at..at + 1).unwrap();
        assert_eq!(region.publish(), Err(PublishError::Track(TrackError::Forked)));
        assert!(content(&consumer.latest().unwrap()) != bytes);
        region.publish().unwrap();
        assert!(content(&consumer.latest().unwrap()) == bytes, "round {round}");
    }
}

const STAMPED: usize = 4096;

/// Every page carries its number and the version it was written for; free running.
#[test]
fn no_reader_ever_sees_a_page_of_another_version() {
    let tells = |settings: &Settings| settings.engine != EngineKind::Declared;
    for settings in engines_and_placements().filter(tells) {
        let mut words = vec![0u64; STAMPED * PAGE_BYTES / 8];
        let bytes = words.as_ptr().cast::<u8>();
        // SAFETY: the words' own bytes; `words` outlives the region, and is written through the
        // same allocation while only the kernel's copy looks at it.
        let seen = unsafe { std::slice::from_raw_parts(bytes, words.len() * 8) };
        run_free(region(seen, Settings { colours: 6, ..settings }), &mut words);
    }
    let settings = Settings { colours: 6, ..Settings::default() };
    let region = Region::allocate(STAMPED * PAGE_BYTES, settings).unwrap();
    let (start, length) = region.memory().unwrap();
    // SAFETY: the region's own memory, aligned to pages, which `run_free` keeps.
    let words = unsafe { std::slice::from_raw_parts_mut(start.cast(), length / 8) };
    run_free(region, words);
}

fn run_free(mut region: Region, words: &mut [u64]) {
    let consumers: Vec<_> = (0..3).map(|_| attach(&mut region).0).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (pause_ms, consumer) in consumers.iter().enumerate() {
            let done = &done;
            scope.spawn(move || {
                let mut last = 0;
                while !done.load(Relaxed) {
                    consumer.wait(last, Some(Duration::from_millis(50)));
                    let Ok(version) = consumer.latest() else { continue };
                    last = version.number();
                    std::thread::sleep(Duration::from_millis(2 * pause_ms as u64));
                    verify(&version);
                }
            });
        }
        for number in 1..=150u64 {
            // A dirty set that moves and grows.
            let count = 10 + number as usize * 7 % STAMPED;
            for step in 0..count {
                let page = (number as usize * 131 + step * 3) % STAMPED;
                words[page * PAGE_BYTES / 8] = number;
                words[(page + 1) * PAGE_BYTES / 8 - 1] = number;
            }
            words[1] = number;
            region.publish().unwrap();
        }
        done.store(true, Relaxed);
    });
}

/// Both stamps of a page agree, none is from the future, and page 0 says which version it is.
fn verify(version: &Version) {
    let bytes = content(version);
    let word = |at: usize| u64::from_ne_bytes(bytes[at * 8..at * 8 + 8].try_into().unwrap());
    assert_eq!(word(1), version.number());
    for page in 0..bytes.len() / PAGE_BYTES {
        let (first, last) = (word(page * 512), word(page * 512 + 511));
        assert_eq!(first, last, "page {page} of version {}", version.number());
        assert!(first <= version.number());
        assert_eq!(first, stamp(page, version.number()), "page {page}");
    }
}

/// The version for which `page` was last written, up to `number`.
fn stamp(page: usize, number: u64) -> u64 {
    let wrote = |number: u64| {
        let count = 10 + number as usize * 7 % STAMPED;
        let distance = (page + STAMPED * 131 - number as usize * 131 % STAMPED) % STAMPED;
        // step * 3 = distance (mod STAMPED), with the inverse of 3.
        let step = distance * 2731 % STAMPED;
        step < count
    };
    (1..=number).rev().find(|number| wrote(*number)).unwrap_or(0)
}

#[test]
fn a_description_reaches_whoever_attaches_and_has_a_limit() {
    let bytes = vec![0u8; 3 * 4096];
    let mut region = region(&bytes, Settings::default());
    assert!(!region.describe(&[b'x'; 2045]));
    assert!(region.describe("heat <f8 (96, 16)".as_bytes()));
    let (reader, _) = attach(&mut region);
    assert_eq!(reader.description(), b"heat <f8 (96, 16)");
    assert_eq!(reader.address(), bytes.as_ptr() as u64);
}
