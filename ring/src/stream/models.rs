//! Loom: the lane's orders L1 to L3, D1 and D2, explored over all interleavings.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p heliostat-ring --lib --release models`. It is
//! the production code over [`Cells`]: words are loom's atomics, ring bytes are loom's cells, so
//! that a byte that no release and acquire orders is reported as the data race it is, and a lost
//! wake-up as a deadlock. [`Bell`] stands for the shadow: a byte that ends a sleep.

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc as StdArc;

use heliostat_abi::stream::channel::direction::{self as at, FIN, SWITCHED, TAKEN_BACK};
use heliostat_base::guarded::Fault;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::{Lane, Place, Wish, WriteCache};
use crate::sync::{AtomicU32, AtomicU64, Ordering, UnsafeCell};

const WORDS: [usize; 6] =
    [at::FLAGS, at::READER_ASLEEP, at::WANT_NATIVE, at::WRITER_ASLEEP, at::BELLS, at::TURNS];
const UNUSED: [usize; 1] = [at::DRAINED];
const POSITIONS: [usize; 7] =
    [at::TAIL, at::ORIGIN, at::HEAD, at::PREFIX, at::TAKEN, at::HELD, at::HELD_UNTIL];
/// A third of it is one byte, so that a full ring of four is the only one without room.
const CAPACITY: usize = 4;

/// Ordinary memory behind the lane protocol.
#[derive(Clone)]
struct Cells(StdArc<Inner>);

struct Inner {
    words: [AtomicU32; WORDS.len()],
    unused: AtomicU32,
    positions: [AtomicU64; POSITIONS.len()],
    bytes: [UnsafeCell<u8>; CAPACITY],
}

// SAFETY: loom runs one thread at a time and checks every cell access for an ordering.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

// SAFETY: ordinary arrays, indexed with bounds checks; the capacity is a constant power of two.
unsafe impl Place for Cells {
    fn capacity(&self) -> u64 {
        CAPACITY as u64
    }
    fn u32(&self, offset: usize) -> &AtomicU32 {
        match WORDS.iter().position(|word| *word == offset) {
            Some(place) => &self.0.words[place],
            None if UNUSED.contains(&offset) => &self.0.unused,
            None => panic!("no word at {offset}"),
        }
    }
    fn u64(&self, offset: usize) -> &AtomicU64 {
        let place = POSITIONS.iter().position(|word| *word == offset).expect("a position");
        &self.0.positions[place]
    }
    fn copy_out(&self, at: usize, to: &mut [u8]) -> Result<(), Fault> {
        for (place, byte) in to.iter_mut().enumerate() {
            // SAFETY: loom checks that nobody writes the cell meanwhile.
            *byte = self.0.bytes[at + place].with_mut(|cell| unsafe { *cell });
        }
        Ok(())
    }
    fn copy_in(&self, at: usize, from: &[u8]) -> Result<(), Fault> {
        for (place, byte) in from.iter().enumerate() {
            // SAFETY: loom checks that nobody reads the cell meanwhile.
            self.0.bytes[at + place].with_mut(|cell| unsafe { *cell = *byte });
        }
        Ok(())
    }
}

fn lane() -> Lane<Cells> {
    let place = Cells(StdArc::new(Inner {
        words: Default::default(),
        unused: Default::default(),
        positions: Default::default(),
        bytes: std::array::from_fn(|_| UnsafeCell::new(0)),
    }));
    let lane = Lane { place };
    lane.reset(0);
    lane
}

/// The shadow as a sleeper sees it: readable while a bell byte lies in it.
#[derive(Clone, Default)]
struct Bell(Arc<(Mutex<u32>, Condvar)>);

impl Bell {
    fn ring(&self) {
        *self.0 .0.lock().unwrap() += 1;
        self.0 .1.notify_all();
    }
    fn sleep(&self) {
        let mut rung = self.0 .0.lock().unwrap();
        while *rung == 0 {
            rung = self.0 .1.wait(rung).unwrap();
        }
        *rung = 0;
    }
}

fn write(lane: &Lane<Cells>, cache: &mut WriteCache, bytes: &[u8]) -> usize {
    lane.write(&[IoSlice::new(bytes)], cache).unwrap()
}

/// Reads up to `limit` bytes and rings if that made room for a sleeper, as the stub does.
fn read(lane: &Lane<Cells>, limit: usize, writers_bell: &Bell) -> Vec<u8> {
    let mut bytes = vec![0; limit];
    let done = lane.read(&mut [IoSliceMut::new(&mut bytes)], false).unwrap();
    if done.made_room && lane.take_sleeping_writer() {
        writers_bell.ring();
    }
    bytes.truncate(done.bytes);
    bytes
}

mod held;
mod turns;
mod unpublished;

fn model(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(f);
}

#[test]
fn loom_bytes_come_in_order_while_the_origin_rewinds_and_room_is_used_again() {
    model(3, || {
        let (lane, bell) = (lane(), Bell::default());
        let writer = lane.clone();
        let sender = thread::spawn(move || {
            let mut cache = WriteCache::new();
            for piece in [&[1, 2, 3][..], &[4, 5]] {
                let mut sent = 0;
                while sent < piece.len() {
                    sent += write(&writer, &mut cache, &piece[sent..]);
                    thread::yield_now();
                }
            }
        });
        let mut got = Vec::new();
        while got.len() < 5 {
            got.extend(read(&lane, 3, &bell));
            thread::yield_now();
        }
        assert_eq!(got, [1, 2, 3, 4, 5]);
        sender.join().unwrap();
    });
}

#[test]
fn loom_a_reader_that_says_it_sleeps_is_rung_for() {
    loom::model(|| {
        let (lane, bell) = (lane(), Bell::default());
        let (writer, ringer) = (lane.clone(), bell.clone());
        let sender = thread::spawn(move || {
            assert_eq!(write(&writer, &mut WriteCache::new(), &[7]), 1);
            if writer.take_sleeping_reader() {
                ringer.ring();
            }
        });
        lane.reader_sleeps();
        if lane.unread().unwrap() == 0 {
            bell.sleep();
        }
        assert_eq!(read(&lane, 1, &bell), [7]);
        sender.join().unwrap();
    });
}

#[test]
fn loom_a_writer_that_filled_the_ring_during_a_read_is_rung_for() {
    model(4, || {
        let (lane, bell) = (lane(), Bell::default());
        let mut cache = WriteCache::new();
        assert_eq!(write(&lane, &mut cache, &[1, 2]), 2);
        let (reader, ringer) = (lane.clone(), bell.clone());
        // One read only: the tail it begins with may be older than the bytes that fill the ring.
        let receiver = thread::spawn(move || read(&reader, 2, &ringer));
        let mut sent = write(&lane, &mut cache, &[3, 4]);
        sent += write(&lane, &mut cache, &[5]);
        if !lane.is_roomy(lane.room().unwrap()) {
            lane.writer_sleeps();
            if !lane.is_roomy(lane.room().unwrap()) {
                bell.sleep();
            }
        }
        assert!(lane.room().unwrap() >= 1 && sent >= 2);
        assert_eq!(receiver.join().unwrap(), [1, 2]);
    });
}

#[test]
fn loom_who_sees_the_end_sees_the_last_byte_and_a_sleeper_hears_of_it() {
    loom::model(|| {
        let (lane, bell) = (lane(), Bell::default());
        let (writer, ringer) = (lane.clone(), bell.clone());
        let sender = thread::spawn(move || {
            write(&writer, &mut WriteCache::new(), &[9]);
            writer.raise(FIN);
            if writer.take_sleeping_reader() {
                ringer.ring();
            }
        });
        lane.reader_sleeps();
        if lane.flags() & FIN == 0 {
            bell.sleep();
        }
        if lane.flags() & FIN != 0 {
            assert_eq!(lane.unread(), Ok(1));
        }
        sender.join().unwrap();
        assert_eq!(lane.flags(), FIN);
    });
}

#[test]
fn loom_a_wish_for_the_kernels_path_reaches_a_writer_that_sleeps_for_room() {
    loom::model(|| {
        let (lane, bell) = (lane(), Bell::default());
        write(&lane, &mut WriteCache::new(), &[1, 2, 3, 4]);
        let (reader, ringer) = (lane.clone(), bell.clone());
        let receiver = thread::spawn(move || {
            reader.want_native();
            if reader.take_sleeping_writer() {
                ringer.ring();
            }
        });
        lane.writer_sleeps();
        if !lane.is_native_wanted() {
            bell.sleep();
        }
        assert!(lane.is_native_wanted());
        receiver.join().unwrap();
    });
}

#[test]
fn loom_bytes_are_either_taken_back_or_read_never_both() {
    loom::model(|| {
        let (lane, bell) = (lane(), Bell::default());
        write(&lane, &mut WriteCache::new(), &[1, 2]);
        lane.want_native();
        let writer = lane.clone();
        let sender = thread::spawn(move || {
            let is_accepted = writer.accept_want().is_some();
            let bytes = if is_accepted { writer.take_back().unwrap() } else { Vec::new() };
            writer.raise(if is_accepted { SWITCHED | TAKEN_BACK } else { SWITCHED });
            bytes
        });
        let read = if lane.retract_want() { read(&lane, 4, &bell) } else { Vec::new() };
        let taken = sender.join().unwrap();
        assert_eq!([read, taken].concat(), [1, 2]);
    });
}

#[test]
fn loom_a_reader_that_leaves_silently_knows_that_nothing_is_under_way() {
    loom::model(|| {
        let lane = lane();
        let shadow = Arc::new(Mutex::new(Vec::new()));
        lane.reader_sleeps();
        let (writer, its_shadow) = (lane.clone(), shadow.clone());
        let sender = thread::spawn(move || {
            write(&writer, &mut WriteCache::new(), &[7]);
            if writer.take_sleeping_reader() {
                writer.count_bell();
                match writer.is_silence_wanted() {
                    true => writer.uncount_bell(),
                    false => its_shadow.lock().unwrap().push(0),
                }
            }
            match writer.is_native_wanted().then(|| writer.accept_want()).flatten() {
                Some(Wish::Rung) => its_shadow.lock().unwrap().push(0),
                Some(Wish::Silent) => {
                    its_shadow.lock().unwrap().extend(writer.take_back().unwrap())
                }
                None => {}
            }
        });
        lane.want_native();
        let is_heard = lane.want_silence();
        let is_through = is_heard && lane.bells_pending() == 0 && lane.unread() == Ok(0);
        sender.join().unwrap();
        if is_through {
            assert_eq!(*shadow.lock().unwrap(), [7]);
        }
    });
}

/// Bytes that go natively, then the step that makes them final (1), then the ring and a bell for who sleeps.
fn begin_after_one(lane: &Lane<Cells>, shadow: &Mutex<Vec<u8>>, state: &AtomicU32) {
    shadow.lock().unwrap().push(1);
    lane.extend_prefix(1);
    state.swap(1, Ordering::AcqRel); // S1
    write(lane, &mut WriteCache::new(), &[2]);
    if lane.take_sleeping_reader() {
        lane.count_bell();
        shadow.lock().unwrap().push(0);
    }
}

/// Takes what the reader may take off the shadow, as the stub does.
fn take(lane: &Lane<Cells>, shadow: &Mutex<Vec<u8>>, state: &AtomicU32) -> Vec<u8> {
    let is_final = || state.load(Ordering::Acquire) == 1; // S1
                                                          // What lay there before the number was seen not to be final is payload.
    let queued = shadow.lock().unwrap().len();
    let limit = match is_final() {
        false => queued,
        true => lane.prefix_left().expect("an honest writer") as usize,
    };
    let mut queued = shadow.lock().unwrap();
    let count = queued.len().min(limit);
    let piece: Vec<u8> = queued.drain(..count).collect();
    lane.note_taken(count as u64);
    piece
}

#[test]
fn loom_bells_behind_the_prefix_are_told_from_payload() {
    model(3, || {
        let (lane, bell) = (lane(), Bell::default());
        let shadow = Arc::new(Mutex::new(Vec::new()));
        let state = Arc::new(AtomicU32::new(0));
        let (writer, its_shadow, its_state) = (lane.clone(), shadow.clone(), state.clone());
        let sender = thread::spawn(move || begin_after_one(&writer, &its_shadow, &its_state));
        lane.reader_sleeps();
        let mut got = Vec::new();
        while got.len() < 2 {
            got.extend(take(&lane, &shadow, &state));
            if state.load(Ordering::Acquire) == 1 && lane.prefix_left() == Some(0) {
                got.extend(read(&lane, 2, &bell));
            }
            thread::yield_now();
        }
        assert_eq!(got, [1, 2]);
        sender.join().unwrap();
        let left = shadow.lock().unwrap().len() as u32;
        assert_eq!(lane.bells_pending(), left);
    });
}
