//! Which way by what was measured, who reads behind whom, and what comes next: seen by people.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::support::delegated::*;
use crate::support::*;
use heliostat_abi::file::delegated::*;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Request;
use rustix::fs::statfs;
use serde_json::Value;

const MIB: usize = 1 << 20;
/// What the fixed threshold sends to the device.
const LARGE: u32 = 512 << 10;

/// A threshold that no measurement moves.
const FIXED: &str = "[delegated]\ndirect_from_bytes = 262144\n";

fn content(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|at| ((at / 7 + seed * 31) % 251) as u8).collect()
}

fn is_on_disk(path: &Path) -> bool {
    statfs(path).unwrap().f_type != TMPFS
}

fn explain(daemon: &Daemon) -> Value {
    let pid = std::process::id();
    serde_json::from_str(&daemon.visit().text(&Request::Explain { pid })).unwrap()
}

/// What is told of the device of a file.
pub fn device_of(daemon: &Daemon, path: &Path) -> Value {
    let number = path.metadata().unwrap().dev();
    let name = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    let explained = explain(daemon);
    let devices = explained["delegated_devices"].as_array().unwrap();
    devices.iter().find(|device| device["device"] == name.as_str()).unwrap().clone()
}

/// The same once nobody measures it.
fn measured(daemon: &Daemon, path: &Path) -> Value {
    let mut device = Value::Null;
    await_that("it was measured, or could not be", || {
        device = device_of(daemon, path);
        !device["why"].as_str().unwrap().contains("being measured")
    });
    device
}

fn status(daemon: &Daemon, name: &str) -> u64 {
    daemon.status()["delegated"][name].as_u64().unwrap()
}

/// Files of one MiB, of which a session reads one after the other.
fn set(daemon: &Daemon, count: usize) -> Vec<(PathBuf, Vec<u8>)> {
    let file = |number: usize| {
        let path = daemon.folder().join(format!("part-{number}"));
        let bytes = content(MIB, number);
        write_file(&path, &bytes);
        (path, bytes)
    };
    (0..count).map(file).collect()
}

/// Shows all of them to a session.
fn show_all(session: &mut Delegate, files: &[(PathBuf, Vec<u8>)]) -> Vec<ObjectId> {
    let show =
        |(path, _): &(PathBuf, Vec<u8>)| session.show(&File::open(path).unwrap(), false).unwrap();
    files.iter().map(show).collect()
}

/// Reads a whole file by large reads: the ways that they took.
fn read_whole(session: &mut Delegate, file: ObjectId, bytes: &[u8]) -> Vec<Way> {
    let starts = (0..bytes.len()).step_by(LARGE as usize);
    let each = starts.map(|at| {
        let (result, way, found) = session.read(file, at as u64, LARGE);
        assert_eq!(result, i64::from(LARGE));
        assert!(found == bytes[at..at + LARGE as usize], "at {at}");
        way
    });
    each.collect()
}

#[test]
fn a_device_is_measured_by_the_first_large_file_and_the_numbers_are_shown() {
    let daemon = Daemon::start();
    let path = daemon.folder().join("large");
    let bytes = content(16 * MIB, 3);
    write_file(&path, &bytes);
    let mut session = Delegate::new(&daemon);
    // A machine that is busy with other things may be too slow for the first try.
    let mut device = Value::Null;
    let mut file = ObjectId::default();
    for _ in 0..3 {
        file = session.show(&File::open(&path).unwrap(), false).unwrap();
        device = measured(&daemon, &path);
    }
    let why = device["why"].as_str().unwrap();
    let samples = device["measured"].as_array().cloned().unwrap_or_default();
    let from = device["direct_from_bytes"].as_u64();
    if why == "measured" {
        let large = samples.iter().any(|it| it["bytes"].as_u64() >= Some(256 << 10));
        assert!(large && samples.len() >= 3, "{device}");
        assert!(samples.iter().all(|it| it["direct_ns"].as_u64() > Some(0)), "{device}");
        assert!(from.is_none_or(|from| (64 << 10..=4 << 20).contains(&from)), "{device}");
    } else {
        assert!(why.starts_with("the fixed threshold: "), "{device}");
        assert_eq!(from, Some(256 << 10), "{device}");
    }
    assert!(why == "measured" || why.contains("too slow") || !is_on_disk(&path), "{device}");
    assert!(std::fs::read(&path).unwrap() == bytes, "nothing is written");
    // The threshold holds from then on.
    let (_, way, found) = session.read(file, 0, LARGE);
    assert!(found == bytes[..LARGE as usize]);
    let is_direct = from.is_some_and(|from| u64::from(LARGE) >= from);
    assert_eq!(way == Way::Direct, is_direct, "{device}");
}

#[test]
fn files_in_memory_keep_the_fixed_threshold_and_it_is_said() {
    let path = PathBuf::from(format!("/dev/shm/heliostat-policy-{}", std::process::id()));
    write_file(&path, &content(9 * MIB, 1));
    let daemon = Daemon::start();
    let mut session = Delegate::new(&daemon);
    let shown = session.show(&File::open(&path).unwrap(), false);
    let device = device_of(&daemon, &path);
    std::fs::remove_file(&path).unwrap();
    assert!(shown.is_ok());
    assert_eq!(device["why"], "the fixed threshold: its files lie in memory");
    assert_eq!(device["direct_from_bytes"], 256 << 10);
}

#[test]
fn whoever_opens_whatever_a_device_is_measured_once() {
    let daemon = Daemon::start();
    let path = daemon.folder().join("large");
    write_file(&path, &content(8 * MIB, 2));
    let number = path.metadata().unwrap().dev();
    let mut took = Vec::new();
    for _ in 0..4 {
        let mut session = Delegate::new(&daemon);
        for _ in 0..20 {
            session.show(&File::open(&path).unwrap(), false).unwrap();
        }
        took.extend(measured(&daemon, &path)["measured_ns"].as_u64());
    }
    took.dedup();
    assert!(took.len() <= 1, "the same measurement each time: {took:?}");
    let status = daemon.status();
    let devices = status["delegated"]["devices"].as_array().unwrap();
    let name = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    assert_eq!(devices.iter().filter(|it| it["device"] == name.as_str()).count(), 1);
}

#[test]
fn a_configured_threshold_holds_and_zero_is_never() {
    for (configured, way) in [(0, Way::Filled), (64 << 10, Way::Direct)] {
        let text = format!("[delegated]\ndirect_from_bytes = {configured}\n");
        let daemon = Daemon::with(&text, &[]);
        let path = daemon.folder().join("large");
        let bytes = content(9 * MIB, 1);
        write_file(&path, &bytes);
        let mut session = Delegate::new(&daemon);
        let file = session.show(&File::open(&path).unwrap(), false).unwrap();
        let (_, taken, found) = session.read(file, 4096, 128 << 10);
        assert!(found == bytes[4096..4096 + (128 << 10)]);
        assert_eq!(taken, way);
        assert_eq!(device_of(&daemon, &path)["why"], "configured: direct_from_bytes");
    }
}

#[test]
fn reads_that_the_device_has_are_counted_until_they_come_back_or_nobody_waits() {
    let daemon = Daemon::with(FIXED, &[]);
    let path = daemon.folder().join("file");
    write_file(&path, &content(4 * MIB, 1));
    let mut sessions = [Delegate::new(&daemon), Delegate::new(&daemon), Delegate::new(&daemon)];
    let files = sessions.each_mut().map(|it| it.show(&File::open(&path).unwrap(), true).unwrap());
    for (session, file) in sessions.iter_mut().zip(files) {
        for tag in 0..200 {
            session.submit(&read(file, tag * 4096, 4096, tag));
        }
    }
    let [mut whole, mut closes, dies] = sessions;
    drop(dies);
    closes.submit(&Operation { object: files[1], ..blank(1000) });
    (0..200).for_each(|_| assert_eq!(whole.next().result, 4096));
    // A read that begins after the file is closed has none; the others come back.
    let results: Vec<i64> = (0..201).map(|_| closes.next().result).collect();
    let bad = -i64::from(libc::EBADF);
    assert!(results.iter().all(|result| [0, 4096, bad].contains(result)), "{results:?}");
    await_that("nothing is under way", || device_of(&daemon, &path)["under_way"] == 0);
    assert_eq!(device_of(&daemon, &path)["is_full"], false);
}

#[test]
fn explain_tells_for_each_file_what_decided_and_how_often() {
    let daemon = Daemon::with(FIXED, &[]);
    let path = daemon.folder().join("file");
    write_file(&path, &content(4 * MIB, 1));
    let mut session = Delegate::new(&daemon);
    let file = session.show(&File::open(&path).unwrap(), false).unwrap();
    session.read(file, MIB as u64, LARGE);
    session.read(file, 0, 4096);
    (0..300).for_each(|_| assert_eq!(session.read(file, 0, 4096).1, Way::Cached));
    let shown = explain(&daemon)["delegated"][0].clone();
    let reasons = shown["reasons"].as_array().unwrap();
    let count = |name: &str| {
        let found = reasons.iter().find(|reason| reason["reason"] == name);
        found.map_or(0, |reason| reason["count"].as_u64().unwrap())
    };
    assert_eq!((count("large"), count("small"), count("hit")), (1, 1, 300), "{shown}");
    assert_eq!((&shown["last_read"], &shown["last_write"]), (&"hit".into(), &Value::Null));
    assert_eq!(shown["small_reads"], 301);
}

#[test]
fn small_reads_of_what_the_kernel_has_in_memory_are_said_to_be_better_mapped() {
    let daemon = Daemon::start();
    let path = daemon.folder().join("file");
    write_file(&path, &content(MIB, 1));
    // It lies in the page cache, having been written or read just now.
    std::fs::read(&path).unwrap();
    let mut session = Delegate::new(&daemon);
    let file = session.show(&File::open(&path).unwrap(), false).unwrap();
    (0..200).for_each(|_| assert_eq!(session.read(file, 0, 4096).0, 4096));
    assert_eq!(explain(&daemon)["delegated"][0]["mapping"], Value::Null, "too few");
    (0..100).for_each(|_| assert_eq!(session.read(file, 0, 4096).0, 4096));
    let mapping = explain(&daemon)["delegated"][0]["mapping"].clone();
    // Kernels before 6.5 do not say what lies there.
    assert!(mapping.is_null() || mapping["small_reads"] == 300, "{mapping}");
    assert!(mapping.is_null() || mapping["resident_percent"].as_u64() >= Some(75), "{mapping}");
}

#[test]
fn who_reads_behind_another_is_served_by_what_that_one_has_filled() {
    let daemon = Daemon::with(FIXED, &[]);
    let path = daemon.folder().join("file");
    let bytes = content(8 * MIB, 4);
    write_file(&path, &bytes);
    let mut sessions = [Delegate::new(&daemon), Delegate::new(&daemon)];
    let files = sessions.each_mut().map(|it| it.show(&File::open(&path).unwrap(), false).unwrap());
    let mut ways = [Vec::new(), Vec::new()];
    for step in 0..12 {
        for number in 0..2 {
            // The second one is two reads behind.
            let Some(at) = (step * LARGE as usize).checked_sub(number * 2 * LARGE as usize) else {
                continue;
            };
            let (_, way, found) = sessions[number].read(files[number], at as u64, LARGE);
            assert!(found == bytes[at..at + LARGE as usize]);
            ways[number].push(way);
        }
    }
    assert_eq!(ways[0][0], Way::Direct, "nobody was there");
    assert!(ways[0][4..].iter().all(|way| *way != Way::Direct), "{ways:?}");
    assert!(ways[1][4..].iter().all(|way| *way == Way::Cached), "{ways:?}");
}

#[test]
fn who_comes_to_files_behind_another_finds_their_heads_read_ahead() {
    let daemon = Daemon::with(FIXED, &[]);
    let files = set(&daemon, 6);
    let mut first = Delegate::new(&daemon);
    let shown = show_all(&mut first, &files);
    for (file, (_, bytes)) in shown.iter().zip(&files) {
        assert_eq!(read_whole(&mut first, *file, bytes), [Way::Direct; 2], "nobody is behind");
    }
    assert_eq!(status(&daemon, "blocks_ahead"), 0);
    let mut second = Delegate::new(&daemon);
    let shown = show_all(&mut second, &files);
    for (number, (file, (_, bytes))) in shown.iter().zip(&files).enumerate() {
        await_that("the head is there", || number == 0 || status(&daemon, "blocks_filled") >= 16);
        read_whole(&mut second, *file, bytes);
    }
    let (ahead, found) = (status(&daemon, "blocks_ahead"), status(&daemon, "blocks_ahead_found"));
    // Each file but the first has 16 blocks.
    assert_eq!((ahead, found), (80, 80));
    let explained = explain(&daemon);
    let told = explained["delegated"].as_array().unwrap().iter();
    let found: u64 = told.map(|file| file["found_ahead"].as_u64().unwrap()).sum();
    assert_eq!(found, 80);
}

#[test]
fn who_is_some_files_behind_another_is_followed_and_the_set_is_read_little_more_than_once() {
    const FILES: usize = 24;
    let daemon = Daemon::with(FIXED, &[]);
    let files = set(&daemon, FILES);
    let mut sessions = [Delegate::new(&daemon), Delegate::new(&daemon)];
    let shown = sessions.each_mut().map(|session| show_all(session, &files));
    let mut led = Vec::new();
    for step in 0..FILES + 2 {
        if step < FILES {
            led.push(read_whole(&mut sessions[0], shown[0][step], &files[step].1));
        }
        if let Some(behind) = step.checked_sub(2) {
            read_whole(&mut sessions[1], shown[1][behind], &files[behind].1);
        }
    }
    assert_eq!(led[0], [Way::Direct; 2]);
    // Once the second one has made one of its steps, the first one fills for both.
    assert!(led[5..].iter().flatten().all(|way| *way != Way::Direct), "{led:?}");
    let followed = explain(&daemon)["delegated"].clone();
    let followed = followed.as_array().unwrap().iter().map(|it| it["followed"].as_u64().unwrap());
    assert!(followed.sum::<u64>() >= 4, "{led:?}");
    // By the device alone each would have read all of it.
    let filled = status(&daemon, "blocks_filled") * (64 << 10);
    let read = status(&daemon, "bytes_direct") + filled;
    println!("two sessions: {read} bytes of {} from the device", FILES * MIB);
    assert!(read < (FILES * MIB * 3 / 2) as u64, "{read}, {led:?}");
}

#[test]
fn nothing_is_read_ahead_for_a_session_that_has_no_tokens_for_it() {
    let daemon = Daemon::with(&format!("{FIXED}bytes_per_second = 1048576\n"), &[]);
    let files = set(&daemon, 3);
    let small = |session: &mut Delegate, files: &[ObjectId]| {
        files.iter().for_each(|file| assert_eq!(session.read(*file, 0, 4096).0, 4096));
    };
    for round in 0..2 {
        let mut session = Delegate::new(&daemon);
        let shown = show_all(&mut session, &files);
        small(&mut session, &shown);
        // A tenth of a second's worth is 100 KiB: one block and the reads themselves.
        assert!(status(&daemon, "blocks_ahead") <= 2 * round, "round {round}");
    }
}
