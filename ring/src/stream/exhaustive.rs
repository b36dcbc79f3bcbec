//! The lane's index arithmetic, enumerated: every small ring, every place in it, every sequence.
//!
//! For each capacity up to eight bytes, each offset at which an empty ring may stand, and each
//! start position around the places where 64-bit positions wrap, every sequence of three writes
//! and reads of every length is compared with a plain queue.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use heliostat_abi::stream::channel::direction as at;
use heliostat_base::mapping::SharedMapping;

use super::{Lane, Place, WriteCache};
use crate::sync::Ordering::Relaxed;

/// Positions just below, at and above the wrap, and one in the middle of nowhere.
const STARTS: [u64; 5] = [0, 1, u64::MAX, u64::MAX - 5, 1 << 63];

fn lane(capacity: u32) -> Lane {
    let (_fd, memory) = SharedMapping::create(c"small", 8192).unwrap();
    Lane::new(&Arc::new(memory), 0, 4096, capacity).unwrap()
}

/// An empty lane whose next byte goes to `offset` and has position `start`.
fn stand(lane: &Lane, start: u64, offset: u64) -> WriteCache {
    lane.reset(0);
    lane.place.u64(at::HEAD).store(start, Relaxed);
    lane.place.u64(at::TAIL).store(start, Relaxed);
    lane.place.u64(at::HELD).store(start, Relaxed);
    lane.place.u64(at::ORIGIN).store(start.wrapping_sub(offset), Relaxed);
    WriteCache { head: start, rewind_at: 0, unpublished: 0 }
}

/// One step, in two buffers so that a wrap may fall into either; compares with the queue.
fn step(lane: &Lane, cache: &mut WriteCache, model: &mut VecDeque<u8>, next: &mut u8, code: u64) {
    let capacity = lane.capacity();
    let (length, split) = (code / 2 % (capacity + 2), code / 2 / (capacity + 2) % 2);
    let cut = (length / 2 * split) as usize;
    if code % 2 == 0 {
        let bytes: Vec<u8> = (0..length).map(|place| next.wrapping_add(place as u8)).collect();
        let parts = [IoSlice::new(&bytes[..cut]), IoSlice::new(&bytes[cut..])];
        let done = lane.write(&parts, cache).unwrap();
        assert_eq!(done as u64, length.min(capacity - model.len() as u64));
        model.extend(&bytes[..done]);
        *next = next.wrapping_add(done as u8);
    } else {
        let mut bytes = vec![0; length as usize];
        let (one, two) = bytes.split_at_mut(cut);
        let done = lane.read(&mut [IoSliceMut::new(one), IoSliceMut::new(two)], false).unwrap();
        assert_eq!(done.bytes, model.len().min(length as usize));
        let expected: Vec<u8> = model.drain(..done.bytes).collect();
        assert_eq!(bytes[..done.bytes], expected);
    }
    assert_eq!(lane.unread(), Ok(model.len() as u64));
    assert_eq!(lane.room(), Ok(capacity - model.len() as u64));
    assert_eq!(lane.take_back().unwrap(), Vec::from(model.clone()));
}

#[test]
fn every_short_sequence_in_every_small_ring_behaves_like_a_queue() {
    for capacity in [1, 2, 4, 8] {
        let lane = lane(capacity);
        let codes = u64::from(capacity + 2) * 4;
        for start in STARTS {
            for offset in 0..u64::from(capacity) {
                for sequence in 0..codes.pow(3) {
                    let mut cache = stand(&lane, start, offset);
                    let (mut model, mut next) = (VecDeque::new(), 1);
                    for code in
                        [sequence % codes, sequence / codes % codes, sequence / codes / codes]
                    {
                        step(&lane, &mut cache, &mut model, &mut next, code);
                    }
                }
            }
        }
    }
}

#[test]
fn every_pair_of_positions_is_a_count_within_the_ring_or_refused() {
    let lane = lane(8);
    for start in STARTS {
        for distance in (0..64).chain((0..64).map(|below| u64::MAX - below)) {
            stand(&lane, start, 3);
            lane.place.u64(at::TAIL).store(start.wrapping_add(distance), Relaxed);
            let expected = (distance <= 8).then_some(distance);
            assert_eq!(lane.unread().ok(), expected);
            assert_eq!(lane.room().ok(), expected.map(|used| 8 - used));
            assert_eq!(lane.take_back().is_ok(), expected.is_some());
        }
    }
}
