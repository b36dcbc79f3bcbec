//! How sessions share a device, and areas their rates.

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_abi::file::delegated::OpKind;
use heliostat_backend_block::{
    BeginError, BlockError, Completion, Device, Geometry, MemoryDevice, Request,
};
use heliostat_server_store::StoreOrder;
use heliostat_service_grant::Meter;
use support::{errno, id, operation, piece, Loop, BOTH};

const PART: u64 = 65_536;

/// Submits until the ring is full, and answers how many that were.
fn flood(on: &mut Loop, of: usize, count: u64, handle: heliostat_abi::name::ObjectId) {
    for at in 0..count {
        let offset = at % 16 * PART;
        on.submit(of, &operation(OpKind::Write, handle, offset, &[(0, PART as u32)]));
    }
}

#[test]
fn one_that_asks_for_little_waits_for_few_parts_of_one_that_asks_for_much() {
    let mut on = Loop::new(MemoryDevice::new(4 << 20).with_depth(4), 2);
    on.area(1, &[piece(0, 1 << 20)]);
    on.area(2, &[piece(1 << 20, 1 << 20)]);
    let (much, little) = (on.open(0, 1, 1, BOTH), on.open(1, 2, 2, BOTH));
    flood(&mut on, 0, 200, much);
    on.sweep(4);
    for _ in 0..10 {
        on.submit(1, &operation(OpKind::Read, little, 0, &[(0, 4096)]));
        let mut passed = 0;
        while on.poll(1).is_none() {
            on.sweep(1);
            passed += std::iter::from_fn(|| on.poll(0)).count();
        }
        assert!(passed <= 16, "{passed} operations of the other one came first");
    }
}

#[test]
fn two_that_ask_for_much_get_equal_bytes() {
    let mut on = Loop::new(MemoryDevice::new(4 << 20).with_depth(2), 2);
    on.area(1, &[piece(0, 1 << 20)]);
    on.area(2, &[piece(1 << 20, 1 << 20)]);
    let (large, small) = (on.open(0, 1, 1, BOTH), on.open(1, 2, 2, BOTH));
    flood(&mut on, 0, 100, large);
    for at in 0..200 {
        on.submit(1, &operation(OpKind::Write, small, at % 16 * 16_384, &[(0, 16_384)]));
    }
    let mut bytes = [0i64; 2];
    while bytes.iter().sum::<i64>() < 4 << 20 {
        on.sweep(1);
        for (of, sum) in bytes.iter_mut().enumerate() {
            while let Some(done) = on.poll(of) {
                *sum += done.result;
            }
        }
    }
    assert!((bytes[0] - bytes[1]).abs() <= 1 << 19, "{bytes:?}");
}

#[test]
fn an_area_is_used_as_fast_as_its_rate_says_by_all_together_and_others_are_not_held() {
    let mut on = Loop::new(MemoryDevice::new(8 << 20), 3);
    let rate = 16 << 20;
    on.area_with(1, &[piece(0, 1 << 20)], Meter::new(0, rate));
    on.area(2, &[piece(1 << 20, 1 << 20)]);
    let (first, second) = (on.open(0, 1, 1, BOTH), on.open(1, 2, 1, BOTH));
    let (free, beside) = (on.open(2, 3, 2, BOTH), on.open(0, 4, 2, BOTH));
    let begun = Instant::now();
    flood(&mut on, 0, 64, first);
    flood(&mut on, 1, 64, second);
    let mut done = [0u64; 2];
    let mut others = 0;
    while done.iter().sum::<u64>() < 128 {
        assert_eq!(on.run(2, &operation(OpKind::Read, free, 0, &[(0, 4096)])), 4096);
        others += 1;
        for (of, count) in done.iter_mut().enumerate() {
            *count += std::iter::from_fn(|| on.poll(of)).count() as u64;
        }
    }
    // 8 MiB at 16 MiB a second, less what is passed at once.
    let least = Duration::from_millis(300);
    assert!(begun.elapsed() >= least, "{:?}", begun.elapsed());
    assert!(others > 1000, "{others}");
    assert_eq!(done, [64, 64]);
    assert_eq!(on.run(0, &operation(OpKind::Read, beside, 0, &[(0, 4096)])), 4096);
}

#[test]
fn a_session_whose_one_area_is_held_uses_another_one_meanwhile_and_a_new_rate_counts_at_once() {
    let mut on = Loop::new(MemoryDevice::new(8 << 20), 1);
    // The first operation is on trust, for an hour.
    on.area_with(1, &[piece(0, 1 << 20)], Meter::new(0, 16));
    on.area(2, &[piece(1 << 20, 1 << 20)]);
    let (held, free) = (on.open(0, 1, 1, BOTH), on.open(0, 2, 2, BOTH));
    let write = operation(OpKind::Write, held, 0, &[(0, PART as u32)]);
    assert_eq!(on.run(0, &write), PART as i64);
    on.submit(0, &write);
    let read = operation(OpKind::Read, free, 0, &[(0, 4096)]);
    for _ in 0..10 {
        assert_eq!(on.run(0, &read), 4096);
    }
    on.order(StoreOrder::Rate { area: id(1), meter: Meter::default() });
    assert_eq!(on.next(0).result, PART as i64);
}

/// A device that counts flushes: the most under way at once, and all. Nothing ends while it is held.
struct Counting {
    inner: MemoryDevice,
    flushes: Vec<u64>,
    counts: Arc<[AtomicUsize; 2]>,
    is_held: Arc<AtomicBool>,
}

impl Counting {
    fn new() -> Counting {
        let (counts, is_held) = (Arc::default(), Arc::default());
        Counting { inner: MemoryDevice::new(8 << 20), flushes: Vec::new(), counts, is_held }
    }
}

impl Device for Counting {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn depth(&self) -> usize {
        self.inner.depth()
    }

    fn begin(&mut self, token: u64, request: Request) -> Result<(), BeginError> {
        let is_flush = matches!(request, Request::Flush);
        self.inner.begin(token, request)?;
        if is_flush {
            self.flushes.push(token);
            self.counts[0].fetch_max(self.flushes.len(), SeqCst);
            self.counts[1].fetch_add(1, SeqCst);
        }
        Ok(())
    }

    fn reap(
        &mut self,
        wait: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> Result<(), BlockError> {
        if self.is_held.load(SeqCst) {
            return Ok(());
        }
        let before = completions.len();
        let reaped = self.inner.reap(wait, completions);
        let ended = &completions[before..];
        self.flushes.retain(|token| ended.iter().all(|it| it.token != *token));
        reaped
    }
}

#[test]
fn flushes_of_all_sessions_share_one_at_the_device_and_each_covers_what_came_before() {
    let device = Counting::new();
    let (counts, is_held) = (device.counts.clone(), device.is_held.clone());
    let mut on = Loop::new(device, 2);
    on.area(1, &[piece(0, 1 << 20)]);
    let (many, one) = (on.open(0, 1, 1, BOTH), on.open(1, 2, 1, BOTH));
    let (flush, mine) =
        (operation(OpKind::Fsync, many, 0, &[]), operation(OpKind::Fsync, one, 0, &[]));
    is_held.store(true, SeqCst);
    (0..100).for_each(|_| on.submit(0, &flush));
    on.sweep(200);
    on.submit(1, &mine);
    on.sweep(200);
    assert_eq!((counts[1].load(SeqCst), on.poll(1)), (1, None));
    is_held.store(false, SeqCst);
    assert_eq!(on.next(1).result, 0);
    // One that had begun before is not its own.
    assert_eq!(counts[1].load(SeqCst), 2);
    assert!((0..100).all(|_| on.next(0).result == 0));
    assert_eq!(counts[0].load(SeqCst), 1, "one at a time");
    assert!(counts[1].load(SeqCst) <= 4, "{counts:?}");
    // Those that wait end with their handle, and the others go on.
    is_held.store(true, SeqCst);
    (0..50).for_each(|_| on.submit(0, &flush));
    on.submit(1, &mine);
    on.sweep(200);
    on.close(0, many);
    is_held.store(false, SeqCst);
    assert_eq!(on.next(1).result, 0);
    let results: Vec<i64> = (0..50).map(|_| on.next(0).result).collect();
    let cut = results.iter().filter(|result| **result == errno(libc::ECANCELED)).count();
    assert!(cut >= 49 && results.iter().all(|it| *it == 0 || *it == errno(libc::ECANCELED)));
}

#[test]
fn a_flush_costs_its_areas_rate() {
    let mut on = Loop::new(MemoryDevice::new(8 << 20), 1);
    on.area_with(1, &[piece(0, 1 << 20)], Meter::new(0, 1 << 20));
    let handle = on.open(0, 1, 1, BOTH);
    let begun = Instant::now();
    for _ in 0..100 {
        assert_eq!(on.run(0, &operation(OpKind::Fsync, handle, 0, &[])), 0);
    }
    // 100 of 4 KiB at 1 MiB a second, less what is passed at once.
    assert!(begun.elapsed() >= Duration::from_millis(200), "{:?}", begun.elapsed());
}
