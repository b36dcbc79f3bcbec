//! Many threads: one drives, the others wait, and whoever waits may be the one who drives.

use std::collections::HashSet;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use heliostat_backend_block::{
    BeginError, BlockError, Completion, Device, Extra, Geometry, LatencyDevice, RecordingDevice,
    Request,
};

use super::{area, id_of, memory, new_log, payload};
use crate::{DriverThread, Log, LogError, Options};

/// A device that several openings use, one after the other.
#[derive(Clone)]
pub(super) struct Lent(Arc<Mutex<Option<Box<dyn Device>>>>);

impl Lent {
    pub(super) fn new(device: Box<dyn Device>) -> Lent {
        Lent(Arc::new(Mutex::new(Some(device))))
    }

    pub(super) fn take(&self) -> Box<dyn Device> {
        self.0.lock().unwrap().take().expect("it was not taken yet")
    }

    fn with<R>(&self, what: impl FnOnce(&mut dyn Device) -> R) -> R {
        what(self.0.lock().unwrap().as_mut().expect("it was not taken yet").as_mut())
    }
}

impl Device for Lent {
    fn geometry(&self) -> Geometry {
        self.with(|device| device.geometry())
    }

    fn depth(&self) -> usize {
        self.with(|device| device.depth())
    }

    fn begin(&mut self, token: u64, request: Request) -> Result<(), BeginError> {
        self.with(|device| device.begin(token, request))
    }

    fn reap(
        &mut self,
        wait: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> Result<(), BlockError> {
        self.with(|device| device.reap(wait, completions))
    }
}

fn slow_log(extra: Duration) -> Log {
    let area = area(1 << 20);
    let device = LatencyDevice::new(memory(area, 512), Extra::durability(extra));
    Log::create(Box::new(device), area, Options::default()).unwrap()
}

/// Each of the threads appends so many and waits for each; all are there, each thread's in order.
fn append_and_check(log: &Log, threads: u64, each: u64) {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for number in 0..each {
                    log.append_sync(&payload(thread << 32 | number, (number % 90) as usize))
                        .unwrap();
                }
            });
        }
    });
    let mut next = vec![0; threads as usize];
    for entry in log.read() {
        let id = id_of(&entry.unwrap().payload);
        let thread = (id >> 32) as usize;
        assert_eq!(id & 0xffff_ffff, next[thread]);
        next[thread] += 1;
    }
    assert_eq!(next, vec![each; threads as usize]);
}

#[test]
fn producers_without_a_driver_thread_drive_for_each_other() {
    append_and_check(&new_log(1 << 20), 8, 500);
    append_and_check(&slow_log(Duration::from_micros(300)), 8, 100);
}

#[test]
fn producers_with_a_driver_thread_are_served_too() {
    let log = slow_log(Duration::from_micros(300));
    let driver = DriverThread::start(&log).unwrap();
    append_and_check(&log, 8, 100);
    drop(driver);
    log.append_sync(b"without it").unwrap();
}

#[test]
fn a_sync_of_what_the_driver_thread_has_under_way_ends_with_that() {
    let log = slow_log(Duration::from_millis(5));
    let _driver = DriverThread::start(&log).unwrap();
    for _ in 0..20 {
        let batch = log.core.space().next_batch;
        drop(log.append(b"alone").unwrap());
        while log.core.space().next_batch == batch {
            std::thread::yield_now();
        }
        log.sync().unwrap();
        assert_eq!(log.end(), log.core.space().sealed);
    }
}

#[test]
fn who_waits_for_an_entry_behind_an_open_one_sleeps_until_that_is_committed() {
    let log = new_log(1 << 16);
    let mut open = log.reserve(5).unwrap();
    std::thread::scope(|scope| {
        let behind = scope.spawn(|| log.append_sync(b"behind"));
        while log.core.space().tail.sequence < 2 {
            std::thread::yield_now();
        }
        open.put(b"first").unwrap();
        drop(open.commit().unwrap());
        behind.join().unwrap().unwrap();
    });
    assert_eq!(log.read().count(), 2);
}

#[test]
fn a_lone_writer_has_each_entry_written_by_itself_at_once() {
    let area = area(1 << 20);
    let device = memory(area, 512);
    let image = device.image().clone();
    let recording = RecordingDevice::new(device, image);
    let recorder = recording.recorder();
    let log = Log::create(Box::new(recording), area, Options::default()).unwrap();
    let before = recorder.recording().operations();
    (0..50).for_each(|id| assert!(log.append_sync(&payload(id, 100)).is_ok()));
    assert_eq!(recorder.recording().operations() - before, 50);
}

#[test]
fn what_comes_while_a_flush_is_under_way_shares_the_next_one() {
    let area = area(1 << 20);
    let device = memory(area, 512);
    let image = device.image().clone();
    let recording = RecordingDevice::new(device, image);
    let recorder = recording.recorder();
    let log = Log::create(Box::new(recording), area, Options::default()).unwrap();
    let before = recorder.recording().operations();
    let all: Vec<_> = (0..64).map(|id| log.append(&payload(id, 20)).unwrap()).collect();
    all.iter().for_each(|appended| assert!(appended.wait().is_ok()));
    assert_eq!(recorder.recording().operations() - before, 1);
}

#[test]
fn readers_and_trims_go_on_beside_producers() {
    let log = slow_log(Duration::from_micros(100));
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let producers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    (0..1000).for_each(|id| assert!(log.append_sync(&payload(id, 900)).is_ok()));
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let mut count = 0;
            let mut reader = log.read();
            while !is_over.load(std::sync::atomic::Ordering::SeqCst)
                || reader.position() != log.end()
            {
                let Some(entry) = reader.read().unwrap() else {
                    std::thread::yield_now();
                    continue;
                };
                count += 1;
                log.trim(entry.next).unwrap();
            }
            count
        });
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        is_over.store(true, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(reader.join().unwrap(), 4000);
    });
    assert!(log.end().at > 3 << 20, "the area went round");
}

#[test]
fn a_failure_wakes_everybody() {
    use heliostat_backend_block::{Fault, FaultDevice, Faults};
    let (area, faults) = (area(1 << 20), Faults::new(1));
    let device = LatencyDevice::new(
        FaultDevice::new(memory(area, 512), faults.clone()),
        Extra::durability(Duration::from_millis(2)),
    );
    let log = Log::create(Box::new(device), area, Options::default()).unwrap();
    faults.script(faults.begun() + 20, Fault::Error { errno: 5 });
    let append_until_failure = || loop {
        if let Err(error) = log.append_sync(&[1; 100]) {
            return error;
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(append_until_failure)).collect();
        for thread in threads {
            assert!(matches!(thread.join().unwrap(), LogError::Failed(_)));
        }
    });
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn futures_become_ready_by_the_driver_thread() {
    let log = slow_log(Duration::from_micros(200));
    let _driver = DriverThread::start(&log).unwrap();
    let mut positions = HashSet::new();
    for id in 0..50 {
        positions.insert(block_on(log.append(&payload(id, 30)).unwrap()).unwrap());
    }
    assert_eq!(positions.len(), 50);
    assert!(!log.core.notices.has_ready());
}
