//! What is said of one log while nothing fails: order, positions, limits, rounds, waiting.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use heliostat_backend_block::{
    Buffer, Device, FaultDevice, Faults, Geometry, MemoryDevice, Request,
};
use heliostat_base::mapping::SharedMapping;

use crate::format::{entry_bytes, HeaderError};
use crate::{Area, DriverThread, Log, LogError, Options, Position};

mod crash;
mod damage;
mod queue;
mod threads;

/// An area of so many bytes for entries, not at the device's beginning.
pub(super) fn area(data_bytes: u64) -> Area {
    Area { offset: 8192, bytes: data_bytes + 8192 }
}

pub(super) fn memory(area: Area, sector_bytes: u32) -> MemoryDevice {
    let geometry =
        Geometry { bytes: 0, sector_bytes, memory_alignment: sector_bytes, discard_zeroes: false };
    MemoryDevice::new(area.offset + area.bytes + 8192).with_geometry(geometry)
}

pub(super) fn new_log(data_bytes: u64) -> Log {
    let area = area(data_bytes);
    Log::create(Box::new(memory(area, 512)), area, Options::default()).unwrap()
}

/// Bytes that tell which entry they are of.
pub(super) fn payload(id: u64, length: usize) -> Vec<u8> {
    let mut bytes = id.to_le_bytes().to_vec();
    bytes.extend((0..length).map(|at| ((id % 251) as usize * 31 + at * 7) as u8));
    bytes
}

pub(super) fn id_of(payload: &[u8]) -> u64 {
    u64::from_le_bytes(*payload.first_chunk().expect("every payload begins with its number"))
}

/// Closes a log and opens it again.
pub(super) fn reopen(log: Log, area: Area) -> Log {
    log.close().unwrap();
    Log::open(log.into_device().expect("no other handle"), area, Options::default()).unwrap()
}

fn payloads(log: &Log) -> Vec<Vec<u8>> {
    log.read().map(|entry| entry.unwrap().payload).collect()
}

#[test]
fn entries_read_back_in_order_with_their_lengths_after_each_opening() {
    let mut log = new_log(1 << 20);
    let lengths = [0, 1, 7, 8, 9, 479, 480, 481, 4096, 65_536, 100_000];
    let wanted: Vec<Vec<u8>> = (0..).zip(lengths).map(|(id, length)| payload(id, length)).collect();
    for (count, bytes) in (1..).zip(&wanted) {
        let position = log.append_sync(bytes).unwrap();
        assert!(position.sequence >= count - 1);
        assert_eq!(log.end().at % 8, 0);
        assert_eq!(payloads(&log), wanted[..count as usize]);
        log = reopen(log, area(1 << 20));
        assert_eq!(payloads(&log), wanted[..count as usize]);
    }
    log.append_sync(b"").unwrap();
    assert_eq!(payloads(&log).last().unwrap(), b"");
}

#[test]
fn an_entry_is_not_read_before_it_is_durable_and_polling_makes_it_so() {
    let log = new_log(1 << 16);
    let appended = log.append(b"one").unwrap();
    assert!(!appended.is_durable());
    assert_eq!(log.read().next(), None);
    log.poll();
    assert!(appended.is_durable());
    assert_eq!(appended.wait(), Ok(appended.position()));
    assert_eq!(payloads(&log), [b"one"]);
}

#[test]
fn a_reader_starts_anywhere_and_goes_on_where_more_is_acknowledged() {
    let log = new_log(1 << 16);
    let positions: Vec<Position> =
        (0..10).map(|id| log.append_sync(&payload(id, 50)).unwrap()).collect();
    let mut reader = log.read_from(positions[7]).unwrap();
    let ids: Vec<u64> = reader.by_ref().map(|entry| id_of(&entry.unwrap().payload)).collect();
    assert_eq!(ids, [7, 8, 9]);
    assert_eq!(reader.position(), log.end());
    let position = log.append_sync(&payload(10, 5)).unwrap();
    let entry = reader.read().unwrap().unwrap();
    assert_eq!((entry.position, entry.next), (position, log.end()));
    assert_eq!(reader.read(), Ok(None));
}

#[test]
fn positions_that_are_none_are_refused_with_what_there_is() {
    let log = new_log(1 << 16);
    let first = log.append_sync(&[0; 100]).unwrap();
    let second = log.append_sync(&[0; 100]).unwrap();
    let end = log.end();
    let beyond = Position { at: end.at + 8, sequence: end.sequence + 1 };
    assert_eq!(log.read_from(beyond).err(), Some(LogError::Beyond { wanted: beyond, end }));
    let wrong = Position { at: second.at, sequence: end.sequence };
    assert_eq!(log.trim(wrong), Err(LogError::NotAnEntry { wanted: wrong }));
    let inside = Position { at: second.at + 8, sequence: second.sequence };
    assert_eq!(log.trim(inside), Err(LogError::NotAnEntry { wanted: inside }));
    log.trim(second).unwrap();
    assert_eq!(log.trim(first), Err(LogError::Trimmed { wanted: first, begin: second }));
    assert_eq!(log.begin(), second);
}

#[test]
fn a_full_area_says_its_limit_keeps_what_it_has_and_lives_on_when_it_is_trimmed() {
    let log = new_log(16 << 10);
    let mut ids = 0..;
    let error = ids.find_map(|id| log.append_sync(&payload(id, 492)).err()).unwrap();
    let count = ids.start - 1;
    let wanted = entry_bytes(500);
    let limit = 16 << 10;
    assert_eq!(error, LogError::Full { wanted, free: limit - count * wanted, limit });
    let found = payloads(&log);
    assert_eq!(found.len() as u64, count);
    log.append_sync(b"").expect("a small one still fits");
    let third = log.read().nth(2).unwrap().unwrap();
    log.trim(third.position).unwrap();
    log.append_sync(&payload(99, 492)).unwrap();
    let log = reopen(log, area(16 << 10));
    let ids: Vec<u64> =
        payloads(&log).iter().filter(|it| !it.is_empty()).map(|it| id_of(it)).collect();
    assert_eq!(ids, (2..count).chain([99]).collect::<Vec<u64>>());
}

#[test]
fn a_payload_over_the_limit_is_refused_with_both_numbers() {
    let log = new_log(1 << 16);
    let limit = log.longest();
    assert_eq!(limit, (1 << 16) / 4 - 32);
    let found = limit + 1;
    let refused = log.append(&vec![0; found as usize]);
    assert_eq!(refused.err(), Some(LogError::TooLong { found, limit }));
    log.append_sync(&vec![7; limit as usize]).unwrap();
    assert_eq!(payloads(&log), [vec![7; limit as usize]]);
}

#[test]
fn an_area_goes_round_a_thousand_times_at_one_price_and_keeps_the_newest_entries() {
    const DATA_BYTES: u64 = 16 << 10;
    let (area, faults) = (area(DATA_BYTES), Faults::new(1));
    let device = FaultDevice::new(memory(area, 512), faults.clone());
    let log = Log::create(Box::new(device), area, Options::default()).unwrap();
    let (mut id, mut kept) = (0, std::collections::VecDeque::new());
    // What the device had to do by the end of each hundred rounds.
    let mut operations = vec![faults.begun()];
    while operations.len() <= 10 {
        let appended = log.append(&payload(id, (id * 37 % 700) as usize)).unwrap();
        kept.push_back((id, appended.wait().unwrap()));
        id += 1;
        if kept.len() > 8 {
            kept.pop_front();
            log.trim(kept[0].1).unwrap();
        }
        if log.end().at >= operations.len() as u64 * 100 * DATA_BYTES {
            operations.push(faults.begun());
        }
    }
    let prices: Vec<usize> = operations.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let (least, most) = (prices.iter().min().unwrap(), prices.iter().max().unwrap());
    assert!(most - least <= least / 50, "{prices:?}");
    let log = reopen(log, area);
    let found: Vec<u64> = payloads(&log).iter().map(|it| id_of(it)).collect();
    let wanted: Vec<u64> = kept.iter().map(|(id, _)| *id).collect();
    assert_eq!(found, wanted);
}

#[test]
fn reservations_are_acknowledged_in_order_whoever_commits_first() {
    let log = new_log(1 << 16);
    let mut first = log.reserve(6).unwrap();
    let mut second = log.reserve(6).unwrap();
    second.put(b"second").unwrap();
    let second = second.commit().unwrap();
    log.poll();
    assert!(!second.is_durable());
    first.put(b"fir").unwrap();
    assert_eq!(first.put(b"stst"), Err(LogError::TooLong { found: 7, limit: 6 }));
    assert_eq!(first.left(), 3);
    first.put(b"st.").unwrap();
    first.commit().unwrap();
    second.wait().unwrap();
    assert_eq!(payloads(&log), [b"first.", b"second"]);
}

#[test]
fn a_reservation_that_is_given_up_is_no_entry() {
    let log = new_log(1 << 16);
    drop(log.reserve(1000).unwrap());
    let mut half = log.reserve(4).unwrap();
    half.put(b"ab").unwrap();
    assert_eq!(half.commit().err(), Some(LogError::Unfilled { found: 2, wanted: 4 }));
    log.append_sync(b"after").unwrap();
    assert_eq!(payloads(&log), [b"after"]);
    assert_eq!(payloads(&reopen(log, area(1 << 16))), [b"after"]);
}

#[test]
fn memory_that_others_change_is_copied_once() {
    let log = new_log(1 << 16);
    let shared = SharedMapping::for_descendants(16 << 10).unwrap();
    shared.copy_in(100, &payload(3, 10_000)).unwrap();
    let appended = log.append_shared(&shared, 100, 10_008).unwrap();
    shared.fill(0, 16 << 10, 9).unwrap();
    appended.wait().unwrap();
    assert_eq!(payloads(&log), [payload(3, 10_000)]);
    let refused = log.append_shared(&shared, 16 << 10, 1);
    assert_eq!(refused.err(), Some(LogError::TooLong { found: 1, limit: 16 << 10 }));
}

#[test]
fn a_closed_log_takes_nothing_and_opens_where_it_was() {
    let log = new_log(1 << 16);
    let appended = log.append(b"one").unwrap();
    log.close().unwrap();
    assert!(appended.is_durable());
    assert_eq!(log.append_sync(b"two"), Err(LogError::Closed));
    drop(appended);
    let log = reopen(log, area(1 << 16));
    assert_eq!(payloads(&log), [b"one"]);
}

#[test]
fn there_is_one_log_in_an_area_until_it_is_erased() {
    let area = area(1 << 16);
    let options = Options::default();
    let none = Log::open(Box::new(memory(area, 512)), area, options);
    assert_eq!(none.err(), Some(LogError::NoLog(HeaderError::Foreign)));
    let log = new_log(1 << 16);
    let device = log.into_device().unwrap();
    let device = Log::erase(device, area).unwrap();
    let log = Log::create(device, area, options).unwrap();
    log.append_sync(b"x").unwrap();
    log.close().unwrap();
    let again = Log::create(log.into_device().unwrap(), area, options);
    assert_eq!(again.err(), Some(LogError::Exists));
}

#[test]
fn a_log_is_not_opened_in_an_area_of_another_length() {
    let log = new_log(1 << 16);
    log.close().unwrap();
    let other = Area { bytes: area(1 << 16).bytes - 512, ..area(1 << 16) };
    let refused = Log::open(log.into_device().unwrap(), other, Options::default()).err();
    let (found, wanted) = ((1 << 16) - 512, 1 << 16);
    assert_eq!(refused, Some(LogError::Area { what: "space for entries", found, wanted }));
}

#[test]
fn a_log_that_a_later_version_has_written_is_not_opened_by_the_block_of_this_one() {
    for later in [0, 1] {
        let log = new_log(1 << 16);
        log.close().unwrap();
        let device = log.into_device().unwrap();
        let (mut device, offset) = (device, area(1 << 16).offset + later * 4096);
        let mut block = read(device.as_mut(), offset);
        block[8] = 2;
        let checksum = crc32c::crc32c(&block[..508]);
        block[508..512].copy_from_slice(&checksum.to_le_bytes());
        write(device.as_mut(), offset, &block);
        let refused = Log::open(device, area(1 << 16), Options::default()).err();
        let newer = LogError::NoLog(HeaderError::Version { found: 2 });
        assert_eq!(refused, Some(newer), "block {later}");
    }
}

/// One operation of a device, from its beginning to its end.
fn make(device: &mut dyn Device, request: Request) {
    device.begin(0, request).unwrap();
    let mut done = Vec::new();
    while done.is_empty() {
        device.reap(Some(Duration::from_secs(1)), &mut done).unwrap();
    }
    done[0].result.unwrap();
}

fn read(device: &mut dyn Device, offset: u64) -> Vec<u8> {
    let (into, mut bytes) = (Buffer::new(512).unwrap(), vec![0; 512]);
    make(device, Request::Read { offset, into: into.clone() });
    into.memory.copy_out(into.at, &mut bytes).unwrap();
    bytes
}

fn write(device: &mut dyn Device, offset: u64, bytes: &[u8]) {
    let from = Buffer::new(bytes.len()).unwrap();
    from.memory.copy_in(from.at, bytes).unwrap();
    make(device, Request::Write { offset, from, durable: true });
}

#[test]
fn what_another_log_left_in_the_area_is_not_taken_for_entries() {
    let area = area(1 << 16);
    let log = new_log(1 << 16);
    (0..100).for_each(|id| assert!(log.append_sync(&payload(id, 100)).is_ok()));
    log.close().unwrap();
    let device = Log::erase(log.into_device().unwrap(), area).unwrap();
    let log = Log::create(device, area, Options::default()).unwrap();
    let log = reopen(log, area);
    assert_eq!(payloads(&log), Vec::<Vec<u8>>::new());
    log.append_sync(&payload(7, 100)).unwrap();
    assert_eq!(payloads(&reopen(log, area)), [payload(7, 100)]);
}

#[test]
fn callbacks_come_in_order_and_may_append_themselves() {
    let log = new_log(1 << 16);
    let (told, other) = (Arc::new(AtomicU32::new(0)), log.clone());
    for expected in 0..10 {
        let (told, log) = (told.clone(), other.clone());
        other.append(&payload(expected.into(), 20)).unwrap().then(move |outcome| {
            outcome.unwrap();
            assert_eq!(told.fetch_add(1, Ordering::SeqCst), expected);
            log.append_sync(b"from the callback").unwrap();
        });
    }
    log.sync().unwrap();
    assert_eq!(told.load(Ordering::SeqCst), 10);
    log.append_sync(b"late").unwrap();
    let late = log.append(b"later").unwrap();
    late.wait().unwrap();
    late.then(move |outcome| {
        assert_eq!(outcome.map(|_| told.fetch_add(1, Ordering::SeqCst)), Ok(10))
    });
    assert_eq!(payloads(&log).len(), 22);
}

#[test]
fn the_descriptor_is_readable_when_something_was_acknowledged() {
    let log = new_log(1 << 16);
    let event = log.event().unwrap();
    let _driver = DriverThread::start(&log).unwrap();
    assert_eq!(event.wait(Some(0)), Ok(false));
    let appended = log.append(b"one").unwrap();
    assert_eq!(event.wait(Some(20_000)), Ok(true));
    assert!(appended.is_durable());
}
