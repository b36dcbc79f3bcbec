//! Server loops whose requests are made by threads, where the kernel gives no io_uring.

use std::fs::File;

use crate::support::delegated::*;
use crate::support::*;
use heliostat_abi::code::{Side, Thing};
use heliostat_abi::file::delegated::Way;
use heliostat_abi::session::record::Request;
use heliostat_base::mapping::SharedMapping;

/// Words that one sleep can be on, without the loop's own (futex_waitv(2)).
const SESSIONS_OF_A_LOOP: usize = 127;

fn says(daemon: &Daemon) -> String {
    daemon.status()["delegated"]["requests"].as_str().unwrap().to_owned()
}

fn read_one(daemon: &Daemon) {
    let path = daemon.folder().join("sample");
    std::fs::write(&path, vec![7; 100_000]).unwrap();
    let mut session = Delegate::new(daemon);
    let file = session.show(&File::open(&path).unwrap(), false).unwrap();
    let (bytes, way, content) = session.read(file, 50_000, 4096);
    assert_eq!((bytes, way), (4096, Way::Filled));
    assert!(content.iter().all(|byte| *byte == 7));
    assert_eq!(session.read(file, 50_000, 4096).1, Way::Cached);
}

#[test]
fn a_control_plane_whose_kernel_refuses_io_uring_serves_by_threads_and_says_so() {
    let daemon = Daemon::beneath("", crate::support::filtered::install);
    read_one(&daemon);
    assert_eq!(says(&daemon), "threads");
}

#[test]
fn the_configuration_chooses_the_way_to_the_kernel() {
    let threads = Daemon::with("[delegated]\nrequests = \"threads\"\n", &[]);
    read_one(&threads);
    assert_eq!(says(&threads), "threads");
    if filtered::is_asked_for() || filtered::is_everywhere() {
        return;
    }
    let uring = Daemon::with("[delegated]\nrequests = \"io_uring\"\n", &[]);
    read_one(&uring);
    assert_eq!(says(&uring), "io_uring");
}

#[test]
fn a_loop_on_threads_has_as_many_sessions_as_it_can_sleep_for() {
    let config = "[delegated]\nrequests = \"threads\"\nsessions_per_user = 256\n";
    let daemon = Daemon::with(config, &[]);
    let mut sessions: Vec<_> = (0..SESSIONS_OF_A_LOOP).map(|_| Delegate::new(&daemon)).collect();
    let (mut client, _welcome) = daemon.session();
    let (fd, _window) = SharedMapping::create(c"window", WINDOW).unwrap();
    let raw = std::os::fd::AsRawFd::as_raw_fd(&fd);
    let (reply, _) = client.ask_with(&Request::Delegate { members: 0 }, &[raw]);
    assert_eq!(reply, full(Thing::Delegations, Side::Node, SESSIONS_OF_A_LOOP as u64));
    // All of them sleep, and then each is heard.
    let sleeps = || daemon.status()["delegated"]["loops"][0]["sleeps"].as_u64().unwrap();
    await_that("the loop sleeps", || sleeps() > 0);
    let before = daemon.ticks();
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(daemon.ticks() - before < 10, "all are parked, and it does not sleep");
    let path = daemon.folder().join("sample");
    std::fs::write(&path, [5; 100]).unwrap();
    for session in &mut sessions {
        let file = session.show(&File::open(&path).unwrap(), false).unwrap();
        assert_eq!(session.read(file, 0, 100).0, 100);
    }
}
