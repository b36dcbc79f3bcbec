use std::collections::BTreeSet;

use super::*;
use crate::{Buffer, MemoryDevice};

const SECTOR: usize = 512;

fn device(sectors: u64) -> RecordingDevice<MemoryDevice> {
    let memory = MemoryDevice::new(sectors * SECTOR as u64);
    let start = memory.image().clone();
    RecordingDevice::new(memory, start)
}

fn write(sector: u64, sectors: usize, value: u8, durable: bool) -> Request {
    let from = Buffer::new(sectors * SECTOR).unwrap();
    from.copy_in(&vec![value; sectors * SECTOR]).unwrap();
    Request::Write { offset: sector * SECTOR as u64, from, durable }
}

fn complete_all(device: &mut impl Device) {
    device.reap(None, &mut Vec::new()).unwrap();
}

/// First bytes of all sectors, of each state after the last event.
fn last_states(recording: &Recording, limit: usize) -> BTreeSet<Vec<u8>> {
    let states = recording.crash_states(limit, 1);
    states.filter(|it| it.cut == recording.events.len()).map(|it| firsts(&it)).collect()
}

fn firsts(state: &CrashState) -> Vec<u8> {
    let image = state.image();
    let first = |sector: u64| {
        let mut byte = [0];
        image.read(sector * SECTOR as u64, &mut byte).unwrap();
        byte[0]
    };
    (0..image.bytes() / SECTOR as u64).map(first).collect()
}

fn sets<const N: usize>(states: [&[u8]; N]) -> BTreeSet<Vec<u8>> {
    states.iter().map(|state| state.to_vec()).collect()
}

#[test]
fn a_write_without_a_flush_is_there_absent_or_torn_at_sectors() {
    let mut device = device(2);
    device.begin(0, write(0, 2, 7, false)).unwrap();
    complete_all(&mut device);
    let recording = device.recorder().recording();
    // It has completed, which says nothing of its being durable: no cut of its own.
    let states: BTreeSet<_> = recording.crash_states(100, 1).map(|it| firsts(&it)).collect();
    assert_eq!(states, sets([&[0, 0], &[0, 7], &[7, 0], &[7, 7]]));
}

#[test]
fn a_flush_covers_what_completed_before_it_was_begun_and_nothing_else() {
    let mut device = device(2);
    device.begin(0, write(0, 1, 7, false)).unwrap();
    complete_all(&mut device);
    // This one is under way together with the flush, and completes with it.
    device.begin(1, write(1, 1, 8, false)).unwrap();
    device.begin(2, Request::Flush).unwrap();
    complete_all(&mut device);
    let recording = device.recorder().recording();
    assert_eq!(last_states(&recording, 100), sets([&[7, 0], &[7, 8]]));
}

#[test]
fn a_durable_write_covers_itself_and_nothing_else() {
    let mut device = device(2);
    device.begin(0, write(0, 1, 7, false)).unwrap();
    complete_all(&mut device);
    device.begin(1, write(1, 1, 8, true)).unwrap();
    complete_all(&mut device);
    let recording = device.recorder().recording();
    assert_eq!(last_states(&recording, 100), sets([&[0, 8], &[7, 8]]));
}

#[test]
fn overlapping_writes_are_done_in_order_unless_they_were_under_way_together() {
    let both = |is_together: bool| {
        let mut device = device(1);
        device.begin(0, write(0, 1, 1, false)).unwrap();
        if !is_together {
            complete_all(&mut device);
        }
        device.begin(1, write(0, 1, 2, false)).unwrap();
        complete_all(&mut device);
        device.begin(2, Request::Flush).unwrap();
        complete_all(&mut device);
        last_states(&device.recorder().recording(), 100)
    };
    assert_eq!(both(false), sets([&[2]]));
    assert_eq!(both(true), sets([&[1], &[2]]));
}

#[test]
fn a_flush_of_what_was_overwritten_durably_brings_nothing_back() {
    let mut device = device(1);
    device.begin(0, write(0, 1, 1, false)).unwrap();
    complete_all(&mut device);
    device.begin(1, write(0, 1, 2, true)).unwrap();
    complete_all(&mut device);
    device.begin(2, write(0, 1, 3, false)).unwrap();
    device.begin(3, Request::Flush).unwrap();
    complete_all(&mut device);
    assert_eq!(last_states(&device.recorder().recording(), 100), sets([&[2], &[3]]));
}

#[test]
fn a_write_that_failed_may_be_there_even_after_a_flush() {
    let faults = crate::Faults::new(1);
    faults.script(0, crate::Fault::DoneError { errno: 5 });
    let memory = MemoryDevice::new(512);
    let start = memory.image().clone();
    let mut device = RecordingDevice::new(crate::FaultDevice::new(memory, faults), start);
    device.begin(0, write(0, 1, 1, true)).unwrap();
    complete_all(&mut device);
    device.begin(1, Request::Flush).unwrap();
    complete_all(&mut device);
    assert_eq!(last_states(&device.recorder().recording(), 100), sets([&[0], &[1]]));
}

#[test]
fn marks_and_completed_operations_are_those_before_the_cut() {
    let mut device = device(1);
    device.begin(0, write(0, 1, 1, true)).unwrap();
    complete_all(&mut device);
    device.recorder().mark(10);
    device.begin(1, write(0, 1, 2, true)).unwrap();
    complete_all(&mut device);
    device.recorder().mark(11);
    let recording = device.recorder().recording();
    assert_eq!(recording.operations(), 2);
    for state in recording.crash_states(100, 1) {
        let value = firsts(&state)[0];
        let wanted = state.promised.map_or(0, |promise| promise as u8 - 9);
        assert!(value >= wanted, "{state:?}");
        assert!(usize::from(value) >= state.completed.len(), "{state:?}");
    }
    assert_eq!(recording.crash_states(100, 1).last().unwrap().promised, Some(11));
}

#[test]
fn zeroes_are_open_until_a_flush_as_writes_are() {
    let mut device = device(2);
    device.begin(0, write(0, 2, 7, true)).unwrap();
    complete_all(&mut device);
    device.begin(1, Request::Zero { offset: 512, bytes: 512 }).unwrap();
    complete_all(&mut device);
    let recording = device.recorder().recording();
    let before: BTreeSet<_> = recording.crash_states(9, 1).map(|it| firsts(&it)).collect();
    assert!(before.is_superset(&sets([&[7, 7], &[7, 0]])));
    device.begin(2, Request::Flush).unwrap();
    complete_all(&mut device);
    assert_eq!(last_states(&device.recorder().recording(), 9), sets([&[7, 0]]));
}

#[test]
fn of_too_many_states_a_sample_is_taken_that_is_legal_and_the_same_each_time() {
    let mut device = device(64);
    for at in 0..8 {
        device.begin(at, write(at * 4, 8, at as u8 + 1, false)).unwrap();
    }
    complete_all(&mut device);
    device.recorder().mark(1);
    let recording = device.recorder().recording();
    let run = |seed| {
        let states = recording.crash_states(200, seed);
        states.filter(|it| it.promised.is_some()).map(|it| firsts(&it)).collect::<Vec<_>>()
    };
    let states = run(1);
    let different: BTreeSet<_> = states.iter().cloned().collect();
    assert_eq!((states.len(), different.len(), states == run(1)), (200, 200, true));
    assert!(states != run(2));
    assert!(different.contains(&vec![0; 64]), "nothing of it");
    for state in &states {
        for (sector, value) in state.iter().enumerate() {
            let may = [0, sector / 4 + 1, sector / 4];
            assert!(may.contains(&usize::from(*value)), "sector {sector} holds {value}");
        }
    }
}

#[test]
fn a_device_in_random_order_leaves_each_time_what_a_crash_may_leave() {
    for seed in 0..200 {
        let memory = MemoryDevice::new(8 * SECTOR as u64).in_random_order(seed);
        let start = memory.image().clone();
        let mut device = RecordingDevice::new(memory, start);
        for at in 0..4 {
            device.begin(at, write(at, 3, at as u8 + 1, at % 2 == 0)).unwrap();
        }
        for _ in 0..seed % 5 {
            complete_all(&mut device);
        }
        device.recorder().mark(0);
        let image = device.inner().image().clone();
        let recording = device.recorder().recording();
        let found = recording
            .crash_states(5000, 1)
            .any(|it| it.cut == recording.events.len() && *it.image() == image);
        assert!(found, "seed {seed}: {image:?}");
    }
}
