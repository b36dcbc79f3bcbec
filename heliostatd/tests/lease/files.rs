//! Leases on files: who gets one, and that no writer comes by while its word says Active.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::delegated::{blank, Delegate};
use crate::support::files::*;
use crate::support::*;
use heliostat_abi::code::{Code, Unmapped};
use heliostat_abi::file::delegated::Operation;
use heliostat_abi::session::node::State;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_base::alive;
use heliostat_base::call::fcntl;
use rustix::process::Signal;

#[test]
fn two_sessions_share_the_lease_of_one_file() {
    let daemon = Daemon::start();
    let sample = Sample::new(&daemon, "file");
    let (mut one, welcome) = daemon.session();
    let (mut other, _) = daemon.session();
    let before = daemon.descriptors();
    let (first, bytes, fd) = lease(&mut one, &sample.reader()).unwrap();
    let (second, _, _) = lease(&mut other, &sample.reader()).unwrap();
    assert_eq!((first, bytes), (second, BYTES as u64));
    assert_eq!(state(&welcome, first), State::Active);
    let opened = File::from(std::os::fd::OwnedFd::from(fd)).metadata().unwrap();
    assert_eq!(opened.ino(), sample.reader().metadata().unwrap().ino());
    await_that("what was shown is closed", || daemon.descriptors() == before + 1);
    assert_eq!(one.ask(&Request::EndLease { lease: first }).0, Reply::Done);
    assert_eq!(state(&welcome, first), State::Active);
    drop(other);
    await_that("nobody holds it", || state(&welcome, first) == State::Free);
    await_that("its descriptor is closed", || daemon.descriptors() == before - 2);
}

/// Someone else's doing to a leased file must be held up until its word is Revoked, and no longer.
fn is_revoked_before(change: impl Fn(&Path) + Send + Sync + 'static) {
    let daemon = Daemon::start();
    let sample = Sample::new(&daemon, "file");
    let (mut client, welcome) = daemon.session();
    let (welcome, change) = (Arc::new(welcome), Arc::new(change));
    for _ in 0..5 {
        let lease = lease_at_last(&mut client, &sample.reader());
        assert_eq!(state(&welcome, lease), State::Active);
        let (path, welcome) = (sample.0.clone(), Arc::clone(&welcome));
        let change = Arc::clone(&change);
        let changed = std::thread::spawn(move || {
            let start = Instant::now();
            change(&path);
            (state(&welcome, lease), start.elapsed())
        });
        let (after, took) = changed.join().unwrap();
        assert_eq!(after, State::Revoked);
        // The kernel would have let it go on by itself after 45 s.
        assert!(took < Duration::from_secs(40), "{took:?}");
        std::fs::write(&sample.0, vec![8; BYTES]).unwrap();
    }
}

#[test]
fn an_open_for_writing_waits_for_the_word() {
    is_revoked_before(|path| drop(OpenOptions::new().append(true).open(path).unwrap()));
}

#[test]
fn a_truncation_by_path_waits_for_the_word() {
    is_revoked_before(|path| {
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: a path that ends with a zero byte, alive for the whole call.
        assert_eq!(unsafe { libc::truncate(path.as_ptr(), 5) }, 0);
    });
}

#[test]
fn the_life_word_changes_with_the_control_planes_death() {
    let mut daemon = Daemon::start();
    let sample = Sample::new(&daemon, "file");
    let (mut client, welcome) = daemon.session();
    let remembered = life(&welcome);
    assert!(alive::is_kept(remembered));
    let (lease, _, _) = lease(&mut client, &sample.reader()).unwrap();
    // Its successor has no lease: what was mapped under the first one must not be believed.
    daemon.restart();
    assert_eq!(state(&welcome, lease), State::Active);
    assert_ne!(life(&welcome), remembered);
    drop(sample.writer());
}

#[test]
fn an_orderly_end_revokes_every_lease() {
    let mut daemon = Daemon::start();
    let sample = Sample::new(&daemon, "file");
    let (mut client, welcome) = daemon.session();
    let (lease, _, _) = lease(&mut client, &sample.reader()).unwrap();
    daemon.signal(Signal::TERM);
    await_that("it ends", || daemon.ended().is_some());
    assert_eq!(state(&welcome, lease), State::Revoked);
    assert!(!alive::is_kept(life(&welcome)));
}

#[test]
fn what_somebody_may_write_is_not_leased() {
    let daemon = Daemon::start();
    let sample = Sample::new(&daemon, "file");
    let (mut client, _) = daemon.session();
    let _guard = no_starts();
    let writer = sample.writer();
    assert_eq!(lease(&mut client, &sample.reader()).err(), Some(Unmapped::Written));
    drop(writer);
    lease(&mut client, &sample.reader()).unwrap();
}

#[test]
fn what_is_no_file_open_for_reading_is_refused_with_its_reason() {
    let daemon = Daemon::start();
    let sample = Sample::new(&daemon, "file");
    let (mut client, _) = daemon.session();
    let before = daemon.descriptors();
    let mut reason = |file: &File| lease(&mut client, file).err();
    let both = OpenOptions::new().read(true).write(true).open(&sample.0).unwrap();
    assert_eq!(reason(&both), Some(Unmapped::Writable));
    assert_eq!(reason(&sample.writer()), Some(Unmapped::Writable));
    let open = |path: &str| File::open(path).unwrap();
    assert_eq!(reason(&open("/proc/self/status")), Some(Unmapped::FileSystem));
    assert_eq!(reason(&open("/dev/null")), Some(Unmapped::FileSystem));
    assert_eq!(reason(&open("/tmp")), Some(Unmapped::NotRegular));
    let pipe = File::from(std::os::fd::OwnedFd::from(std::io::pipe().unwrap().0));
    assert_eq!(reason(&pipe), Some(Unmapped::NotRegular));
    await_that("they are closed", || daemon.descriptors() == before);
}

#[test]
fn a_lease_is_its_holders_alone() {
    let daemon = Daemon::start();
    let sample = Sample::new(&daemon, "file");
    let (mut one, welcome) = daemon.session();
    let (mut other, _) = daemon.session();
    let (lease, _, _) = lease(&mut one, &sample.reader()).unwrap();
    let end = Request::EndLease { lease };
    assert_eq!(other.refusal(&end, &[]), Code::Denied);
    assert_eq!(state(&welcome, lease), State::Active);
    assert_eq!(one.ask(&end).0, Reply::Done);
    assert_eq!(one.refusal(&end, &[]), Code::Denied);
    let file = sample.reader();
    assert_eq!(daemon.visit().refusal(&Request::Lease, &[file.as_raw_fd()]), Code::BadState);
    assert_eq!(one.refusal(&Request::Lease, &[]), Code::BadRecord);
}

#[test]
fn nobody_else_can_give_the_common_lease_back() {
    let daemon = Daemon::start();
    let sample = Sample::new(&daemon, "file");
    let (mut client, welcome) = daemon.session();
    let shown = sample.reader();
    let (lease, _, fd) = lease(&mut client, &shown).unwrap();
    for fd in [fd.as_raw_fd(), shown.as_raw_fd()] {
        let _ = fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK as usize);
        let _ = fcntl(fd, libc::F_SETOWN, 0);
    }
    assert_eq!(state(&welcome, lease), State::Active);
    drop(sample.writer());
    assert_eq!(state(&welcome, lease), State::Revoked);
}

#[test]
fn a_session_has_a_lease_as_often_as_it_was_given_it() {
    let daemon = Daemon::start();
    let sample = Sample::new(&daemon, "file");
    let mut session = Delegate::new(&daemon);
    let (once, _, _) = lease(&mut session.client, &sample.reader()).unwrap();
    let (twice, _, _) = lease(&mut session.client, &sample.reader()).unwrap();
    let shown = [(); 2].map(|()| session.show(&sample.reader(), false).unwrap());
    let end = |session: &mut Delegate| session.client.ask(&Request::EndLease { lease: once }).0;
    assert_eq!((once, end(&mut session)), (twice, Reply::Done));
    assert_eq!(session.run(&Operation { object: shown[0], ..blank(1) }).result, 0);
    assert_eq!(end(&mut session), Reply::Done);
    // The other delegated file still has it.
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(state(&session.welcome, once), State::Active);
    assert_eq!(session.client.ask(&Request::EndDelegate).0, Reply::Done);
    await_that("delegation ended", || state(&session.welcome, once) == State::Free);
    assert_eq!(session.client.refusal(&Request::EndLease { lease: once }, &[]), Code::Denied);
}
