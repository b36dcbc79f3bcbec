//! One connection that delegates more than once, and sessions that may do so no more.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use crate::support::delegated::*;
use crate::support::*;
use heliostat_abi::code::Code;
use heliostat_abi::file::delegated::*;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_base::mapping::SharedMapping;

#[test]
fn leases_end_with_the_delegation_that_had_them() {
    let daemon = Daemon::start();
    let path = sample(&daemon, 4096);
    let mut session = Delegate::new(&daemon);
    let file = session.show(&File::open(&path).unwrap(), false).unwrap();
    assert_eq!(session.read(file, 0, 4096).1, Way::Filled);
    assert_eq!(daemon.status()["leases"].as_array().map(Vec::len), Some(1));
    assert_eq!(session.client.ask(&Request::EndDelegate).0, Reply::Done);
    await_that("it is given back", || daemon.status()["leases"] == serde_json::json!([]));
}

#[test]
fn a_revoked_session_delegates_no_more() {
    let daemon = Daemon::start();
    let mut session = Delegate::new(&daemon);
    let pid = std::process::id();
    assert_eq!(daemon.visit().ask(&Request::Revoke { pid }).0, Reply::Done);
    let (fd, _window) = SharedMapping::create(c"window", WINDOW).unwrap();
    assert_eq!(
        session.client.refusal(&Request::Delegate { members: 0 }, &[fd.as_raw_fd()]),
        Code::Revoked
    );
}

/// A lease of our own that keeps everybody from opening a file.
struct Kept(File);

impl Kept {
    fn new(path: &std::path::Path) -> Kept {
        write_file(path, b"kept");
        let file = File::open(path).unwrap();
        // SAFETY: integers only. The signal of a break is one that is ignored.
        let answers = unsafe {
            let signal = libc::fcntl(file.as_raw_fd(), 10, libc::SIGURG);
            (signal, libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK))
        };
        assert_eq!(answers, (0, 0));
        Kept(file)
    }
}

fn submit_open(session: &mut Delegate, path: &std::path::Path) {
    let name = path.to_str().unwrap();
    session.window.copy_in(0, name.as_bytes()).unwrap();
    let pieces = pieces(&[(0, name.len() as u32)]);
    session.submit(&Operation { kind: OpKind::Open, argument: READ, pieces, ..blank(8) });
}

/// How long a name is asked for again that somebody keeps.
const PATIENCE: Duration = Duration::from_millis(200);

/// The two operations have one place and generation, each in its own session's table.
#[test]
fn a_name_of_the_delegation_before_answers_nothing_of_the_next() {
    let daemon = Daemon::start();
    let (first, second) = (daemon.folder().join("first"), daemon.folder().join("second"));
    let (_never_given, given) = (Kept::new(&first), Kept::new(&second));
    let mut before = Delegate::new(&daemon);
    let start = Instant::now();
    submit_open(&mut before, &first);
    // The first is given up while the second still waits.
    std::thread::sleep(Duration::from_millis(120));
    let Delegate { mut client, welcome, .. } = before;
    assert_eq!(client.ask(&Request::EndDelegate).0, Reply::Done);
    let mut next = Delegate::with(client, welcome);
    let asked = Instant::now();
    submit_open(&mut next, &second);
    std::thread::sleep(Duration::from_millis(230).saturating_sub(start.elapsed()));
    drop(given.0);
    // On a machine that held this thread up the second was given up as well, but not earlier.
    assert!(next.next().result >= 0 || asked.elapsed() >= PATIENCE);
}

#[test]
fn one_that_takes_no_completions_costs_no_processor() {
    let daemon = Daemon::start();
    let path = crate::support::delegated::sample(&daemon, 4096);
    let mut session = Delegate::new(&daemon);
    let file = session.show(&File::open(&path).unwrap(), false).unwrap();
    let mut record = [0; OPERATION_BYTES_MAX];
    let length = read(file, 0, 16, 1).encode(&mut record);
    let (mut submitted, mut full) = (0, 0);
    while full < 50 {
        match session.submissions.push(&record[..length]) {
            Ok(()) => submitted += 1,
            Err(_) => {
                full += 1;
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
    let before = daemon.ticks();
    std::thread::sleep(Duration::from_secs(1));
    let used = daemon.ticks() - before;
    assert!(used < 20, "{used} ticks of a hundred");
    for _ in 0..submitted {
        assert_eq!(session.next().result, 16);
        session.submissions.ring();
    }
}
