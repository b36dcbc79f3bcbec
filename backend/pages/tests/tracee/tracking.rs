//! Which pages another process wrote, and their bytes.

use std::sync::atomic::Ordering::SeqCst;

use heliostat_backend_pages::tracee::{MappingKind, TraceError, Tracee};
use heliostat_backend_pages::track::{self, Pages};
use heliostat_base::mapping::SharedMapping;

use crate::child::{goes_on, until, words, Child};

const PAGE: usize = 4096;

/// Memory that is private after the fork: its address is the same in the child.
fn memory(pages: usize) -> usize {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
    // SAFETY: fresh memory, never unmapped.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), pages * PAGE, 3, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    at as usize
}

fn is_supported() -> bool {
    track::probe().inspect_err(|error| println!("skipped: {error}")).is_ok()
}

fn write(address: usize, value: u8) {
    // SAFETY: every test passes addresses of its own mapped memory.
    unsafe { (address as *mut u8).write_volatile(value) };
}

#[test]
fn writes_of_program_and_kernel_are_seen_page_by_page_and_bytes_are_read() {
    if !is_supported() {
        return;
    }
    let (shared, at) = (words(), memory(16));
    let child = Child::run(|| {
        until("told", || shared[0].load(SeqCst) == 1);
        write(at + 5 * PAGE + 7, 55);
        let zero = std::fs::File::open("/dev/urandom").unwrap();
        // SAFETY: ten bytes of the memory above.
        let bytes = unsafe { std::slice::from_raw_parts_mut((at + 9 * PAGE) as *mut u8, 10) };
        std::io::Read::read_exact(&mut { zero }, bytes).unwrap();
        shared[0].store(2, SeqCst);
        until("for ever", || shared[1].fetch_add(1, SeqCst) == u64::MAX);
    });
    // A fork has what other tests have open at that moment.
    let faults = || {
        let open = std::fs::read_dir(format!("/proc/{}/fd", child.0)).unwrap();
        let links = open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
        links.filter(|name| name.to_string_lossy().contains("userfaultfd")).count()
    };
    let before = faults();
    let tracee = Tracee::open(child.0).unwrap();
    let tracker = tracee.track().unwrap();
    let pages = at..at + 16 * PAGE;
    tracker.watch(pages.clone()).unwrap();
    let take = || {
        let mut runs: Vec<Pages> = Vec::new();
        tracker.take(pages.clone(), &mut runs).unwrap();
        runs.iter().map(|run| (run.start - at) / PAGE..(run.end - at) / PAGE).collect::<Vec<_>>()
    };
    assert_eq!(take(), []);
    shared[0].store(1, SeqCst);
    until("written", || shared[0].load(SeqCst) == 2);
    let stopped = tracee.stop().unwrap();
    assert_eq!(take(), [5..6, 9..10]);
    assert_eq!(take(), []);
    let (_fd, pool) = SharedMapping::create(c"pool", PAGE).unwrap();
    tracee.copy_to(at + 5 * PAGE, &pool, 0, PAGE).unwrap();
    assert_eq!(pool.atomic_u32(4).load(SeqCst).to_le_bytes()[3], 55);
    stopped.resume();
    goes_on(&shared[1], 5);
    assert_eq!(faults(), before);
    let found = tracee.mappings().unwrap();
    let mapping = found.iter().find(|it| it.pages.contains(&at)).unwrap();
    assert_eq!((mapping.kind, mapping.is_shared), (MappingKind::Anonymous, false));
}

/// Every hundred times round, registers hold what they held: a call in between shows nowhere.
#[test]
fn a_program_that_only_computes_goes_on_with_its_own_registers() {
    if !is_supported() {
        return;
    }
    let shared = words();
    let child = Child::run(|| {
        let (mut sum, mut product, mut root) = (0u64, 1u64, 1.0f64);
        for round in 1u64.. {
            sum = sum.wrapping_add(round);
            product = product.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            root = (root + 2.0 / root) / 2.0;
            if sum != (round.wrapping_mul(round + 1)) / 2 || !(1.0..=2.0).contains(&root) {
                shared[1].store(round, SeqCst);
            }
            shared[0].store(std::hint::black_box(round), SeqCst);
        }
    });
    until("started", || shared[0].load(SeqCst) > 0);
    let tracee = Tracee::open(child.0).unwrap();
    for _ in 0..100 {
        drop(tracee.track().unwrap());
        drop(tracee.stop().unwrap());
    }
    goes_on(&shared[0], 10_000);
    assert_eq!(shared[1].load(SeqCst), 0, "a register changed");
}

#[test]
fn calls_that_wait_go_on_waiting_when_their_thread_lent_its_registers() {
    if !is_supported() {
        return;
    }
    let shared = words();
    let child = Child::run(|| {
        for round in 0.. {
            let span = libc::timespec { tv_sec: 0, tv_nsec: 200_000_000 };
            // SAFETY: a live timespec.
            let answer = unsafe { libc::nanosleep(&span, std::ptr::null_mut()) };
            shared[0].fetch_add(answer.unsigned_abs().into(), SeqCst);
            shared[1].store(round + 1, SeqCst);
        }
    });
    let tracee = Tracee::open(child.0).unwrap();
    until("asleep many times", || {
        drop(tracee.track().unwrap());
        shared[1].load(SeqCst) >= 3
    });
    assert_eq!(shared[0].load(SeqCst), 0, "a sleep ended with an error");
}

#[test]
fn a_fork_of_the_program_does_not_confuse_the_tracker() {
    if !is_supported() {
        return;
    }
    let (shared, at) = (words(), memory(8));
    let child = Child::run(|| {
        until("told", || shared[0].load(SeqCst) == 1);
        let fork = Child::run(|| {
            write(at + PAGE, 1);
            write(at + 2 * PAGE, 1);
        });
        drop(fork);
        write(at + 4 * PAGE, 1);
        shared[0].store(2, SeqCst);
        until("for ever", || false);
    });
    let tracee = Tracee::open(child.0).unwrap();
    let tracker = tracee.track().unwrap();
    tracker.watch(at..at + 8 * PAGE).unwrap();
    shared[0].store(1, SeqCst);
    until("written", || shared[0].load(SeqCst) == 2);
    let mut runs = Vec::new();
    tracker.take(at..at + 8 * PAGE, &mut runs).unwrap();
    assert_eq!((runs.len(), runs[0].clone()), (1, at + 4 * PAGE..at + 5 * PAGE));
}

#[test]
fn a_program_stopped_by_job_control_makes_no_call() {
    if !is_supported() {
        return;
    }
    let child = Child::run(|| until("for ever", || false));
    let tracee = Tracee::open(child.0).unwrap();
    child.kill(libc::SIGSTOP);
    until("stopped", || child.state().0 == 'T');
    assert!(matches!(tracee.track(), Err(TraceError::JobStopped)));
    until("stopped still", || child.state() == ('T', 0));
    child.kill(libc::SIGCONT);
    until("goes on", || tracee.track().is_ok());
}
