//! What sessions may cost others: names that wait, descriptors, locks of files that were shown.

use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::delegated::*;
use crate::support::*;
use heliostat_abi::file::delegated::*;
use heliostat_abi::session::record::{Reply, Request};
use rustix::fs::{flock, FlockOperation};
use rustix::process::{prlimit, Pid, Resource, Rlimit};

/// How long a name is asked for again that somebody keeps.
const PATIENCE: Duration = Duration::from_millis(200);

fn open_of(name: &str, tag: u64) -> Operation {
    Operation {
        kind: OpKind::Open,
        argument: READ,
        pieces: pieces(&[(0, name.len() as u32)]),
        ..blank(tag)
    }
}

/// Has the kernel keep a file from everybody who opens it, until the end of the value.
fn keep_from_all(path: &Path) -> File {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    // SAFETY: numbers alone; nobody here waits for the signal of a break.
    let answer = unsafe {
        libc::signal(libc::SIGIO, libc::SIG_IGN);
        libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK)
    };
    assert_eq!(answer, 0);
    file
}

/// A session whose window begins with the name of a file that is kept from all.
fn with_kept_name(daemon: &Daemon) -> (File, String, Delegate) {
    let path = sample(daemon, 100);
    let kept = keep_from_all(&path);
    let name = path.to_str().unwrap().to_owned();
    let session = Delegate::new(daemon);
    session.window.copy_in(0, name.as_bytes()).unwrap();
    (kept, name, session)
}

/// Wants a name so many times at once, then cancels; how often it was refused before its time was up.
fn want_and_cancel(session: &mut Delegate, name: &str, tags: Range<u64>) -> usize {
    let cancel = |argument| Operation { kind: OpKind::Cancel, argument, ..blank(0) };
    let asked = Instant::now();
    tags.clone().for_each(|tag| session.submit(&open_of(name, tag)));
    // One that is taken together with its end is never wanted, so that the ends come after this.
    session.submit(&cancel(u64::MAX));
    let before: Vec<_> =
        std::iter::repeat_with(|| session.next()).take_while(|it| it.tag != 0).collect();
    let is_refused = |it: &&Completion| it.result == -i64::from(libc::EAGAIN);
    let refused = before.iter().filter(is_refused).count();
    let refused = if asked.elapsed() < PATIENCE { refused } else { 0 };
    let left = 2 * (tags.end - tags.start) as usize - before.len();
    tags.for_each(|tag| session.submit(&cancel(tag)));
    for _ in 0..left {
        session.next();
    }
    refused
}

#[test]
fn names_that_were_cancelled_count_until_they_are_opened() {
    const AT_ONCE: u64 = 100;
    let daemon = Daemon::start();
    let (_kept, name, mut session) = with_kept_name(&daemon);
    let (mut refused, mut wanted) = (0, 0);
    await_that("names are refused", || {
        refused += want_and_cancel(&mut session, &name, wanted + 1..wanted + 1 + AT_ONCE);
        wanted += AT_ONCE;
        refused >= 40
    });
    assert!(wanted > DEPTH_MAX as u64, "{wanted} were enough");
    serves(&daemon);
}

/// A connection that ends its delegation and begins another has names in line anew each time.
#[test]
fn names_of_delegations_that_have_ended_hold_no_descriptors() {
    let daemon = Daemon::start();
    let (_kept, name, mut session) = with_kept_name(&daemon);
    let count = || std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap().count();
    let (before, mut most) = (count(), 0);
    for _ in 0..30 {
        session.window.copy_in(0, name.as_bytes()).unwrap();
        (1..=DEPTH_MAX as u64).for_each(|tag| session.submit(&open_of(&name, tag)));
        // The control plane hears of them meanwhile.
        let until = Instant::now() + Duration::from_millis(5);
        while Instant::now() < until {
            most = most.max(count());
        }
        let Delegate { mut client, welcome, .. } = session;
        assert_eq!(client.ask(&Request::EndDelegate).0, Reply::Done);
        session = Delegate::with(client, welcome);
    }
    // What one delegation has, and what openers' threads do at the moment.
    assert!(most < before + 100, "{before} descriptors became {most}");
    serves(&daemon);
}

#[test]
fn a_name_that_waits_for_a_lease_delays_nobody_else() {
    let daemon = Daemon::start();
    let (_kept, name, mut session) = with_kept_name(&daemon);
    let honest = daemon.folder().join("honest");
    write_file(&honest, b"honest");
    let mut other = Delegate::new(&daemon);
    let asked = Instant::now();
    (0..100).for_each(|tag| session.submit(&open_of(&name, tag)));
    other.open(honest.to_str().unwrap(), READ).unwrap();
    // Its own are still waiting, unless this machine held all of this up for so long.
    let is_waiting = session.completions.take().is_err();
    assert!(is_waiting || asked.elapsed() >= PATIENCE);
    assert_eq!(session.next().result, -i64::from(libc::EAGAIN));
}

#[test]
fn an_open_gets_its_own_file_whatever_its_tag_was_before() {
    let daemon = Daemon::start();
    let kept = sample(&daemon, 100);
    let other = daemon.folder().join("better");
    write_file(&other, b"another");
    let lease = keep_from_all(&kept);
    let mut session = Delegate::new(&daemon);
    let (first, second) = (kept.to_str().unwrap(), other.to_str().unwrap());
    session.window.copy_in(0, first.as_bytes()).unwrap();
    session.submit(&open_of(first, 7));
    session.submit(&Operation { kind: OpKind::Cancel, argument: 7, ..blank(8) });
    let _cancelled = [session.next(), session.next()];
    // Kept as well, so that the first one is opened before it.
    let lease = (lease, keep_from_all(&other));
    session.window.copy_in(0, second.as_bytes()).unwrap();
    session.submit(&open_of(second, 7));
    drop(lease);
    let file = id_of(session.next()).unwrap();
    assert_eq!(session.read(file, 0, 100).2, b"another");
}

#[test]
fn who_may_only_append_appends() {
    let daemon = Daemon::start();
    let path = sample(&daemon, 4);
    let mut session = Delegate::new(&daemon);
    let log = OpenOptions::new().append(true).open(&path).unwrap();
    let file = session.show(&log, false).unwrap();
    assert_eq!(session.write(OpKind::Write, file, 0, b"more"), 4);
    assert_eq!(std::fs::read(&path).unwrap(), [5, 5, 5, 5, b'm', b'o', b'r', b'e']);
}

#[test]
fn files_of_sessions_leave_descriptors_for_everybody_else() {
    let daemon = Daemon::start();
    let few = Rlimit { current: Some(400), maximum: Some(400) };
    prlimit(Pid::from_raw(daemon.pid() as i32), Resource::Nofile, few).unwrap();
    let path = sample(&daemon, 4096);
    let file = File::open(&path).unwrap();
    let mut sessions: Vec<_> = (0..3).map(|_| Delegate::new(&daemon)).collect();
    let mut show = |session: &mut Delegate| {
        (0..40).filter(|_| session.show(&file, false) == Err(i64::from(libc::ENFILE))).count()
    };
    let refused: usize = sessions.iter_mut().map(&mut show).sum();
    assert_eq!(refused, 3 * 40 - 400 / 8);
    drop(sessions);
    serves(&daemon);
}

#[test]
fn a_shown_file_keeps_no_lock_of_its_program() {
    let daemon = Daemon::start();
    let path = sample(&daemon, 4096);
    let (mut client, _) = daemon.session();
    let second = File::open(&path).unwrap();
    let _guard = no_starts();
    for _ in 0..200 {
        let locked = File::open(&path).unwrap();
        flock(&locked, FlockOperation::NonBlockingLockExclusive).unwrap();
        let reply = client.ask_with(&Request::Lease, &[locked.as_raw_fd()]).0;
        assert!(matches!(reply, Reply::Leased { .. }));
        drop(locked);
        flock(&second, FlockOperation::NonBlockingLockShared).unwrap();
        flock(&second, FlockOperation::Unlock).unwrap();
    }
}
