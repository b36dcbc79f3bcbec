//! A lane against a plain queue, at small sizes and through scribbled words.

use super::*;
use std::collections::VecDeque;

const CAPACITY: u32 = 16384;

fn lane() -> Lane {
    let (_fd, memory) = SharedMapping::create(c"lane", 4096 + CAPACITY as usize).unwrap();
    let lane = Lane::new(&Arc::new(memory), 64, 4096, CAPACITY).unwrap();
    lane.reset(320);
    lane
}

fn write(lane: &Lane, cache: &mut WriteCache, bytes: &[u8]) -> usize {
    lane.write(&[IoSlice::new(bytes)], cache).unwrap()
}

fn read(lane: &Lane, limit: usize) -> Vec<u8> {
    let mut bytes = vec![0; limit];
    let done = lane.read(&mut [IoSliceMut::new(&mut bytes)], false).unwrap();
    bytes.truncate(done.bytes);
    bytes
}

#[test]
fn bytes_come_out_in_order_whatever_the_piece_sizes() {
    let (lane, mut cache, mut model) = (lane(), WriteCache::default(), VecDeque::new());
    let (mut seed, mut next) = (7u64, 0u8);
    for _ in 0..20_000 {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let length = (seed >> 40) as usize % 5000;
        let piece: Vec<u8> = (0..length).map(|i| next.wrapping_add(i as u8)).collect();
        let done = write(&lane, &mut cache, &piece);
        assert_eq!(done, length.min(CAPACITY as usize - model.len()));
        model.extend(&piece[..done]);
        next = next.wrapping_add(done as u8);
        let out = read(&lane, (seed >> 20) as usize % 6000);
        let expected: Vec<u8> = model.drain(..out.len()).collect();
        assert_eq!(out, expected);
        assert_eq!(lane.unread().unwrap(), model.len() as u64);
    }
}

#[test]
fn a_drained_lane_goes_back_to_its_front() {
    let (lane, mut cache) = (lane(), WriteCache::default());
    let mut offsets = std::collections::HashSet::new();
    for _ in 0..1000 {
        assert_eq!(write(&lane, &mut cache, &[1; 64]), 64);
        let tail = lane.place.u64(at::TAIL).load(Relaxed);
        offsets.insert(tail.wrapping_sub(lane.place.u64(at::ORIGIN).load(Relaxed)) & 16383);
        assert_eq!(read(&lane, 64).len(), 64);
    }
    assert!(offsets.len() as u64 <= 2 * REWIND_BYTES / 64, "{} places", offsets.len());
}

#[test]
fn peeked_bytes_stay_and_discarded_bytes_go() {
    let (lane, mut cache) = (lane(), WriteCache::default());
    write(&lane, &mut cache, b"abcdef");
    let mut three = [0; 3];
    lane.read(&mut [IoSliceMut::new(&mut three)], true).unwrap();
    assert_eq!(&three, b"abc");
    assert_eq!(lane.discard(4).unwrap().bytes, 4);
    assert_eq!(read(&lane, 10), b"ef");
}

#[test]
fn only_the_read_that_makes_a_third_free_looks_for_a_sleeping_writer() {
    let (lane, mut cache) = (lane(), WriteCache::default());
    assert_eq!(write(&lane, &mut cache, &vec![0; 40_000]), CAPACITY as usize);
    lane.writer_sleeps();
    let mut bytes = vec![0; 2000];
    let made: Vec<bool> = (0..8)
        .map(|_| lane.read(&mut [IoSliceMut::new(&mut bytes)], false).unwrap().made_room)
        .collect();
    assert_eq!(made, [false, false, true, false, false, false, false, false]);
    assert!(lane.take_sleeping_writer());
    assert!(!lane.take_sleeping_writer());
}

#[test]
fn scribbled_positions_are_refused_on_both_sides() {
    for word in [at::HEAD, at::TAIL] {
        for value in [u64::MAX, 1 << 63, u64::from(CAPACITY) + 1] {
            let (lane, mut cache) = (lane(), WriteCache::default());
            lane.place.u64(word).store(value, Relaxed);
            let mut bytes = [0; 8];
            let reading = lane.read(&mut [IoSliceMut::new(&mut bytes)], false);
            assert!(reading.is_err() || word == at::HEAD, "{word} {value}");
            let _ = lane.write(&[IoSlice::new(&[0; 8])], &mut cache);
            let _ = lane.take_back();
        }
    }
}

#[test]
fn a_scribbled_origin_never_leaves_the_ring() {
    let (lane, mut cache) = (lane(), WriteCache::default());
    for value in [0, 1, 4095, u64::MAX, u64::MAX / 2] {
        lane.place.u64(at::ORIGIN).store(value, Relaxed);
        write(&lane, &mut cache, &[9; 10_000]);
        assert_eq!(read(&lane, 10_000).len(), 10_000);
    }
}

#[test]
fn a_file_is_read_straight_into_the_ring() {
    use std::os::fd::AsRawFd;
    let (lane, mut cache) = (lane(), WriteCache::default());
    let zeros = std::fs::File::open("/dev/zero").unwrap();
    let answer = lane.fill_from(zeros.as_raw_fd(), None, 100, &mut cache);
    assert_eq!(answer, Ok(Ok(100)));
    assert_eq!(
        lane.fill_from(-1, Some(0), 100, &mut cache),
        Ok(Err(heliostat_base::sys::Errno(9)))
    );
    assert_eq!(read(&lane, 200), vec![0; 100]);
}

#[test]
fn unread_bytes_can_be_taken_back() {
    let (lane, mut cache) = (lane(), WriteCache::default());
    write(&lane, &mut cache, b"first");
    read(&lane, 2);
    assert_eq!(lane.take_back().unwrap(), b"rst");
}

#[test]
fn a_sleeping_reader_is_taken_once() {
    let lane = lane();
    assert!(!lane.take_sleeping_reader());
    lane.reader_sleeps();
    assert!(lane.take_sleeping_reader());
    assert!(!lane.take_sleeping_reader());
}
