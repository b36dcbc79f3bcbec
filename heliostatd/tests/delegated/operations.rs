//! Delegated operations: every kind by every way gives what the kernel would give.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use crate::support::delegated::*;
use crate::support::*;
use heliostat_abi::file::delegated::*;
use heliostat_abi::name::ObjectId;
use rustix::fs::statfs;

const BLOCK: usize = 64 * 1024;

/// A file in the daemon's folder, whose bytes tell where they are.
fn sample(daemon: &Daemon, bytes: usize) -> (PathBuf, Vec<u8>) {
    let path = daemon.folder().join("sample");
    let content: Vec<u8> = (0..bytes).map(|at| (at / 7 % 251) as u8).collect();
    write_file(&path, &content);
    (path, content)
}

fn both(path: &PathBuf) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

fn status(daemon: &Daemon, name: &str) -> u64 {
    daemon.status()["delegated"][name].as_u64().unwrap()
}

#[test]
fn a_file_under_a_lease_is_read_into_the_cache_once() {
    let daemon = Daemon::start();
    let (path, content) = sample(&daemon, 3 * BLOCK + 100);
    let mut one = Delegate::new(&daemon);
    let mut other = Delegate::new(&daemon);
    let first = one.show(&File::open(&path).unwrap(), false).unwrap();
    let second = other.show(&File::open(&path).unwrap(), false).unwrap();
    let (result, way, found) = one.read(first, 10, 5000);
    assert_eq!((result, way), (5000, Way::Filled));
    assert_eq!(found, content[10..5010]);
    let (_, way, found) = other.read(second, 4000, 3 * BLOCK as u32 + 100);
    assert_eq!((way, found.len()), (Way::Filled, 3 * BLOCK - 3900));
    assert_eq!(found, content[4000..]);
    for (offset, bytes) in [(0, 1), (BLOCK as u64 - 1, 2), (3 * BLOCK as u64, 4096), (0, 4096)] {
        let (_, way, found) = one.read(first, offset, bytes);
        assert_eq!(way, Way::Cached);
        let end = content.len().min(offset as usize + bytes as usize);
        assert_eq!(found, content[offset as usize..end]);
    }
    assert_eq!(one.read(first, content.len() as u64 + 5, 10).0, 0);
    assert_eq!(status(&daemon, "blocks_filled"), 4);
}

#[test]
fn the_cache_outlives_the_lease_when_nobody_has_changed_the_file() {
    let daemon = Daemon::start();
    let (path, content) = sample(&daemon, BLOCK);
    // One that was changed just now counts under one lease only.
    let touched = std::process::Command::new("sleep").arg("3").status().unwrap();
    assert!(touched.success());
    // On tmpfs times do not tell of all changes.
    let is_kept = statfs(&path).unwrap().f_type != TMPFS;
    for round in 0..3 {
        let mut session = Delegate::new(&daemon);
        let file = session.show(&File::open(&path).unwrap(), false).unwrap();
        let (_, way, found) = session.read(file, 0, 4096);
        assert_eq!(found, content[..4096]);
        assert_eq!(way, if is_kept && round > 0 { Way::Cached } else { Way::Filled });
        let close = Operation { object: file, ..blank(3) };
        assert_eq!(session.run(&close).result, 0);
    }
    std::fs::write(&path, vec![9; BLOCK]).unwrap();
    let mut session = Delegate::new(&daemon);
    let file = session.show(&File::open(&path).unwrap(), false).unwrap();
    assert_eq!(session.read(file, 0, 4096).2, [9; 4096]);
}

#[test]
fn a_writer_outside_is_seen_by_the_next_read() {
    let daemon = Daemon::start();
    let (path, mut content) = sample(&daemon, BLOCK);
    let mut session = Delegate::new(&daemon);
    let file = session.show(&File::open(&path).unwrap(), false).unwrap();
    assert_eq!(session.read(file, 0, 4096).2, content[..4096]);
    for round in 0..20 {
        content[100] = round;
        both(&path).write_all_at(&content[100..101], 100).unwrap();
        assert_eq!(session.read(file, 0, 4096).2, content[..4096]);
    }
    both(&path).set_len(50).unwrap();
    assert_eq!(session.read(file, 0, 4096).0, 50);
}

#[test]
fn a_file_is_under_a_lease_again_once_its_writers_are_gone() {
    let daemon = Daemon::start();
    let (path, mut content) = sample(&daemon, 2 * BLOCK);
    let mut session = Delegate::new(&daemon);
    let file = session.show(&File::open(&path).unwrap(), false).unwrap();
    assert_eq!(session.read(file, 0, 4096).1, Way::Filled);
    for round in 0..3 {
        let writer = both(&path);
        assert_eq!(session.read(file, 0, 4096).1, Way::Kernel);
        content.truncate(BLOCK + 1000 * round);
        content[50] = round as u8 + 1;
        writer.set_len(content.len() as u64).unwrap();
        writer.write_all_at(&content[50..51], 50).unwrap();
        let (_, way, found) = session.read(file, 0, 4096);
        assert_eq!((way, found), (Way::Kernel, content[..4096].to_vec()));
        drop(writer);
        let mut ways = Vec::new();
        await_that("it is read from the cache", || {
            let (bytes, way, found) = session.read(file, 0, 2 * BLOCK as u32);
            assert_eq!((bytes as usize, found), (content.len(), content.clone()));
            ways.push(way);
            way == Way::Cached
        });
        assert!(ways.contains(&Way::Filled), "what was cached before does not count: {ways:?}");
    }
}

#[test]
fn a_file_that_was_written_when_it_was_opened_is_cached_later() {
    let daemon = Daemon::start();
    let (path, content) = sample(&daemon, BLOCK);
    let writer = both(&path);
    let mut session = Delegate::new(&daemon);
    let file = session.show(&File::open(&path).unwrap(), false).unwrap();
    assert_eq!(session.read(file, 0, 4096).1, Way::Kernel);
    drop(writer);
    await_that("it is cached", || {
        let (_, way, found) = session.read(file, 0, 4096);
        assert_eq!(found, content[..4096]);
        way == Way::Cached
    });
    let close = Operation { object: file, ..blank(3) };
    assert_eq!(session.run(&close).result, 0);
    await_that("the lease is given back", || daemon.status()["leases"] == serde_json::json!([]));
}

#[test]
fn people_see_which_way_each_file_takes_and_why() {
    let daemon = Daemon::start();
    let (path, _) = sample(&daemon, BLOCK);
    let other = daemon.folder().join("other");
    std::fs::write(&other, b"bytes").unwrap();
    let mut session = Delegate::new(&daemon);
    let cached = session.show(&File::open(&path).unwrap(), false).unwrap();
    session.show(&File::open(&path).unwrap(), true).unwrap();
    let written = session.show(&both(&other), false).unwrap();
    (0..3).for_each(|_| assert_eq!(session.read(cached, 0, 4096).0, 4096));
    assert_eq!(session.write(OpKind::Write, written, 0, b"12"), 2);
    let pid = std::process::id();
    let explain = || -> serde_json::Value {
        let text = daemon.visit().text(&heliostat_abi::session::record::Request::Explain { pid });
        serde_json::from_str(&text).unwrap()
    };
    let explained = explain();
    let files = &explained["delegated"];
    assert_eq!(files[0]["path"], path.to_str().unwrap());
    let ways = serde_json::json!({
        "filled": { "transfers": 1, "bytes": 4096 }, "cached": { "transfers": 2, "bytes": 8192 },
    });
    assert_eq!(files[0]["ways"], ways);
    let why = |at: usize| files[at]["why"].as_str().unwrap();
    assert!(why(0).contains("cache serves") && why(1).contains("device serves"), "{files}");
    assert!(why(2).contains("opened for writing"), "{files}");
    assert_eq!(files[2]["ways"]["kernel"]["bytes"], 2);
    assert_eq!(explained["delegated_rule"]["direct_from_bytes"], 256 * 1024);
    let _writer = both(&path);
    assert!(explain()["delegated"][0]["why"].as_str().unwrap().contains("since"));
    let close = Operation { object: cached, ..blank(3) };
    assert_eq!(session.run(&close).result, 0);
    await_that("a closed one is told no more", || {
        explain()["delegated"][1]["ways"].get("kernel").is_some()
    });
}

#[test]
fn reads_go_past_the_caches_when_they_are_large_or_the_file_was_opened_so() {
    let daemon = Daemon::start();
    let (path, content) = sample(&daemon, 20 * BLOCK + 10);
    let mut session = Delegate::new(&daemon);
    let file = session.show(&File::open(&path).unwrap(), false).unwrap();
    let (result, way, found) = session.read(file, 4096, 1 << 20);
    assert_eq!((result, way), (1 << 20, Way::Direct));
    assert_eq!(found, content[4096..4096 + (1 << 20)]);
    let (result, _, found) = session.read(file, 16 * BLOCK as u64, 1 << 20);
    assert_eq!((result, found), (4 * BLOCK as i64 + 10, content[16 * BLOCK..].to_vec()));
    let direct = session.show(&File::open(&path).unwrap(), true).unwrap();
    let (_, way, found) = session.read(direct, 8192, 4096);
    assert_eq!((way, found), (Way::Direct, content[8192..12288].to_vec()));
    assert_eq!(session.read(direct, 8192, 4095).0, -i64::from(libc::EINVAL));
    assert_eq!(session.read(direct, 1, 4096).0, -i64::from(libc::EINVAL));
}

#[test]
fn pieces_are_filled_in_order_by_every_way() {
    let daemon = Daemon::start();
    let (path, content) = sample(&daemon, 2 * BLOCK);
    let mut session = Delegate::new(&daemon);
    let cached = session.show(&File::open(&path).unwrap(), false).unwrap();
    let kernel = session.show(&both(&path), false).unwrap();
    for (file, way) in [(cached, Way::Kernel), (kernel, Way::Kernel)] {
        let list = pieces(&[(9000, 100), (5000, 3), (BLOCK as u64 * 3, 70_000)]);
        let asked = Operation { pieces: list, ..read(file, 50, 1, 8) };
        let completion = session.run(&asked);
        assert_eq!((completion.result, completion.way), (70_103, way));
        let mut found = vec![0; 70_103];
        session.window.copy_out(9000, &mut found[..100]).unwrap();
        session.window.copy_out(5000, &mut found[100..103]).unwrap();
        session.window.copy_out(BLOCK * 3, &mut found[103..]).unwrap();
        assert_eq!(found, content[50..50 + 70_103]);
    }
}

#[test]
fn writes_appends_and_fsyncs_do_what_they_say_in_order() {
    let daemon = Daemon::start();
    let (path, _) = sample(&daemon, 10);
    let mut session = Delegate::new(&daemon);
    let file = session.show(&both(&path), false).unwrap();
    assert_eq!(session.write(OpKind::Write, file, 4, b"HELLO"), 5);
    assert_eq!(session.write(OpKind::Append, file, 0, b"end"), 3);
    assert_eq!(session.run(&Operation { kind: OpKind::Fsync, object: file, ..blank(9) }).result, 0);
    assert_eq!(std::fs::read(&path).unwrap(), b"\0\0\0\0HELLO\x01end");
    // All in one batch: each overwrites what the one before wrote.
    for tag in 0..50 {
        let at = 100 + tag * 10;
        session.window.copy_in(at as usize, format!("{tag:010}").as_bytes()).unwrap();
        let list = pieces(&[(at, 10)]);
        let write = Operation { kind: OpKind::Write, object: file, pieces: list, ..blank(tag) };
        session.submit(&write);
    }
    let tags: Vec<u64> = (0..50).map(|_| session.next().tag).collect();
    assert_eq!(tags, (0..50).collect::<Vec<u64>>());
    assert_eq!(std::fs::read(&path).unwrap()[..10], *b"0000000049");
    let reader = session.show(&File::open(&path).unwrap(), false).unwrap();
    assert_eq!(session.write(OpKind::Write, reader, 0, b"x"), -i64::from(libc::EBADF));
}

#[test]
fn a_file_is_described_and_closed_and_its_name_is_not_used_again() {
    let daemon = Daemon::start();
    let (path, content) = sample(&daemon, 5000);
    let mut session = Delegate::new(&daemon);
    let file = session.open(path.to_str().unwrap(), READ).unwrap();
    let stat =
        Operation { kind: OpKind::Stat, object: file, pieces: pieces(&[(64, 64)]), ..blank(1) };
    assert_eq!(session.run(&stat).result, 0);
    let mut facts = [0; FACTS_BYTES];
    session.window.copy_out(64, &mut facts).unwrap();
    let (facts, truth) = (Facts::decode(&facts), std::fs::metadata(&path).unwrap());
    assert_eq!((facts.size, facts.inode, facts.mode), (5000, truth.ino(), truth.mode()));
    assert_eq!(facts.modified, (truth.mtime(), truth.mtime_nsec() as u32));
    assert_eq!(session.read(file, 0, 5000).2, content);
    let close = Operation { object: file, ..blank(2) };
    assert_eq!(session.run(&close).result, 0);
    let bad = -i64::from(libc::EBADF);
    assert_eq!((session.run(&close).result, session.read(file, 0, 1).0), (bad, bad));
    for _ in 0..300 {
        let again = session.open(path.to_str().unwrap(), READ).unwrap();
        assert_ne!(again, file);
        assert_eq!(session.run(&Operation { object: again, ..blank(2) }).result, 0);
    }
    assert_eq!(session.read(file, 0, 1).0, bad);
}

#[test]
fn names_are_opened_as_the_user_may_and_the_rules_allow() {
    let daemon = Daemon::start();
    let (path, _) = sample(&daemon, 10);
    let mut session = Delegate::new(&daemon);
    let mut open = |name: &str, access| session.open(name, access).err().map(|errno| errno as i32);
    assert_eq!(open(path.to_str().unwrap(), READ | WRITE), None);
    assert_eq!(open("/no/such/file", READ), Some(libc::ENOENT));
    assert_eq!(open("sample", READ), Some(libc::EINVAL));
    assert_eq!(open("/tmp/a\0b", READ), Some(libc::EINVAL));
    assert_eq!(open("/proc/self/status", READ), Some(libc::EOPNOTSUPP));
    assert_eq!(open(daemon.folder().to_str().unwrap(), READ), Some(libc::EINVAL));
    let names = format!("/file{}/*", place().display());
    let rule =
        format!("[[rule]]\naction = \"deny\"\nrights = [\"write\"]\nnames = [\"{names}\"]\n");
    let daemon = Daemon::with(&rule, &[]);
    let (path, _) = sample(&daemon, 10);
    let mut session = Delegate::new(&daemon);
    let mut open = |access| session.open(path.to_str().unwrap(), access).err();
    assert_eq!((open(READ), open(WRITE)), (None, Some(i64::from(libc::EACCES))));
}

#[test]
fn many_sessions_that_read_one_set_read_the_device_once() {
    let daemon = Daemon::start();
    let (path, content) = sample(&daemon, 20 * BLOCK);
    let mut sessions: Vec<_> = (0..6).map(|_| Delegate::new(&daemon)).collect();
    let files: Vec<ObjectId> = sessions
        .iter_mut()
        .map(|it| it.show(&File::open(&path).unwrap(), false).unwrap())
        .collect();
    for at in (0..content.len()).step_by(BLOCK / 2) {
        for (session, file) in sessions.iter_mut().zip(&files) {
            session.submit(&read(*file, at as u64, BLOCK as u32 / 2, at as u64));
        }
        for session in &mut sessions {
            assert_eq!(session.next().result, BLOCK as i64 / 2);
            let mut found = vec![0; BLOCK / 2];
            session.window.copy_out(0, &mut found).unwrap();
            assert_eq!(found, content[at..at + BLOCK / 2]);
        }
    }
    assert_eq!(status(&daemon, "blocks_filled"), 20);
}

#[test]
fn where_copies_go_around_the_cache_is_measured_at_the_start_or_configured() {
    let measured = Daemon::start().status()["copies"].clone();
    let samples = measured["measured"].as_array().unwrap();
    assert!(!samples.is_empty() && samples.iter().all(|it| it["around_ns"].as_f64() > Some(0.0)));
    let configured = Daemon::with("[delegated]\ncopy_around_bytes = 65536\n", &[]);
    let copies = configured.status()["copies"].clone();
    assert_eq!(
        (copies["around_from_bytes"].as_u64(), copies["measured"][0].is_null()),
        (Some(65536), true)
    );
    // What is read around the cache is what the file holds.
    let (path, content) = sample(&configured, 1 << 20);
    let mut session = Delegate::new(&configured);
    let file = session.open(path.to_str().unwrap(), READ | BUFFERED).unwrap();
    for _ in 0..2 {
        let (result, _, bytes) = session.read(file, 4096, 900_000);
        assert_eq!((result, bytes == content[4096..904_096]), (900_000, true));
    }
}
