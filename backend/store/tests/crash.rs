//! Every crash of a store: during what makes it, changes it, zeroes, and recovers from a crash.
//!
//! A story of changes is recorded; then each state that a crash may leave is opened. It has to hold
//! the areas as before or as after the change that was under way, and of the bytes of each area only
//! what was written into that area, or zeroes.

use std::collections::BTreeMap;

use heliostat_backend_block::{
    Buffer, CrashState, Device, Image, MemoryDevice, Random, Recorder, RecordingDevice, Request,
};
use heliostat_backend_store::{StoreFailed, StoreOnDevice};
use heliostat_storefile::{
    Create, Extent, Format, Identity, Kind, Name, Step, Store, StoreError, Superblock,
};

const GRAIN: u64 = 4096;
const DEVICE_BYTES: u64 = 26 * GRAIN;
/// States of each cut: all of what one torn block may be.
const STATES_MAX: usize = 300;
/// The same of a story that is made up: there are many.
const SOME_STATES_MAX: usize = 8;
/// Crash states of made up stories, unless HELIOSTAT_CRASH_STATES says another number.
const STATES: usize = 10_000;

type Recorded = StoreOnDevice<RecordingDevice<MemoryDevice>>;
type Areas = BTreeMap<String, (u64, u64)>;

fn plan(is_zero: bool) -> Format {
    Format {
        identity: Identity([9; 16]),
        device_bytes: DEVICE_BYTES,
        grain_bytes: GRAIN as u32,
        areas_max: 2,
        is_zero,
    }
}

/// Names, generations and sizes.
fn areas(store: &Store) -> Areas {
    let one = |it: &heliostat_storefile::Area| (it.name.to_string(), (it.generation, it.bytes));
    store.areas().iter().map(one).collect()
}

/// What the areas were after each change.
struct Story {
    store: Recorded,
    recorder: Recorder,
    states: Vec<Areas>,
}

impl Story {
    fn begin(seed: Option<u64>) -> Story {
        let memory = MemoryDevice::new(DEVICE_BYTES);
        let memory = match seed {
            Some(seed) => memory.in_random_order(seed),
            None => memory,
        };
        let formatted = StoreOnDevice::format(memory, &plan(true)).unwrap();
        let memory = formatted.into_device();
        let start = memory.image().clone();
        let device = RecordingDevice::new(memory, start);
        let recorder = device.recorder();
        let store = StoreOnDevice::open(device, None).unwrap();
        Story { store, recorder, states: vec![Areas::new()] }
    }

    /// Notes what the areas are now: a promise.
    fn note(&mut self) {
        self.states.push(areas(self.store.store()));
        self.recorder.mark(self.states.len() as u64 - 1);
    }

    /// Makes an area with a long name, so that the table has several sectors, and can be torn.
    fn create(&mut self, name: &str, grains: u64) -> u64 {
        let name = Name::new(&format!("{name:-<250}")).unwrap();
        let (bytes, kind) = (grains * GRAIN, Kind::Raw);
        let create = Create { name, bytes, owner: 1, rights: 0, kind };
        let generation = self.store.create(&create).unwrap().generation;
        self.note();
        generation
    }

    fn resize(&mut self, generation: u64, grains: u64) {
        self.store.resize(generation, grains * GRAIN).unwrap();
        self.note();
    }

    fn delete(&mut self, generation: u64) {
        self.store.delete(generation).unwrap();
        self.note();
    }

    fn zero_all(&mut self) {
        while self.store.zero(2 * GRAIN).unwrap() {
            self.note();
        }
    }

    /// Writes an area's generation into all of its bytes, some of it durably.
    fn fill(&mut self, generation: u64, durable: bool) {
        let area = self.store.store().area(generation).unwrap().clone();
        let superblock = *self.store.store().superblock();
        let pieces = area.pieces(&superblock, 0, area.bytes).unwrap();
        for piece in pieces {
            let from = Buffer::new(piece.bytes as usize).unwrap();
            from.copy_in(&vec![generation as u8; piece.bytes as usize]).unwrap();
            let device = self.store.device_mut();
            device.begin(9, Request::Write { offset: piece.offset, from, durable }).unwrap();
            let mut taken = Vec::new();
            while taken.is_empty() {
                device.reap(None, &mut taken).unwrap();
            }
        }
    }

    /// Changes at random, as many as take all free bytes and give them back several times. What the store
    /// refuses, for want of room or places in its tables, changes nothing.
    fn make_up(mut self, seed: u64) -> Story {
        let mut random = Random::new(seed);
        for _ in 0..12 + random.below(12) {
            let all = self.store.store().areas();
            let some = all.get(random.below(all.len() as u64) as usize).map(|it| it.generation);
            match (random.below(8), some) {
                (5, _) => {
                    self.store.zero((1 + random.below(3)) * GRAIN).unwrap();
                }
                (6, _) => self.zero_all(),
                (0..=2, _) | (_, None) => self.try_create(&mut random),
                (3, Some(area)) => self.delete(area),
                (4, Some(area)) => {
                    if self.store.resize(area, (1 + random.below(6)) * GRAIN).is_ok() {
                        self.note();
                    }
                }
                (_, Some(area)) => self.fill(area, random.below(2) == 0),
            }
        }
        self
    }

    fn try_create(&mut self, random: &mut Random) {
        let name = Name::new(&format!("{:-<250}", self.states.len())).unwrap();
        let (bytes, kind) = ((1 + random.below(4)) * GRAIN, Kind::Raw);
        let create = Create { name, bytes, owner: 1, rights: 0, kind };
        if self.store.create(&create).is_ok() {
            self.note();
        }
    }

    /// Create, fill, end, make anew in the same place; enlarge, and make smaller.
    fn tell(mut self) -> Story {
        let first = self.create("first", 3);
        self.fill(first, true);
        let second = self.create("second", 2);
        self.fill(second, false);
        self.delete(first);
        self.zero_all();
        let again = self.create("first", 3);
        self.fill(again, false);
        self.resize(second, 5);
        self.fill(second, true);
        self.resize(second, 1);
        self.zero_all();
        self.delete(again);
        self.delete(second);
        let last = self.create("last", 2);
        self.fill(last, true);
        self.zero_all();
        self
    }
}

/// Bytes of an image that are neither zero nor the wanted value.
fn strange(image: &Image, superblock: &Superblock, extents: &[Extent], wanted: u8) -> Option<u8> {
    extents.iter().find_map(|extent| {
        let piece = superblock.piece(*extent);
        let mut bytes = vec![0; piece.bytes as usize];
        image.read(piece.offset, &mut bytes).unwrap();
        bytes.into_iter().find(|byte| *byte != 0 && *byte != wanted)
    })
}

/// What is true of every store, whatever has happened.
fn check_bytes(store: &Store, image: &Image, about: &dyn std::fmt::Debug) {
    let superblock = store.superblock();
    for area in store.areas() {
        let found = strange(image, superblock, &area.extents, area.generation as u8);
        assert_eq!(found, None, "in {area:?}, {about:?}");
    }
    assert_eq!(strange(image, superblock, &store.free(), 0), None, "free, {about:?}");
}

fn check(state: CrashState, states: &[Areas]) {
    let promised = state.promised.unwrap_or(0) as usize;
    let about = (state.cut, state.chosen.clone());
    let mut opened = StoreOnDevice::open(state.device, None).unwrap();
    let found = areas(opened.store());
    let may_be = &states[promised..states.len().min(promised + 2)];
    assert!(may_be.contains(&found), "{found:?} is none of {may_be:?}, {about:?}");
    check_bytes(&opened.store().clone(), opened.device_mut().image(), &about);
    while opened.zero(u64::MAX).unwrap() {}
    let used: u64 = opened.store().areas().iter().map(|area| area.bytes).sum();
    let all = opened.store().superblock().data_grains * GRAIN;
    assert_eq!(opened.store().free_bytes() + used, all, "{about:?}");
    check_bytes(&opened.store().clone(), opened.device_mut().image(), &about);
}

#[test]
fn every_crash_leaves_a_change_undone_or_done_and_no_bytes_to_others() {
    let story = Story::begin(None).tell();
    let recording = story.recorder.recording();
    let mut count = 0;
    for state in recording.crash_states(STATES_MAX, 1) {
        check(state, &story.states);
        count += 1;
    }
    assert!(count > 5000, "only {count} states");
}

#[test]
fn every_crash_of_changes_at_random_leaves_the_same() {
    let wanted = std::env::var("HELIOSTAT_CRASH_STATES").ok().and_then(|it| it.parse().ok());
    let (wanted, mut count, mut seed) = (wanted.unwrap_or(STATES), 0, 0);
    while count < wanted {
        seed += 1;
        let story = Story::begin(Some(seed)).make_up(seed);
        for state in story.recorder.recording().crash_states(SOME_STATES_MAX, seed) {
            check(state, &story.states);
            count += 1;
        }
    }
    println!("{count} crash states of {seed} stories");
}

#[test]
fn a_crash_while_it_recovers_changes_nothing_of_that() {
    let story = Story::begin(None).tell();
    let recording = story.recorder.recording();
    let mut repaired = 0;
    for state in recording.crash_states(24, 2).step_by(4) {
        let about = (state.cut, state.chosen.clone());
        let before = state.device.image().clone();
        let device = RecordingDevice::new(state.device, before);
        let recorder = device.recorder();
        let mut opened = StoreOnDevice::open(device, None).unwrap();
        let found = areas(opened.store());
        repaired += usize::from(recorder.recording().operations() > 4);
        recorder.mark(1);
        while opened.zero(GRAIN).unwrap() {}
        for again in recorder.recording().crash_states(16, 3) {
            let mut again = StoreOnDevice::open(again.device, None).unwrap();
            assert_eq!(areas(again.store()), found, "{about:?}");
            check_bytes(&again.store().clone(), again.device_mut().image(), &about);
        }
    }
    assert!(repaired > 10, "only {repaired} needed a repair");
}

#[test]
fn a_crash_while_a_store_is_made_leaves_none_or_a_whole_one() {
    let mut garbage = Image::new(DEVICE_BYTES);
    garbage.fill(8 * GRAIN, DEVICE_BYTES - 8 * GRAIN, 0xee).unwrap();
    let device = RecordingDevice::new(MemoryDevice::of(garbage.clone()), garbage);
    let recorder = device.recorder();
    StoreOnDevice::format(device, &plan(false)).unwrap();
    recorder.mark(1);
    let mut made = 0;
    for state in recorder.recording().crash_states(STATES_MAX, 4) {
        let (promised, about) = (state.promised, (state.cut, state.chosen.clone()));
        let device = match StoreOnDevice::open(state.device, None) {
            Ok(mut opened) => {
                made += 1;
                assert_eq!(opened.store().free_bytes(), 0, "all of it is to be zeroed first");
                while opened.zero(u64::MAX).unwrap() {}
                check_bytes(&opened.store().clone(), opened.device_mut().image(), &about);
                continue;
            }
            Err(StoreFailed::Store(
                StoreError::Blank | StoreError::Foreign | StoreError::Damaged(_),
            )) => promised,
            Err(error) => panic!("{error} {about:?}"),
        };
        assert_eq!(device, None, "{about:?}");
    }
    assert!(made > 0);
}

#[test]
fn a_device_that_does_things_in_any_order_leaves_the_same() {
    for seed in 0..5 {
        let story = Story::begin(Some(seed)).tell();
        let recording = story.recorder.recording();
        recording.crash_states(12, seed).for_each(|state| check(state, &story.states));
    }
}

#[test]
fn a_process_that_ends_during_a_change_leaves_a_device_that_may_still_crash() {
    for steps in 1..4 {
        let mut story = Story::begin(None);
        story.create("first", 3);
        let (before, mut store) = (story.states[1].clone(), story.store.store().clone());
        let name = Name::new(&"second".repeat(40)).unwrap();
        let create = Create { name, bytes: GRAIN, owner: 1, rights: 0, kind: Kind::Raw };
        let change = store.create(&create).unwrap();
        let mut device = story.store.into_device();
        // The process ends after some steps. What it wrote is in the device's cache, and is read.
        change.steps[..steps].iter().for_each(|step| perform(&mut device, step));
        store.apply(change).unwrap();
        let (after, opened) = (areas(&store), StoreOnDevice::open(device, None).unwrap());
        assert_eq!(areas(opened.store()), after, "after {steps} steps");
        story.recorder.mark(9);
        let recording = story.recorder.recording();
        for state in recording.crash_states(STATES_MAX, 5).filter(|it| it.promised >= Some(1)) {
            let (promised, about) = (state.promised, (steps, state.cut, state.chosen.clone()));
            let found = areas(StoreOnDevice::open(state.device, None).unwrap().store());
            let is_right = found == after || promised == Some(1) && found == before;
            assert!(is_right, "{found:?}, {about:?}");
        }
    }
}

/// Does one step of a change, as whoever makes the change would.
fn perform(device: &mut impl Device, step: &Step) {
    let request = match step {
        Step::Write { offset, bytes } => {
            let from = Buffer::new(bytes.len()).unwrap();
            from.copy_in(bytes).unwrap();
            Request::Write { offset: *offset, from, durable: false }
        }
        Step::Zero { offset, bytes } => Request::Zero { offset: *offset, bytes: *bytes },
        Step::Flush => Request::Flush,
    };
    device.begin(1, request).unwrap();
    let mut taken = Vec::new();
    while taken.is_empty() {
        device.reap(None, &mut taken).unwrap();
    }
}
