//! A log in a real file that goes around its area a thousand times, and a queue likewise.
//!
//! What is bounded is asserted: the process's memory, the file, and what is written for each byte that
//! is appended. How long it took is printed, and asserted by nobody: the machine may be busy.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use heliostat_stub_log::{Log, LogError, Options, Position, Queue};

const ROUNDS: u64 = 1000;
const BYTES: u64 = 136 << 10;
const ENTRY: usize = 4000;
/// Memory that may come and go: of the allocator, of threads that end.
const SLACK_KIB: u64 = 1024;

fn rss_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Bytes that this process has had written to devices.
fn written_bytes() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")).unwrap();
    line.parse().unwrap()
}

fn place(name: &str) -> PathBuf {
    let name = format!("rounds-{name}-{}", std::process::id());
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// What a tenth of the rounds took.
#[derive(Default)]
struct Tenth {
    took: Duration,
    written: u64,
}

/// What is measured is the whole process's: one test after the other.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Goes around: `step` appends an entry, says how far the log is by then.
fn around(capacity: u64, mut step: impl FnMut() -> Position) -> Vec<Tenth> {
    let mut tenths = Vec::new();
    let mut rss = 0;
    for tenth in 1..=10 {
        let (begun, before) = (Instant::now(), written_bytes());
        while step().at < capacity * ROUNDS / 10 * tenth {}
        tenths.push(Tenth { took: begun.elapsed(), written: written_bytes() - before });
        if tenth == 1 {
            rss = rss_kib();
        }
    }
    let now = rss_kib();
    assert!(now <= rss + SLACK_KIB, "{rss} KiB after a tenth, {now} KiB at the end");
    println!("resident: {rss} KiB after a tenth, {now} KiB at the end");
    for Tenth { took, written } in &tenths {
        println!("{:>8.1} ms, {} KiB written", took.as_secs_f64() * 1e3, written >> 10);
    }
    tenths
}

/// Nothing more is written for the last round than for an early one.
fn check_writes(tenths: &[Tenth]) {
    let (early, last) = (tenths[1].written, tenths[9].written);
    // Where the file system is memory nothing is counted, and both are 0.
    assert!(last <= early + early / 5, "{early} bytes in an early tenth, {last} in the last");
}

#[test]
fn a_log_goes_around_its_area_a_thousand_times_within_its_file_and_memory() {
    let _alone = alone();
    let path = place("log");
    let options = Options { window_bytes: 64 << 10, ..Options::default() };
    let log = Log::create_with(path.as_path(), BYTES, options).unwrap().without_thread();
    let (mut kept, mut full) = (std::collections::VecDeque::new(), 0);
    let tenths = around(log.capacity(), || loop {
        match log.append(&[kept.len() as u8; ENTRY]) {
            Ok(appended) => {
                let position = appended.position();
                kept.push_back(position);
                // Several on their way, as many producers have them.
                if kept.len() % 8 == 0 {
                    appended.wait().unwrap();
                }
                return position;
            }
            Err(LogError::Full { .. }) => {
                full += 1;
                log.sync().unwrap();
                log.trim(kept[kept.len() / 2]).unwrap();
                kept.drain(..kept.len() / 2);
            }
            Err(error) => panic!("{error}"),
        }
    });
    assert!(full >= ROUNDS, "{full}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), BYTES);
    check_writes(&tenths);
    log.close().unwrap();
    let found: Vec<Position> =
        Log::open(path.as_path()).unwrap().read().map(|entry| entry.unwrap().position).collect();
    assert_eq!(found, Vec::from(kept));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_queue_goes_around_its_area_a_thousand_times_within_its_file_and_memory() {
    let _alone = alone();
    let path = place("queue");
    let queue = Queue::create(path.as_path(), BYTES).unwrap();
    let mut next = 0u64;
    let tenths = around(queue.log().capacity(), || {
        for number in next..next + 16 {
            let mut payload = number.to_le_bytes().to_vec();
            payload.resize(ENTRY, 1);
            queue.push(&payload).unwrap();
        }
        let mut last = Position::default();
        for number in next..next + 16 {
            let item = queue.pop_wait(Duration::from_secs(60)).unwrap().expect("it was pushed");
            assert_eq!(item.payload[..8], number.to_le_bytes());
            queue.acknowledge(item.position).unwrap();
            last = item.position;
        }
        next += 16;
        last
    });
    assert_eq!(std::fs::metadata(&path).unwrap().len(), BYTES);
    check_writes(&tenths);
    queue.close().unwrap();
    assert_eq!(Queue::open(path.as_path()).unwrap().pop().unwrap(), None);
    std::fs::remove_file(&path).unwrap();
}
