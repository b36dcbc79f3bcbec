//! Delegated operations of clients that lie, stall and die.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use crate::support::delegated::*;
use crate::support::*;
use heliostat_abi::code::Code;
use heliostat_abi::file::delegated::*;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_base::mapping::SharedMapping;

const EINVAL: i64 = -(libc::EINVAL as i64);

#[test]
fn forged_records_are_answered_and_harm_nobody() {
    let daemon = Daemon::start();
    let path = sample(&daemon, 100_000);
    let mut session = Delegate::new(&daemon);
    let file = session.show(&File::open(&path).unwrap(), false).unwrap();
    let mut good = [0; OPERATION_BYTES_MAX];
    let length = read(file, 0, 4096, 42).encode(&mut good);
    let mut answered = 0;
    for at in 0..length {
        for bit in 0..8 {
            let mut record = good[..length].to_vec();
            record[at] ^= 1 << bit;
            session.push(&record);
            session.next();
            answered += 1;
        }
    }
    assert_eq!(answered, 8 * 56);
    for end in [u64::MAX, WINDOW as u64, WINDOW as u64 - 4095] {
        let outside = Operation { pieces: pieces(&[(end, 4096)]), ..read(file, 0, 1, 9) };
        assert_eq!(session.run(&outside).result, EINVAL, "{end}");
    }
    session.push(&good[..length - 1]);
    assert_eq!(session.next(), Completion { tag: 42, result: EINVAL, ..Default::default() });
    assert_eq!(session.read(file, 0, 4096).0, 4096);
    assert!(daemon.status()["delegated"]["malformed"].as_u64().unwrap() > 100);
    session.push(&[0; 39]);
    await_that("a record without a tag ends the session", || session.client.is_ended());
    serves(&daemon);
}

#[test]
fn a_corrupt_ring_ends_its_session_only() {
    let daemon = Daemon::start();
    let mut session = Delegate::new(&daemon);
    let rings = SharedMapping::from_fd(
        session.rings.as_raw_fd(),
        RING_BYTES,
        heliostat_base::mapping::Access::ReadWrite,
    );
    let rings = rings.unwrap();
    // The first element's header, and then an element to look at it.
    rings.atomic_u64(4096).store(u64::MAX, std::sync::atomic::Ordering::SeqCst);
    session.submissions.ring();
    await_that("the session is ended", || session.client.is_ended());
    serves(&daemon);
}

#[test]
fn only_sealed_memory_is_a_window_and_a_session_has_one() {
    let daemon = Daemon::start();
    let (mut client, _) = daemon.session();
    let plain = File::open("/dev/zero").unwrap();
    assert_eq!(
        client.refusal(&Request::Delegate { members: 0 }, &[plain.as_raw_fd()]),
        Code::BadRecord
    );
    let path = sample(&daemon, 4096);
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    assert_eq!(
        client.refusal(&Request::Delegate { members: 0 }, &[file.as_raw_fd()]),
        Code::BadRecord
    );
    let show = Request::ShowFile { tag: 1, direct: false, buffered: false };
    assert_eq!(client.refusal(&show, &[file.as_raw_fd()]), Code::BadState);
    let (fd, _window) = SharedMapping::create(c"window", 8192).unwrap();
    let reply = client.ask_with(&Request::Delegate { members: 0 }, &[fd.as_raw_fd()]).0;
    assert!(matches!(reply, Reply::Delegated { .. }));
    assert_eq!(
        client.refusal(&Request::Delegate { members: 0 }, &[fd.as_raw_fd()]),
        Code::BadState
    );
    assert_eq!(client.ask(&Request::EndDelegate).0, Reply::Done);
    let reply = client.ask_with(&Request::Delegate { members: 0 }, &[fd.as_raw_fd()]).0;
    assert!(matches!(reply, Reply::Delegated { .. }));
}

#[test]
fn limits_of_the_configuration_hold() {
    let config = "[delegated]\nsessions = 1\nwindow_bytes = 4194304\n";
    let daemon = Daemon::with(config, &[]);
    let _first = Delegate::new(&daemon);
    let (mut client, _) = daemon.session();
    let (fd, _window) = SharedMapping::create(c"window", 8192).unwrap();
    assert_eq!(client.refusal(&Request::Delegate { members: 0 }, &[fd.as_raw_fd()]), Code::Full);
    let daemon = Daemon::with("[delegated]\nwindow_bytes = 1048576\n", &[]);
    let (mut client, _) = daemon.session();
    let (fd, _window) = SharedMapping::create(c"window", 2 << 20).unwrap();
    assert_eq!(client.refusal(&Request::Delegate { members: 0 }, &[fd.as_raw_fd()]), Code::Full);
    let daemon = Daemon::with("[delegated]\nsessions = 0\n", &[]);
    let (mut client, _) = daemon.session();
    assert_eq!(client.refusal(&Request::Delegate { members: 0 }, &[fd.as_raw_fd()]), Code::Denied);
}

#[test]
fn one_that_never_takes_its_completions_stalls_itself_only() {
    let daemon = Daemon::start();
    let path = sample(&daemon, 4096);
    let mut session = Delegate::new(&daemon);
    let file = session.show(&File::open(&path).unwrap(), false).unwrap();
    let mut record = [0; OPERATION_BYTES_MAX];
    let mut submitted = 0;
    // Until the submission ring is full as well.
    let mut full = 0;
    while full < 50 {
        let length = read(file, 0, 16, submitted).encode(&mut record);
        match session.submissions.push(&record[..length]) {
            Ok(()) => submitted += 1,
            Err(_) => {
                full += 1;
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
    }
    serves(&daemon);
    let mut tags: Vec<u64> = Vec::new();
    while (tags.len() as u64) < submitted {
        let Completion { tag, result, .. } = session.next();
        assert_eq!(result, 16);
        tags.push(tag);
        session.submissions.ring();
    }
    tags.sort_unstable();
    assert_eq!(tags, (0..submitted).collect::<Vec<u64>>());
}

#[test]
fn files_are_limited_and_stale_ones_refused() {
    let daemon = Daemon::start();
    let path = sample(&daemon, 4096);
    let mut session = Delegate::new(&daemon);
    let file = File::open(&path).unwrap();
    let all: Vec<ObjectId> =
        (0..OBJECTS_MAX).map(|_| session.show(&file, false).unwrap()).collect();
    assert_eq!(session.show(&file, false), Err(i64::from(libc::EMFILE)));
    assert_eq!(session.run(&Operation { object: all[7], ..blank(1) }).result, 0);
    let again = session.show(&file, false).unwrap();
    assert_eq!((again.index, again.generation), (all[7].index, all[7].generation + 1));
    assert_eq!(session.read(all[7], 0, 1).0, -i64::from(libc::EBADF));
    assert_eq!(session.read(again, 0, 1).0, 1);
}

#[test]
fn cancelled_and_late_operations_end_with_their_own_error() {
    let config = "[delegated]\noperations_per_second = 1\n";
    let daemon = Daemon::with(config, &[]);
    let path = sample(&daemon, 4096);
    let mut session = Delegate::new(&daemon);
    let file = session.show(&File::open(&path).unwrap(), false).unwrap();
    // One for the full bucket, and one that puts it into debt.
    assert_eq!((session.read(file, 0, 16).0, session.read(file, 0, 16).0), (16, 16));
    session.submit(&read(file, 0, 16, 1));
    session.submit(&Operation { timeout_us: 20_000, ..read(file, 0, 16, 2) });
    session.submit(&Operation { kind: OpKind::Cancel, argument: 1, ..blank(3) });
    session.submit(&Operation { kind: OpKind::Cancel, argument: 77, ..blank(4) });
    let mut found: Vec<_> = (0..4).map(|_| session.next()).map(|it| (it.tag, it.result)).collect();
    found.sort_unstable();
    let errno = |number: i32| -i64::from(number);
    let wanted = [
        (1, errno(libc::ECANCELED)),
        (2, errno(libc::ETIMEDOUT)),
        (3, 0),
        (4, errno(libc::ENOENT)),
    ];
    assert_eq!(found, wanted);
    // After its tokens have come back.
    assert_eq!(session.read(file, 0, 16).0, 16);
}

#[test]
fn nothing_stays_of_clients_that_die_with_operations_under_way() {
    let daemon = Daemon::start();
    let path = sample(&daemon, 8 << 20);
    serves(&daemon);
    let before = daemon.descriptors();
    for round in 0..10 {
        let mut session = Delegate::new(&daemon);
        let direct = session.show(&File::open(&path).unwrap(), true).unwrap();
        let cached = session.show(&File::open(&path).unwrap(), false).unwrap();
        let writer = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let written = session.show(&writer, false).unwrap();
        for tag in 0..20 {
            session.submit(&read(direct, tag * 65536, 1 << 20, tag));
            session.submit(&read(cached, (tag * 37 + round) % 100 * 65536, 1000, tag));
            let write = Operation { kind: OpKind::Write, ..read(written, tag * 100, 100, tag) };
            session.submit(&write);
        }
        drop(session);
    }
    await_that("everything is closed", || daemon.descriptors() <= before);
    assert_eq!(daemon.status()["delegated"]["sessions"], 0);
    serves(&daemon);
}

#[test]
fn names_and_data_that_change_under_the_server_are_harmless() {
    let daemon = Daemon::start();
    let path = sample(&daemon, 4096);
    let secret = daemon.folder().join("secret");
    std::fs::write(&secret, b"secret").unwrap();
    let mut session = Delegate::new(&daemon);
    let names = [path.to_str().unwrap().to_owned(), secret.to_str().unwrap().to_owned()];
    let length = names[0].len().min(names[1].len()) as u32;
    for round in 0..200_u64 {
        for (tag, name) in [names[0].as_bytes(), names[1].as_bytes()].into_iter().enumerate() {
            session.window.copy_in(0, name).unwrap();
            let pieces = pieces(&[(0, length)]);
            let kind = OpKind::Open;
            session.submit(&Operation { kind, argument: READ, pieces, ..blank(tag as u64) });
        }
        for _ in 0..2 {
            if let Ok(object) = id_of(session.next()) {
                session.submit(&Operation { object, ..blank(round) });
                // Closes and opens may come in any order.
            }
        }
        while session.completions.take().is_ok() {}
    }
    serves(&daemon);
}

#[test]
fn a_writer_that_wants_a_cached_file_is_let_through() {
    let daemon = Daemon::start();
    let path = sample(&daemon, 100_000);
    let mut session = Delegate::new(&daemon);
    let file = session.show(&File::open(&path).unwrap(), false).unwrap();
    assert_eq!(session.read(file, 0, 16).2, [5; 16]);
    // By the server itself, which holds the lease.
    let written = session.open(path.to_str().unwrap(), READ | WRITE).unwrap();
    assert_eq!(session.write(OpKind::Write, written, 0, b"new"), 3);
    assert_eq!(session.read(file, 0, 3).2, b"new");
    let outside = OpenOptions::new().write(true).open(&path).unwrap();
    outside.write_all_at(b"newer", 0).unwrap();
    assert_eq!(session.read(file, 0, 5).2, b"newer");
}
