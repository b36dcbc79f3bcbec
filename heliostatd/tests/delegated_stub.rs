//! Delegated operations through the stub, over the death of the control plane.
//!
//! One test: the stub has one session per process.

mod support;

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::time::Duration;

use heliostat_abi::file::delegated::{OpKind, Pieces};
use heliostat_client::session;
use heliostat_stub_file::{Delegated, DelegatedError, Piece, Transfer, Way, DIRECT, READ, WRITE};
use rustix::process::Signal;
use support::{await_that, Daemon};

const FIRST: Piece = Piece { offset: 0, bytes: 4096 };

fn transfer(file: heliostat_stub_file::File, tag: u64) -> Transfer {
    let pieces = Pieces::new(&[Piece { offset: tag * 100, bytes: 100 }]).unwrap();
    Transfer {
        kind: OpKind::Read,
        file,
        offset: tag * 100,
        argument: 0,
        pieces,
        tag,
        timeout_us: 0,
    }
}

#[test]
fn a_session_works_and_is_lost_and_made_anew() {
    let mut daemon = Daemon::start();
    session::configure(daemon.socket().to_str().unwrap().into(), "test".into());
    let path = daemon.folder().join("file");
    std::fs::write(&path, (0..100_000_u32).map(|at| (at / 100) as u8).collect::<Vec<_>>()).unwrap();
    let mut session = Delegated::start(1 << 20).unwrap();
    assert_eq!(
        Delegated::start(4096).err().map(|it| matches!(it, DelegatedError::Refused(..))),
        Some(true)
    );
    let shown = File::open(&path).unwrap();
    let file = session.show(shown.as_raw_fd(), 0).unwrap();

    // A batch, whose completions come while a convenience waits for its own.
    let batch: Vec<_> = (0..200).map(|tag| transfer(file, tag)).collect();
    assert_eq!(session.submit(&batch), Ok(200));
    assert_eq!(session.facts(file, Piece { offset: 65536, bytes: 64 }).unwrap().size, 100_000);
    for _ in 0..200 {
        let done = session.wait(Some(Duration::from_secs(20))).unwrap();
        let mut bytes = [0; 100];
        session.window().copy_out(done.tag as usize * 100, &mut bytes).unwrap();
        assert_eq!((done.result, bytes), (100, [done.tag as u8; 100]));
    }
    assert_eq!(session.wait(None), Err(DelegatedError::Idle));
    let many: Vec<_> = (0..300).map(|tag| transfer(file, tag)).collect();
    assert_eq!(session.submit(&many), Ok(256));
    assert!((0..256).all(|_| session.wait(None).is_ok()));
    assert!(!session.cancel(5).unwrap());

    let written = session.open(path.to_str().unwrap(), READ | WRITE, FIRST).unwrap();
    session.window().copy_in(0, b"written").unwrap();
    assert_eq!(session.write_at(written, 0, Piece { offset: 0, bytes: 7 }), Ok(7));
    assert_eq!(session.append(written, Piece { offset: 0, bytes: 7 }), Ok(7));
    session.fsync(written).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 100_007);
    session.close(written).unwrap();
    let closed = session.close(written).unwrap_err();
    assert_eq!(closed, DelegatedError::File(heliostat_base::sys::Errno(libc::EBADF)));

    // Killed with operations under way that never end by themselves: it is stopped first.
    daemon.signal(Signal::STOP);
    session.submit(&batch[..7]).unwrap();
    daemon.restart();
    let lost = std::iter::repeat_with(|| session.wait(Some(Duration::from_secs(20))));
    let lost = lost.take(8).find_map(Result::err).unwrap();
    assert!(matches!(lost, DelegatedError::Gone { lost: 1..=7 }), "{lost:?}");
    await_that("the next control plane serves", || session.show(shown.as_raw_fd(), 0).is_ok());
    assert_eq!(session.submit(&batch[..1]), Err(DelegatedError::Stale));
    assert_eq!(session.read_at(file, 0, FIRST), Err(DelegatedError::Stale));
    let file = session.show(shown.as_raw_fd(), DIRECT).unwrap();
    session
        .submit(&[Transfer {
            offset: 4096,
            pieces: Pieces::new(&[FIRST]).unwrap(),
            ..transfer(file, 1)
        }])
        .unwrap();
    let by_itself = if support::filtered::is_everywhere() { Way::Direct } else { Way::Own };
    assert_eq!(session.wait(None).map(|it| (it.result, it.way)), Ok((4096, by_itself)));

    replaced_while_idle(&mut daemon, &mut session, &shown);
    drop(session);
    let mut session = Delegated::start(4096).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    assert!(session.show(file.as_raw_fd(), 0).is_ok());
}

/// Replaced while nothing is under way, and greeted by another part of the process before.
fn replaced_while_idle(daemon: &mut Daemon, session: &mut Delegated, shown: &File) {
    let begun = session::standing().unwrap().epoch;
    daemon.restart();
    await_that("the next control plane is greeted", || {
        session::check_alive();
        session::standing().is_ok_and(|standing| standing.epoch > begun)
    });
    let shown_again = session.show(shown.as_raw_fd(), 0);
    assert_eq!(shown_again.err(), Some(DelegatedError::Gone { lost: 0 }));
    assert!(session.show(shown.as_raw_fd(), 0).is_ok());
}
