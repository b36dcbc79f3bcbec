//! The client's forms of operations on names: what they bring, and what their errors leave behind.
//!
//! One test: the stub has one session per process.

mod support;

use std::time::Duration;

use heliostat_abi::file::delegated::{OpKind, Pieces};
use heliostat_base::sys::Errno;
use heliostat_client::session;
use heliostat_stub_file::*;
use support::Daemon;

const SCRATCH: Piece = Piece { offset: 4096, bytes: 8192 };

fn errno<T>(answer: Result<T, DelegatedError>) -> i32 {
    match answer {
        Err(DelegatedError::File(Errno(errno))) => errno,
        Err(error) => panic!("{error}"),
        Ok(_) => 0,
    }
}

#[test]
fn each_form_does_what_it_says_and_a_failure_leaves_nothing() {
    let daemon = Daemon::start();
    session::configure(daemon.socket().to_str().unwrap().into(), "test".into());
    let mut session = Delegated::start(1 << 20).unwrap();
    let base = daemon.folder().to_str().unwrap().to_owned();
    let at = |name: &str| format!("{base}/{name}");

    session.mkdir(&at("folder"), 0o755, SCRATCH).unwrap();
    assert_eq!(errno(session.mkdir(&at("folder"), 0o755, SCRATCH)), libc::EEXIST);
    let access = READ | WRITE | CREATE | EXCLUSIVE | mode(0o644);
    let file = session.open(&at("folder/draft"), access, SCRATCH).unwrap();
    assert_eq!(errno(session.open(&at("folder/draft"), access, SCRATCH)), libc::EEXIST);
    session.window().copy_in(0, b"0123456789").unwrap();
    assert_eq!(session.write_at(file, 0, Piece { offset: 0, bytes: 10 }), Ok(10));
    session.truncate(file, 4).unwrap();
    assert_eq!(std::fs::read(at("folder/draft")).unwrap(), b"0123");

    session.rename(&at("folder/draft"), &at("folder/file"), false, SCRATCH).unwrap();
    std::fs::write(at("folder/other"), b"other").unwrap();
    let refused = session.rename(&at("folder/other"), &at("folder/file"), false, SCRATCH);
    assert_eq!(errno(refused), libc::EEXIST);
    session.symlink("file", &at("folder/link"), SCRATCH).unwrap();
    assert_eq!(session.readlink(&at("folder/link"), SCRATCH).unwrap(), b"file");

    let directory = session.open(&at("folder"), READ | DIRECTORY, SCRATCH).unwrap();
    let (mut found, mut cookie) = (Vec::new(), 0);
    loop {
        let part = session.readdir(directory, cookie, Piece { bytes: 280, ..SCRATCH }).unwrap();
        let Some(last) = part.last() else { break };
        cookie = last.cookie;
        found.extend(part.into_iter().map(|item| String::from_utf8(item.name).unwrap()));
    }
    found.sort();
    assert_eq!(found, ["file", "link", "other"]);
    session.fsync(directory).unwrap();
    assert_eq!(errno(session.readdir(file, 0, SCRATCH)), libc::ENOTDIR);

    let again = session.open(&at("folder/file"), READ, SCRATCH).unwrap();
    session.lock(file, LockKind::Alone, LockWait::Forever).unwrap();
    assert_eq!(errno(session.lock(again, LockKind::Shared, LockWait::No)), libc::EAGAIN);
    let short = LockWait::UpTo(Duration::from_millis(5));
    assert_eq!(errno(session.lock(again, LockKind::Shared, short)), libc::ETIMEDOUT);
    session.unlock(file).unwrap();
    session.lock(again, LockKind::Shared, short).unwrap();

    in_a_batch(&mut session, file, [&at("folder/batch"), &at("folder/batched")]);
    let names = [at("folder/file"), at("folder/link"), at("folder/other")];
    names.iter().for_each(|name| session.unlink(name, SCRATCH).unwrap());
    assert_eq!(errno(session.unlink(&names[0], SCRATCH)), libc::ENOENT);
    session.rmdir(&at("folder"), SCRATCH).unwrap();
    too_small(&mut session, &at("x"));
    assert!(!std::path::Path::new(&at("x")).exists());
}

/// Changes among transfers, submitted at once.
fn in_a_batch(session: &mut Delegated, file: File, names: [&str; 2]) {
    let place = |offset, bytes: usize| Piece { offset, bytes: bytes as u32 };
    let places = [place(65_536, names[0].len()), place(131_072, names[1].len())];
    for (name, place) in names.iter().zip(places) {
        session.window().copy_in(place.offset as usize, name.as_bytes()).unwrap();
    }
    let blank = Transfer {
        kind: OpKind::Truncate,
        file,
        offset: 0,
        argument: 2,
        pieces: Pieces::default(),
        tag: 1,
        timeout_us: 0,
    };
    let pieces = Pieces::new(&places[..1]).unwrap();
    let mkdir = Transfer { kind: OpKind::Mkdir, argument: 0o700, pieces, tag: 2, ..blank };
    assert_eq!(session.submit(&[blank, mkdir]), Ok(2));
    let done = [session.wait(None).unwrap().result, session.wait(None).unwrap().result];
    assert_eq!(done, [0, 0]);
    // A file that is closed, or of an earlier session, is no matter for what needs none.
    let stale = File::from_parts((7, 7, 7));
    let pieces = Pieces::new(&places).unwrap();
    let rename = Transfer { kind: OpKind::Rename, file: stale, argument: 0, pieces, ..blank };
    assert_eq!(session.submit(&[rename]), Ok(1));
    assert_eq!(session.wait(None).unwrap().result, 0);
    let pieces = Pieces::new(&places[1..]).unwrap();
    let rmdir = Transfer { kind: OpKind::Rmdir, argument: 0, pieces, ..rename };
    assert_eq!(session.submit(&[rmdir]), Ok(1));
    assert_eq!(session.wait(None).unwrap().result, 0);
    assert_eq!(session.submit(&[Transfer { file: stale, ..blank }]), Err(DelegatedError::Stale));
    // What a read has no use for is refused, and not left out.
    let pieces = Pieces::new(&[place(0, 16)]).unwrap();
    let read = Transfer { kind: OpKind::Read, argument: 1, pieces, ..blank };
    assert_eq!(session.submit(&[read]), Ok(1));
    assert_eq!(session.wait(None).unwrap().result, -i64::from(libc::EINVAL));
}

/// Names that have no room are refused before anything is asked.
fn too_small(session: &mut Delegated, name: &str) {
    let small = Piece { offset: 0, bytes: name.len() as u32 - 1 };
    let outside = Piece { offset: 1 << 20, bytes: 8192 };
    for scratch in [small, outside] {
        let refused = session.mkdir(name, 0o700, scratch);
        assert!(matches!(refused, Err(DelegatedError::Window(_))), "{refused:?}");
    }
    let both = Piece { offset: 0, bytes: 2 * name.len() as u32 - 1 };
    let refused = session.rename(name, name, true, both);
    assert!(matches!(refused, Err(DelegatedError::Window(_))), "{refused:?}");
    let refused = session.readlink(name, Piece { bytes: name.len() as u32, ..both });
    assert!(matches!(refused, Err(DelegatedError::Window(_))), "no room for an answer");
    assert_eq!(errno(session.mkdir("", 0o700, SCRATCH)), libc::ENOENT);
}
