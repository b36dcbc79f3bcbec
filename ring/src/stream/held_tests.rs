//! Bytes held back: seen by nobody before their time, by everybody after it, and once.

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use heliostat_base::clock;
use heliostat_base::mapping::SharedMapping;

use super::*;

const CAPACITY: u64 = 4096;
const NEVER: u64 = u64::MAX;

fn lane() -> (Lane, WriteCache) {
    let (_fd, memory) = SharedMapping::create(c"held", 8192).unwrap();
    let lane = Lane::new(&Arc::new(memory), 0, 4096, CAPACITY as u32).unwrap();
    lane.reset(100);
    (lane, WriteCache::new())
}

fn hold(lane: &Lane, cache: &mut WriteCache, bytes: &[u8], until: u64) -> HeldBack {
    lane.hold(&[IoSlice::new(bytes)], until, cache).unwrap()
}

fn read(lane: &Lane) -> Vec<u8> {
    let mut bytes = vec![0; 2 * CAPACITY as usize];
    let done = lane.read(&mut [IoSliceMut::new(&mut bytes)], false).unwrap();
    bytes.truncate(done.bytes);
    bytes
}

#[test]
fn what_is_held_is_seen_after_a_push_and_in_order() {
    let (lane, mut cache) = lane();
    assert!(hold(&lane, &mut cache, b"one ", NEVER).is_news);
    assert!(!hold(&lane, &mut cache, b"two ", NEVER).is_news, "the reader knows the time");
    assert_eq!((read(&lane), lane.held(), lane.unsent()), (vec![], 8, Ok(8)));
    assert_eq!(lane.push_only(6), 6);
    assert_eq!(read(&lane), b"one tw");
    assert_eq!((lane.push(), lane.push()), (2, 0));
    lane.write(&[IoSlice::new(b"three")], &mut cache).unwrap();
    assert_eq!(read(&lane), b"o three");
}

#[test]
fn the_reader_takes_what_is_held_when_its_time_has_come() {
    let (lane, mut cache) = lane();
    hold(&lane, &mut cache, b"first", clock::monotonic_ns() + 3_600_000_000_000);
    assert_eq!(lane.unread(), Ok(0));
    assert!(lane.held_for().is_some_and(|ns| 0 < ns && ns <= HELD_BACK_NS));
    hold(&lane, &mut cache, b" second", 0);
    assert_eq!(lane.unread(), Ok(0), "the first decides");
    assert_eq!(lane.release_held(), 12);
    assert!(hold(&lane, &mut cache, b" third", 0).is_news);
    assert_eq!(read(&lane), b"first second");
    assert_eq!((lane.unread(), read(&lane)), (Ok(6), b" third".to_vec()));
    assert_eq!(lane.held_for(), None);
}

#[test]
fn what_is_due_behind_unread_bytes_ends_one_sleep_and_not_the_next() {
    let (lane, mut cache) = lane();
    lane.write(&[IoSlice::new(b"unread ")], &mut cache).unwrap();
    hold(&lane, &mut cache, b"held", 0);
    let tail = lane.tail();
    assert_eq!((lane.held_for(), lane.held_for()), (Some(0), None));
    assert_eq!(lane.tail(), tail + 4);
    lane.place.u64(at::HELD).store(tail + 4 + CAPACITY, Relaxed);
    assert_eq!(lane.held_for(), None, "more than a ring is taken by nobody");
    assert_eq!(read(&lane), b"unread held");
}

#[test]
fn the_end_pushes_what_is_held_and_a_reset_drops_it() {
    for (flag, left) in [(at::FIN, 4), (at::SWITCHED, 4), (at::RESET, 0), (at::FIN | at::RESET, 0)]
    {
        let (lane, mut cache) = lane();
        hold(&lane, &mut cache, b"last", NEVER);
        lane.raise(flag);
        assert_eq!((lane.unread(), lane.held()), (Ok(left), 0), "{flag}");
    }
}

#[test]
fn there_is_room_for_one_ring_of_held_bytes_wherever_it_begins() {
    let (lane, mut cache) = lane();
    let bytes: Vec<u8> = (0..2 * CAPACITY).map(|number| (number % 251) as u8).collect();
    for start in [1, 700, 4095] {
        lane.write(&[IoSlice::new(&bytes[..start])], &mut cache).unwrap();
        assert_eq!(read(&lane).len(), start);
        hold(&lane, &mut cache, &bytes[..1000], NEVER);
        let rest = hold(&lane, &mut cache, &bytes[1000..], NEVER).bytes;
        assert_eq!((rest as u64, lane.unsent()), (CAPACITY - 1000, Ok(CAPACITY)));
        assert_eq!(hold(&lane, &mut cache, b"x", NEVER).bytes, 0);
        assert_eq!(lane.push(), CAPACITY);
        assert_eq!(read(&lane), bytes[..CAPACITY as usize]);
    }
}

#[test]
fn a_file_is_held_behind_its_header() {
    use std::os::fd::AsRawFd;
    let (lane, mut cache) = lane();
    let zeros = std::fs::File::open("/dev/zero").unwrap();
    hold(&lane, &mut cache, b"header", NEVER);
    let held = lane.hold_from(zeros.as_raw_fd(), None, 10, NEVER, &mut cache).unwrap().unwrap();
    assert_eq!((held.bytes, lane.unread()), (10, Ok(0)));
    assert!(lane.hold_from(-1, Some(0), 10, NEVER, &mut cache).unwrap().is_err());
    assert_eq!(lane.push(), 16);
    assert_eq!(read(&lane), [&b"header"[..], &[0; 10]].concat());
}

#[test]
fn foreign_numbers_of_what_is_held_reach_nothing_outside_the_ring() {
    for number in [u64::MAX, 1 << 63, CAPACITY + 1, CAPACITY, 1] {
        let (lane, mut cache) = lane();
        lane.place.u64(at::HELD).store(number, Relaxed);
        let unread = lane.unread().unwrap();
        assert_eq!(unread, if number <= CAPACITY { number } else { 0 });
        assert!(read(&lane).len() as u64 == unread && lane.release_held() == 0);
        let _ = hold(&lane, &mut cache, b"more", NEVER);
        lane.place.u64(at::HELD).store(number, Relaxed);
        let _ = (lane.push(), lane.unsent(), lane.unread(), lane.take_back());
    }
}
