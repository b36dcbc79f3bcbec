//! Calls: reads that are asked for and answered in one cache line.

mod support;

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use heliostat_abi::file::delegated::*;
use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::{Access, SharedMapping};
use heliostat_client::session;
use heliostat_stub_file::Delegated;
use support::delegated::*;
use support::*;

const EINVAL: i64 = -(libc::EINVAL as i64);
const SIZE: usize = 200_000;

/// A session with a file whose bytes the cache has, and its call.
struct Caller {
    session: Delegate,
    line: SharedMapping,
    file: ObjectId,
    turn: u64,
}

impl Caller {
    fn new(daemon: &Daemon) -> Caller {
        let path = daemon.folder().join("numbers");
        std::fs::write(&path, numbers()).unwrap();
        let mut session = Delegate::new(daemon);
        let file = session.show(&File::open(&path).unwrap(), false).unwrap();
        for offset in (0..SIZE as u64).step_by(33_000) {
            await_that("the cache has it", || session.read(file, offset, 64).1 == Way::Cached);
        }
        let rings = session.rings.as_raw_fd();
        let line = SharedMapping::map(rings, CALL_AT, CALL_BYTES, Access::ReadWrite).unwrap();
        Caller { session, line, file, turn: 0 }
    }

    fn ask(&mut self, words: [u64; 4]) {
        for (at, word) in CALL_WORDS_AT.into_iter().zip(words) {
            self.line.atomic_u64(at).store(word, Relaxed);
        }
        self.line.atomic_u64(CALL_TURN_AT).store(self.turn + 1, Release);
        self.session.submissions.ring();
    }

    fn is_answered(&self) -> bool {
        self.line.atomic_u64(CALL_TURN_AT).load(Acquire) == self.turn + 2
    }

    fn call_words(&mut self, words: [u64; 4]) -> i64 {
        self.ask(words);
        await_that("an answer", || self.is_answered());
        self.turn += 2;
        self.line.atomic_u64(CALL_ANSWER_AT).load(Relaxed) as i64
    }

    fn call(&mut self, offset: u64, piece: Piece) -> i64 {
        self.call_words(OneRead { object: self.file, offset, tag: 0, piece }.to_words())
    }
}

fn numbers() -> Vec<u8> {
    (0..SIZE).map(|at| (at / 7) as u8).collect()
}

fn piece(offset: u64, bytes: u32) -> Piece {
    Piece { offset, bytes }
}

fn cached(daemon: &Daemon) -> u64 {
    daemon.status()["delegated"]["transfers_cached"].as_u64().unwrap()
}

#[test]
fn what_the_cache_has_is_read_into_the_window_and_counted() {
    let daemon = Daemon::start();
    let mut caller = Caller::new(&daemon);
    let before = cached(&daemon);
    for (offset, bytes) in [(0, 4096), (1, 1), (65_000, 536), (150_000, 4096)] {
        assert_eq!(caller.call(offset, piece(777, bytes)), i64::from(bytes), "{offset}");
        let mut found = vec![0; bytes as usize];
        caller.session.window.copy_out(777, &mut found).unwrap();
        let at = offset as usize;
        assert_eq!(found, numbers()[at..at + bytes as usize], "{offset}");
    }
    // At the file's end there are fewer.
    assert_eq!(caller.call(SIZE as u64 - 10, piece(0, 4096)), 10);
    assert_eq!(cached(&daemon), before + 5);
}

#[test]
fn what_it_does_not_have_is_declined_and_nonsense_refused() {
    let daemon = Daemon::start();
    let mut caller = Caller::new(&daemon);
    let before = cached(&daemon);
    // Over the border of two blocks, behind the end, and of no file.
    assert_eq!(caller.call(65_530, piece(0, 100)), CALL_DECLINED);
    assert_eq!(caller.call(SIZE as u64, piece(0, 1)), CALL_DECLINED);
    let good = OneRead { object: caller.file, offset: 0, tag: 0, piece: piece(0, 16) }.to_words();
    assert_eq!(caller.call_words([good[0] ^ 1 << 40, good[1], good[2], good[3]]), CALL_DECLINED);
    for (place, bytes) in [(WINDOW as u64, 1), (WINDOW as u64 - 15, 16), (u64::MAX, 16), (0, 0)] {
        assert_eq!(caller.call_words([good[0], good[1], place, bytes]), EINVAL, "{place} {bytes}");
    }
    assert_eq!(caller.call_words([good[0], u64::MAX, 0, 16]), EINVAL);
    assert_eq!(caller.call_words([good[0], 0, 0, 1 << 32]), EINVAL);
    assert_eq!(cached(&daemon), before);
    assert_eq!(caller.call_words(good), 16);
}

#[test]
fn a_turn_that_is_not_the_next_is_no_call() {
    let daemon = Daemon::start();
    let mut caller = Caller::new(&daemon);
    assert_eq!(caller.call(0, piece(0, 16)), 16);
    for turn in [0, 1, 2, 4, 5, u64::MAX] {
        caller.line.atomic_u64(CALL_TURN_AT).store(turn, Release);
        caller.session.submissions.ring();
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(caller.line.atomic_u64(CALL_TURN_AT).load(Acquire), turn);
    }
    serves(&daemon);
    assert_eq!(caller.call(0, piece(0, 16)), 16);
    assert_eq!(caller.session.read(caller.file, 0, 16).0, 16);
}

#[test]
fn a_loop_that_sleeps_is_woken_by_a_call() {
    let daemon = Daemon::start();
    let mut caller = Caller::new(&daemon);
    let sleeps = || daemon.status()["delegated"]["sleeps"].as_u64().unwrap();
    let mut seen = 0;
    for _ in 0..20 {
        assert_eq!(caller.call(0, piece(0, 16)), 16);
        await_that("it sleeps again", || sleeps() > seen);
        seen = sleeps();
    }
}

#[test]
fn a_writer_ends_what_calls_may_have() {
    let daemon = Daemon::start();
    let mut caller = Caller::new(&daemon);
    assert_eq!(caller.call(0, piece(0, 16)), 16);
    let path = daemon.folder().join("numbers");
    let writer = OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&writer, b"changed", 0).unwrap();
    assert_eq!(caller.call(0, piece(0, 16)), CALL_DECLINED);
    assert_eq!(&caller.session.read(caller.file, 0, 7).2, b"changed");
}

#[test]
fn tokens_are_taken_for_calls_as_for_operations() {
    let daemon = Daemon::with("[delegated]\noperations_per_second = 200\n", &[]);
    let mut caller = Caller::new(&daemon);
    let began = Instant::now();
    let mut answered = 0;
    while began.elapsed() < Duration::from_secs(1) {
        answered += u32::from(caller.call(0, piece(0, 16)) == 16);
    }
    assert!((1..400).contains(&answered), "{answered}");
}

/// Through the stub, by one thread beside which the loop falls asleep now and then.
#[test]
fn reads_through_the_stub_are_the_files_whichever_way_they_go() {
    let daemon = Daemon::start();
    session::configure(daemon.socket().to_str().unwrap().into(), "test".into());
    let path = daemon.folder().join("numbers");
    std::fs::write(&path, numbers()).unwrap();
    let mut delegated = Delegated::start(1 << 20).unwrap();
    let file = delegated.show(File::open(&path).unwrap().as_raw_fd(), 0).unwrap();
    let all = numbers();
    let mut found = vec![0; 4096];
    for round in 0..20_000_u64 {
        let (offset, into) = (round * 7919 % SIZE as u64, round % 200 * 4096);
        let bytes = delegated.read_at(file, offset, piece(into, 4096)).unwrap();
        assert_eq!(bytes, 4096.min(SIZE - offset as usize), "{offset}");
        delegated.window().copy_out(into as usize, &mut found[..bytes]).unwrap();
        assert!(found[..bytes] == all[offset as usize..][..bytes], "{offset}");
        if round % 1000 == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    assert!(cached(&daemon) > 19_000);
    delegated.close(file).unwrap();
    let closed = delegated.read_at(file, 0, piece(0, 16)).unwrap_err();
    assert!(closed.to_string().contains("descriptor"), "{closed}");
}
