//! The session with a control plane that refuses, falls silent and comes back.

mod support;

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use heliostat_abi::code::{Code, Native};
use heliostat_abi::limits::CONTROL_DEADLINE_MS;
use heliostat_abi::name::NetAddress;
use heliostat_abi::session::record::Request;
use heliostat_base::sys::Errno;
use heliostat_client::{session, ControlError};
use heliostat_stub_posix::net::requests;
use support::pair::Listener;
use support::{control, until_standing};

/// The session is the process's only one: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    control().is_silent.store(false, SeqCst);
    *control().refusal.lock().unwrap() = None;
    until_standing();
    guard
}

fn opens() -> usize {
    let asked = control().asked.lock().unwrap();
    asked.iter().filter(|request| matches!(request, Request::Open { .. })).count()
}

fn nobody() -> NetAddress {
    NetAddress::new("127.0.0.1:1".parse().unwrap())
}

#[test]
fn one_session_serves_every_request() {
    let _alone = alone();
    let (first, second) = (session::standing().unwrap(), session::standing().unwrap());
    assert_eq!((first.epoch, first.id), (second.epoch, second.id));
    assert!(session::check_alive());
}

#[test]
fn a_refusal_is_told_by_its_reason() {
    let _alone = alone();
    let reasons = [
        (Code::NotFound, Native::PeerNotOurs),
        (Code::Denied, Native::Denied),
        (Code::Full, Native::Full),
        (Code::Revoked, Native::Revoked),
        (Code::Internal, Native::NoControl),
    ];
    for (code, reason) in reasons {
        *control().refusal.lock().unwrap() = Some(code);
        assert_eq!(requests::open(nobody()).err(), Some(reason));
    }
}

#[test]
fn a_refused_address_is_asked_for_again_only_when_somebody_starts_to_listen() {
    let _alone = alone();
    let listener = Listener::new();
    *control().refusal.lock().unwrap() = Some(Code::Denied);
    let before = opens();
    let native = [listener.connect(), listener.connect(), listener.connect()];
    assert!(native.iter().all(|end| !end.is_direct()));
    assert_eq!(opens(), before + 1);
    *control().refusal.lock().unwrap() = None;
    let _other = Listener::new();
    assert!(listener.connect().is_direct());
}

#[test]
fn a_silent_control_plane_costs_its_deadline_once_and_is_left_alone_for_a_while() {
    let _alone = alone();
    let before = session::standing().unwrap().epoch;
    control().is_silent.store(true, SeqCst);
    let began = Instant::now();
    assert_eq!(requests::open(nobody()).err(), Some(Native::NoControl));
    assert!(began.elapsed() >= Duration::from_millis(CONTROL_DEADLINE_MS / 2));
    // Until the pause is over nobody waits, and nothing is asked.
    let lost = Instant::now();
    let asked = control().asked.lock().unwrap().len();
    assert_eq!(requests::open(nobody()).err(), Some(Native::NoControl));
    assert_eq!(session::standing().err(), Some(ControlError::Broken(Errno(libc::EAGAIN))));
    let is_over = lost.elapsed() > Duration::from_millis(150);
    assert!(is_over || control().asked.lock().unwrap().len() == asked);
    control().is_silent.store(false, SeqCst);
    until_standing();
    assert!(session::standing().unwrap().epoch > before);
}

#[test]
fn the_number_of_the_control_socket_is_given_up_when_the_program_wants_it() {
    let _alone = alone();
    let own = session::control_fd().unwrap() as i32;
    assert!(session::owns(own) && !session::owns(own + 1));
    assert_eq!(
        heliostat_stub_posix::process::closing(own),
        heliostat_stub_posix::fail(libc::EBADF)
    );
    session::vacate(own + 1);
    assert!(session::owns(own));
    session::vacate(own);
    assert!(!session::owns(own) && session::control_fd().is_none());
}

#[test]
fn a_range_to_be_closed_goes_around_the_control_socket() {
    let _alone = alone();
    let own = session::control_fd().unwrap();
    let around = heliostat_stub_posix::process::closing_range(own - 1, own + 5);
    assert_eq!(around, [(own - 1, own - 1), (own + 1, own + 5)]);
    assert_eq!(heliostat_stub_posix::process::closing_range(own, own), []);
}
