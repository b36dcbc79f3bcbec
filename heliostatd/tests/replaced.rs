//! What a stub knows from one run of the control plane is never said to the next.
//!
//! One test: the stub has one session per process.

mod support;

use std::net::TcpListener;
use std::os::fd::AsRawFd;

use heliostat_client::session;
use heliostat_stub_posix::net::requests;
use support::{await_that, Daemon};

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

#[test]
fn an_address_of_the_last_control_plane_is_not_taken_back_from_the_next() {
    let mut daemon = Daemon::start();
    session::configure(daemon.socket().to_str().unwrap().into(), "test".into());
    let (first, second) = (listener(), listener());
    let (old, _) = requests::listen(first.as_raw_fd()).unwrap();
    let begun = session::standing().unwrap().epoch;

    daemon.restart();
    await_that("the next control plane is greeted", || {
        session::check_alive();
        session::standing().is_ok_and(|standing| standing.epoch > begun)
    });
    let (new, _) = requests::listen(second.as_raw_fd()).unwrap();
    assert_eq!(new, old, "the same name for another address, or this shows nothing");
    requests::unlisten(begun, old);
    assert!(requests::attach(begun, old).is_err());
    let now = session::standing().unwrap().epoch;
    assert!(requests::attach(now, new).is_ok());
    requests::unlisten(now, new);
    assert!(requests::attach(now, new).is_err());
}
