//! How handles, areas, sessions and devices end while operations are under way.

mod support;

use std::time::Duration;

use heliostat_abi::file::delegated::{OpKind, Operation};
use heliostat_backend_block::{Extra, Fault, FaultDevice, Faults, LatencyDevice, MemoryDevice};
use heliostat_server_store::{StoreEvent, StoreOrder};
use support::{errno, id, operation, piece, Loop, BOTH};

/// A device on which everything takes so long.
fn slow(more: Duration) -> LatencyDevice<MemoryDevice> {
    let extra = Extra { read: more, write: more, durable_write: more, flush: more };
    LatencyDevice::new(MemoryDevice::new(8 << 20), extra)
}

fn quiet(area: u32) -> StoreEvent {
    StoreEvent::Quiet { number: 4, area: id(area) }
}

/// Sweeps until something happens, and says what.
fn await_event(on: &mut Loop) -> StoreEvent {
    for _ in 0..10_000_000 {
        if let Some(event) = on.event() {
            return event;
        }
        on.sweep(1);
    }
    panic!("nothing happened");
}

#[test]
fn a_handle_is_let_go_when_the_device_has_nothing_of_it_and_what_waits_never_begins() {
    let mut on = Loop::new(slow(Duration::from_millis(20)), 1);
    on.area(1, &[piece(0, 4 << 20)]);
    let handle = on.open(0, 9, 1, BOTH);
    on.fill(0, 0, 4096, 7);
    // More than the device takes at once.
    let count = 100;
    for at in 0..count {
        on.submit(0, &operation(OpKind::Write, handle, at * 4096, &[(0, 4096)]));
    }
    on.sweep(50);
    on.close(0, handle);
    assert_eq!(on.event(), None, "the device has some");
    assert_eq!(await_event(&mut on), StoreEvent::LetGo { handle });
    let results: Vec<i64> = (0..count).map(|_| on.next(0).result).collect();
    let done = results.iter().filter(|result| **result == 4096).count();
    let cut = results.iter().filter(|result| **result == errno(libc::ECANCELED)).count();
    let late = results.iter().filter(|result| **result == errno(libc::EBADF)).count();
    assert!(done > 0 && cut > 0 && done + cut + late == count as usize, "{done} {cut} {late}");
    let again = operation(OpKind::Write, handle, 0, &[(0, 512)]);
    assert_eq!(on.run(0, &again), errno(libc::EBADF));
    on.close(0, handle);
    assert_eq!(on.event(), Some(StoreEvent::LetGo { handle }), "also one that nobody has");
}

#[test]
fn an_area_is_quiet_behind_its_new_end_when_the_device_is_and_nothing_begins_there() {
    let mut on = Loop::new(slow(Duration::from_millis(20)), 1);
    on.area(1, &[piece(0, 65_536), piece(1 << 20, 65_536)]);
    let handle = on.open(0, 9, 1, BOTH);
    on.submit(0, &operation(OpKind::Write, handle, 0, &[(0, 65_536)]));
    on.sweep(20);
    let half = StoreOrder::Bytes { area: id(1), bytes: 65_536, is_asked: true };
    on.order(half);
    assert_eq!(on.event(), Some(quiet(1)), "what is under way lies before the end");
    on.area(1, &[piece(0, 65_536), piece(1 << 20, 65_536)]);
    on.submit(0, &operation(OpKind::Write, handle, 65_536, &[(0, 4096)]));
    on.sweep(20);
    on.order(StoreOrder::Bytes { area: id(1), bytes: 65_536, is_asked: true });
    assert_eq!(on.event(), None);
    on.submit(0, &operation(OpKind::Write, handle, 65_536, &[(0, 4096)]));
    assert_eq!(await_event(&mut on), quiet(1));
    let mut results: Vec<i64> = (0..3).map(|_| on.next(0).result).collect();
    results.sort_unstable();
    assert_eq!(results, [errno(libc::ERANGE), 4096, 65_536]);
    on.order(StoreOrder::Bytes { area: id(77), bytes: 0, is_asked: true });
    assert_eq!(on.event(), Some(quiet(77)), "of an area that the loop does not know");
}

#[test]
fn a_session_that_ends_leaves_what_the_device_has_and_its_handles_are_let_go_then() {
    let mut on = Loop::new(slow(Duration::from_millis(20)), 2);
    on.area(1, &[piece(0, 4 << 20)]);
    let (mine, other) = (on.open(0, 9, 1, BOTH), on.open(1, 10, 1, BOTH));
    for at in 0..100 {
        on.submit(0, &operation(OpKind::Write, mine, at * 4096, &[(0, 4096)]));
    }
    on.sweep(50);
    on.end_session(0);
    on.close(0, mine);
    assert_eq!(on.event(), None);
    assert_eq!(await_event(&mut on), StoreEvent::LetGo { handle: mine });
    assert_eq!(on.run(1, &operation(OpKind::Read, other, 0, &[(0, 4096)])), 4096);
    on.close(1, other);
    on.end_session(1);
    assert_eq!(on.event(), Some(StoreEvent::LetGo { handle: other }));
}

#[test]
fn an_operation_that_is_cancelled_before_it_began_ends_at_once_and_one_at_the_device_with_it() {
    let mut on = Loop::new(slow(Duration::from_millis(30)), 1);
    on.area(1, &[piece(0, 4 << 20)]);
    let handle = on.open(0, 9, 1, BOTH);
    for tag in 0..80 {
        let asked = operation(OpKind::Write, handle, tag * 4096, &[(0, 4096)]);
        on.submit(0, &Operation { tag, ..asked });
    }
    on.sweep(50);
    for tag in [0, 79] {
        let cancel = operation(OpKind::Cancel, handle, 0, &[]);
        on.submit(0, &Operation { tag: 1000 + tag, argument: tag, ..cancel });
    }
    let mut ended = Vec::new();
    while ended.len() < 82 {
        let done = on.next(0);
        ended.push((done.tag, done.result));
    }
    assert!(ended.contains(&(0, 4096)), "what the device has is done");
    assert!(ended.contains(&(79, errno(libc::ECANCELED))));
    assert!(ended.contains(&(1000, 0)) && ended.contains(&(1079, 0)));
    on.close(0, handle);
    assert_eq!(on.event(), Some(StoreEvent::LetGo { handle }));
}

#[test]
fn a_time_that_is_over_ends_what_waits() {
    let more = Duration::from_millis(30);
    let extra = Extra { read: more, write: more, durable_write: more, flush: more };
    let narrow = MemoryDevice::new(1 << 20).with_depth(1);
    let mut on = Loop::new(LatencyDevice::new(narrow, extra), 1);
    on.area(1, &[piece(0, 65_536)]);
    let handle = on.open(0, 9, 1, BOTH);
    on.submit(0, &operation(OpKind::Write, handle, 0, &[(0, 4096)]));
    let asked = operation(OpKind::Write, handle, 4096, &[(0, 4096)]);
    on.submit(0, &Operation { tag: 8, timeout_us: 1000, ..asked });
    let first = on.next(0);
    assert_eq!((first.tag, first.result), (8, errno(libc::ETIMEDOUT)));
    assert_eq!(on.next(0).result, 4096);
}

#[test]
fn errors_of_the_device_are_told_and_a_read_that_fails_shows_no_byte() {
    let faults = Faults::new(3);
    let mut on = Loop::new(FaultDevice::new(MemoryDevice::new(1 << 20), faults.clone()), 1);
    on.area(1, &[piece(0, 65_536)]);
    let handle = on.open(0, 9, 1, BOTH);
    on.fill(0, 0, 512, 1);
    faults.script_next(Fault::Error { errno: libc::ENOSPC });
    let write = operation(OpKind::Write, handle, 0, &[(0, 512)]);
    assert_eq!(on.run(0, &write), errno(libc::ENOSPC));
    faults.script_next(Fault::Short { sectors: 1 });
    let long = operation(OpKind::Write, handle, 0, &[(0, 1024)]);
    assert_eq!(on.run(0, &long), errno(libc::EIO));
    faults.script_next(Fault::QueueFull);
    assert_eq!(on.run(0, &write), 512, "it is tried again");
    on.fill(0, 4097, 512, 9);
    faults.script_next(Fault::Error { errno: libc::EIO });
    let read = operation(OpKind::Read, handle, 0, &[(4097, 512)]);
    assert_eq!(on.run(0, &read), errno(libc::EIO));
    assert_eq!(on.window(0, 4097, 512), vec![9; 512]);
    assert_eq!(on.run(0, &read), 512);
    assert_eq!(on.window(0, 4097, 512), vec![1; 512]);
}

/// A device that fails as a whole when it is looked at next.
mod broken {
    use heliostat_backend_block::{
        BeginError, BlockError, Completion, Device, Geometry, MemoryDevice, Request,
    };
    use std::time::Duration;

    pub struct Broken(pub MemoryDevice);

    impl Device for Broken {
        fn geometry(&self) -> Geometry {
            self.0.geometry()
        }

        fn depth(&self) -> usize {
            self.0.depth()
        }

        fn begin(&mut self, token: u64, request: Request) -> Result<(), BeginError> {
            self.0.begin(token, request)
        }

        fn reap(&mut self, _: Option<Duration>, _: &mut Vec<Completion>) -> Result<(), BlockError> {
            Err(BlockError::Device { errno: libc::EROFS })
        }
    }
}

#[test]
fn a_device_that_fails_as_a_whole_is_told_once_and_another_one_serves() {
    let mut on = Loop::new(broken::Broken(MemoryDevice::new(1 << 20)), 1);
    on.area(1, &[piece(0, 65_536)]);
    let handle = on.open(0, 9, 1, BOTH);
    let write = operation(OpKind::Write, handle, 0, &[(0, 512)]);
    on.submit(0, &write);
    on.submit(0, &write);
    assert_eq!((on.next(0).result, on.next(0).result), (errno(libc::EIO), errno(libc::EIO)));
    assert_eq!(on.run(0, &write), errno(libc::EIO));
    assert_eq!(on.event(), Some(StoreEvent::DeviceFailed { number: 4, errno: libc::EROFS }));
    assert_eq!(on.event(), None);
    on.order(StoreOrder::Device(Box::new(MemoryDevice::new(1 << 20))));
    assert_eq!(on.run(0, &write), 512);
}

#[test]
fn what_the_last_device_had_fails_when_there_is_another_one() {
    let mut on = Loop::new(slow(Duration::from_secs(60)), 1);
    on.area(1, &[piece(0, 65_536)]);
    let handle = on.open(0, 9, 1, BOTH);
    let write = operation(OpKind::Write, handle, 0, &[(0, 512)]);
    on.submit(0, &write);
    on.sweep(20);
    on.order(StoreOrder::Device(Box::new(MemoryDevice::new(1 << 20))));
    assert_eq!(on.next(0).result, errno(libc::EIO));
    assert_eq!(on.run(0, &write), 512);
    on.close(0, handle);
    assert_eq!(on.event(), Some(StoreEvent::LetGo { handle }));
}
