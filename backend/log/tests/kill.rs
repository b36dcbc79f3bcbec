//! A process that appends to a log in a real file is killed at any time, again and again.
//!
//! The child appends by several threads and says on its output what was acknowledged; the parent kills
//! it after a number of lines that a seed gives, and opens the file. This shows that the log and
//! the file agree when a process dies; what a loss of power leaves, the crash states show.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use heliostat_backend_block::{FileDevice, OpenError, Options as FileOptions, Random};
use heliostat_backend_log::{Area, Log, LogError, Options, Position};

const FILE: &str = "HELIOSTAT_KILL_FILE";
const AREA: Area = Area { offset: 4096, bytes: 200 << 10 };
const THREADS: u64 = 3;

/// The file, as soon as nobody has it: the kernel lets go of a killed process's ring a little later.
fn device(path: &Path) -> Box<FileDevice> {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        match FileDevice::open(path, FileOptions::default()) {
            Ok(device) => return Box::new(device),
            Err(OpenError::InUse) if Instant::now() < patience => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

fn open(path: &Path) -> Log {
    let options = Options { window_bytes: 32 << 10, ..Options::default() };
    match Log::open(device(path), AREA, options) {
        Ok(log) => log,
        Err(LogError::NoLog(_)) => Log::create(device(path), AREA, options).unwrap(),
        Err(error) => panic!("{error}"),
    }
}

fn payload(thread: u64, number: u64) -> Vec<u8> {
    let mut bytes = [thread.to_le_bytes(), number.to_le_bytes()].concat();
    bytes.resize(16 + (number * 97 % 3000) as usize, thread as u8);
    bytes
}

fn read_payload(bytes: &[u8]) -> (u64, u64) {
    let word = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("two words"));
    let (thread, number) = (word(0), word(8));
    assert_eq!(bytes, payload(thread, number));
    (thread, number)
}

/// Not a test of its own: what is killed.
#[test]
#[ignore = "the test beside it starts it"]
fn child() {
    let Some(path) = std::env::var_os(FILE) else { return };
    let log = open(Path::new(&path));
    let mut next = BTreeMap::new();
    for entry in log.read() {
        let (thread, number) = read_payload(&entry.unwrap().payload);
        next.insert(thread, number + 1);
    }
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (first, log) = (next.get(&thread).copied().unwrap_or(0), &log);
            scope.spawn(move || {
                let mut number = first;
                loop {
                    match log.append_sync(&payload(thread, number)) {
                        Ok(position) => say(thread, number, position),
                        Err(LogError::Full { .. }) => {
                            trim_half(log);
                            continue;
                        }
                        Err(error) => panic!("{error}"),
                    }
                    number += 1;
                }
            });
        }
    });
}

fn say(thread: u64, number: u64, position: Position) {
    let line = format!("\nacknowledged {thread} {number} {} {}\n", position.at, position.sequence);
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

/// Another thread may trim as well: a position that is gone by then is no error.
fn trim_half(log: &Log) {
    let middle = (log.begin().at + log.end().at) / 2;
    for entry in log.read() {
        match entry {
            Ok(entry) if entry.position.at >= middle => {
                let _ = log.trim(entry.position);
                return;
            }
            Ok(_) => {}
            Err(LogError::Trimmed { .. }) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

fn start(path: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(FILE, path).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Lets a child run for so many acknowledgements and kills it; all that it said.
fn run_and_kill(path: &Path, lines: u64) -> Vec<(u64, u64, u64)> {
    let mut child = start(path);
    let output = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut said = Vec::new();
    // What was in the pipe when it died counts, too.
    for line in output.lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["acknowledged", thread, number, at, _] = words[..] {
            said.push((thread.parse().unwrap(), number.parse().unwrap(), at.parse().unwrap()));
            if said.len() as u64 == lines {
                child.kill().unwrap();
            }
        }
    }
    child.wait().unwrap();
    assert!(said.len() as u64 >= lines, "it ended by itself");
    said
}

fn check(path: &Path, said: &[(u64, u64, u64)]) {
    let log = open(path);
    let begin = log.begin();
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    for entry in log.read() {
        let (thread, number) = read_payload(&entry.unwrap().payload);
        let before = last.insert(thread, number);
        assert!(before.is_none_or(|before| number == before + 1), "{thread}: {before:?}, {number}");
    }
    for (thread, number, at) in said {
        let is_there = last.get(thread).is_some_and(|last| last >= number);
        assert!(is_there || *at < begin.at, "thread {thread} lost {number} at {at}: {last:?}");
    }
    log.close().unwrap();
}

#[test]
fn a_process_killed_at_any_time_loses_nothing_that_it_said_was_there() {
    let kills = std::env::var("HELIOSTAT_KILLS").ok().and_then(|it| it.parse().ok()).unwrap_or(100);
    let path = folder().join(format!("log-{}", std::process::id()));
    FileDevice::create(&path, AREA.offset + AREA.bytes).unwrap();
    let mut random = Random::new(1);
    for _ in 0..kills {
        let said = run_and_kill(&path, 1 + random.below(60));
        check(&path, &said);
    }
    std::fs::remove_file(&path).unwrap();
}

/// Beside the test's own program: a temporary folder may be memory.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}
