//! Files that a program reads by an io_uring of its own: what goes there, and what stays the server's.
//!
//! One test: the stub has one session per process, and each part goes on where the last has stopped.

mod support;

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use heliostat_abi::file::delegated::{OpKind, Pieces, DIRECT};
use heliostat_abi::session::record::{Reply, Request};
use heliostat_client::session;
use heliostat_stub_file::{
    Delegated, DelegatedError, File as Opened, Piece, Transfer, Way, READ, WRITE,
};
use rustix::process::Signal;
use support::{await_that, Daemon};

const PAGE: u32 = 4096;
const PAGES: u64 = 64;
const TAIL: u32 = 100;
const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

/// Byte of the file at a place: no two pages are alike.
fn byte_at(offset: u64) -> u8 {
    (offset % 251 + offset / 4096) as u8
}

fn piece(page: u64) -> Piece {
    Piece { offset: page * u64::from(PAGE), bytes: PAGE }
}

/// A read of one page into the place of the same number.
fn read(file: Opened, page: u64) -> Transfer {
    let pieces = Pieces::new(&[piece(page)]).unwrap();
    let offset = page * u64::from(PAGE);
    Transfer { kind: OpKind::Read, file, offset, argument: 0, pieces, tag: page, timeout_us: 0 }
}

/// Submits one and waits: its result and way.
fn one(session: &mut Delegated, transfer: Transfer) -> (i64, Way) {
    assert_eq!(session.submit(&[transfer]), Ok(1));
    let done = session.wait(PATIENCE).unwrap();
    assert_eq!(done.tag, transfer.tag);
    (done.result, done.way)
}

/// Whether what a page's read has brought is the file's.
fn is_right(session: &Delegated, page: u64) -> bool {
    let mut bytes = [0; PAGE as usize];
    session.window().copy_out(page as usize * PAGE as usize, &mut bytes).unwrap();
    let start = page * u64::from(PAGE);
    bytes.iter().enumerate().all(|(at, byte)| *byte == byte_at(start + at as u64))
}

fn show(session: &mut Delegated, file: &File) -> Opened {
    session.show(file.as_raw_fd(), DIRECT).unwrap()
}

#[test]
fn a_program_reads_by_itself_what_it_opened_for_the_device() {
    if support::filtered::is_everywhere() {
        return println!("no program has an io_uring here to read by");
    }
    let mut daemon = Daemon::start();
    let path = daemon.folder().join("pages");
    let bytes: Vec<u8> = (0..bytes_of_all() as u64).map(byte_at).collect();
    std::fs::write(&path, &bytes).unwrap();
    let file = File::open(&path).unwrap();
    file.sync_all().unwrap();
    session::configure(daemon.socket().to_str().unwrap().into(), "test".into());
    let mut session = Delegated::start(1 << 20).unwrap();
    let Ok(opened) = session.show(file.as_raw_fd(), DIRECT) else {
        return println!("the file system has no way past its cache");
    };
    whole_pages_are_read_here(&mut session, opened);
    everything_else_is_the_servers(&mut session, opened);
    both_at_once(&mut session, opened, &path);
    neither_starves_the_other(&mut session, opened);
    ends_that_are_asked_for(&mut session, opened);
    in_another_thread(&mut session, opened);
    a_tail_that_is_closed_behind(&mut session, &file);
    a_named_file_is_read_here(&mut session, &path);
    only_what_is_wanted_and_readable(&mut session, &file, &path);
    the_end_of_a_control_plane(&mut daemon, &mut session, opened, &file);
    a_session_ends_with_reads_under_way(session, &file);
    without_leave(&mut daemon, &file);
    let mut session = started(&mut daemon, "");
    a_tail_that_outlives_its_session(&mut daemon, &mut session, &file);
    a_session_is_revoked(&daemon, &mut session, &file);
}

fn whole_pages_are_read_here(session: &mut Delegated, file: Opened) {
    let pages: Vec<Transfer> = (0..PAGES).map(|page| read(file, page)).collect();
    assert_eq!(session.submit(&pages), Ok(PAGES as usize));
    for _ in 0..PAGES {
        let done = session.wait(PATIENCE).unwrap();
        assert_eq!((done.result, done.way), (i64::from(PAGE), Way::Own));
        assert!(is_right(session, done.tag), "page {}", done.tag);
    }
    assert_eq!(session.wait(None), Err(DelegatedError::Idle));
    assert_eq!(session.read_at(file, 4096, piece(0)), Ok(4096));
    assert!(!session.cancel(5).unwrap());
}

/// The file's end, more than one piece, a limit in time, and every mistake.
fn everything_else_is_the_servers(session: &mut Delegated, file: Opened) {
    assert_eq!(one(session, read(file, PAGES)), (i64::from(TAIL), Way::Direct));
    assert_eq!(one(session, read(file, PAGES + 1)), (0, Way::Direct));
    let two = Pieces::new(&[piece(3), piece(1)]).unwrap();
    let found = one(session, Transfer { pieces: two, ..read(file, 0) });
    assert_eq!(found, (2 * i64::from(PAGE), Way::Direct));
    let found = one(session, Transfer { timeout_us: 20_000_000, ..read(file, 7) });
    assert_eq!(found, (i64::from(PAGE), Way::Direct));
    let wrong = -i64::from(libc::EINVAL);
    let odd = Pieces::new(&[Piece { offset: 0, bytes: 100 }]).unwrap();
    assert_eq!(one(session, Transfer { pieces: odd, ..read(file, 0) }).0, wrong);
    assert_eq!(one(session, Transfer { offset: 512, ..read(file, 0) }).0, wrong);
    let beyond = Pieces::new(&[Piece { offset: 1 << 20, bytes: PAGE }]).unwrap();
    assert_eq!(one(session, Transfer { pieces: beyond, ..read(file, 0) }).0, wrong);
    assert_eq!(one(session, Transfer { offset: 1 << 63, ..read(file, 0) }).0, wrong);
}

/// Reads of its own beside operations that the server does: each ends once, whoever is first.
fn both_at_once(session: &mut Delegated, file: Opened, path: &Path) {
    let other = File::open(path).unwrap();
    let cached = session.show(other.as_raw_fd(), 0).unwrap();
    for _ in 0..50 {
        let at_server = (0..40).map(|page| Transfer { tag: 1000 + page, ..read(cached, page) });
        let mixed: Vec<_> = (40..PAGES).map(|page| read(file, page)).chain(at_server).collect();
        assert_eq!(session.submit(&mixed), Ok(mixed.len()));
        let mut seen: Vec<u64> = Vec::new();
        for _ in &mixed {
            let done = session.wait(PATIENCE).unwrap();
            assert_eq!((done.result, done.way == Way::Own), (i64::from(PAGE), done.tag < 1000));
            seen.push(done.tag);
        }
        seen.sort_unstable();
        assert_eq!(seen, (40..PAGES).chain(1000..1040).collect::<Vec<_>>());
        assert!((0..PAGES).all(|page| is_right(session, page)));
    }
    let pages: Vec<_> = (0..PAGES).map(|page| read(file, page)).collect();
    session.submit(&pages).unwrap();
    session.close(cached).unwrap();
    assert!((0..PAGES).all(|_| session.wait(PATIENCE).is_ok_and(|done| done.way == Way::Own)));
}

/// A program that is slower than its device finds a read of its own that has ended, each time.
fn neither_starves_the_other(session: &mut Delegated, file: Opened) {
    let pages: Vec<_> = (0..PAGES).map(|page| read(file, page)).collect();
    assert_eq!(session.submit(&pages), Ok(PAGES as usize));
    session.submit(&[Transfer { kind: OpKind::Fsync, tag: 5000, ..none(file) }]).unwrap();
    await_that("the server's completion is taken", || {
        let done = session.wait(PATIENCE).unwrap();
        if done.tag < PAGES {
            session.submit(&[read(file, done.tag)]).unwrap();
        }
        done.tag == 5000
    });
    while session.under_way() > 0 {
        session.wait(PATIENCE).unwrap();
    }
}

/// An operation without pieces.
fn none(file: Opened) -> Transfer {
    Transfer { pieces: Pieces::default(), offset: 0, ..read(file, 0) }
}

fn ends_that_are_asked_for(session: &mut Delegated, file: Opened) {
    let pages: Vec<_> = (0..PAGES).map(|page| read(file, page)).collect();
    session.submit(&pages).unwrap();
    let was_there = session.cancel(PAGES - 1).unwrap();
    for _ in 0..PAGES {
        let done = session.wait(PATIENCE).unwrap();
        let is_asked = was_there && done.tag == PAGES - 1;
        let is_cancelled = is_asked && done.result == -i64::from(libc::ECANCELED);
        assert!(done.result == i64::from(PAGE) || is_cancelled, "{done:?}");
    }
    assert_eq!(session.wait(None), Err(DelegatedError::Idle));
}

/// Submitted by one thread, waited for by another while the first does not enter the kernel.
fn in_another_thread(session: &mut Delegated, file: Opened) {
    let pages: Vec<_> = (0..PAGES).map(|page| read(file, page)).collect();
    session.submit(&pages).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!((0..PAGES).all(|_| session.wait(PATIENCE).is_ok_and(|it| it.result == 4096)));
            is_done.store(true, Relaxed);
        });
        while !is_done.load(Relaxed) {
            std::hint::spin_loop();
        }
    });
}

/// What was under way ends as it would although its file is closed meanwhile.
fn a_tail_that_is_closed_behind(session: &mut Delegated, file: &File) {
    let opened = show(session, file);
    session.submit(&[read(opened, PAGES)]).unwrap();
    session.close(opened).unwrap();
    assert_eq!(session.wait(PATIENCE).unwrap().result, i64::from(TAIL));
}

/// A read of one session's file ends in the next, where the file's numbers are another file's.
fn a_tail_that_outlives_its_session(daemon: &mut Daemon, session: &mut Delegated, file: &File) {
    let other = daemon.folder().join("other");
    std::fs::write(&other, vec![0xee; bytes_of_all()]).unwrap();
    let other = File::open(other).unwrap();
    let opened = show(session, file);
    session.submit(&[read(opened, PAGES)]).unwrap();
    daemon.restart();
    assert!(session.submit(&[none(opened)]).is_err());
    let mut next = None;
    await_that("the next control plane serves", || {
        next = session.show(other.as_raw_fd(), DIRECT).ok();
        next.is_some()
    });
    let numbers = |file: Opened| (file.to_parts().0, file.to_parts().1);
    assert_eq!(next.map(numbers), Some(numbers(opened)));
    let done = session.wait(PATIENCE).unwrap();
    assert_eq!((done.tag, done.result, done.way), (PAGES, i64::from(TAIL), Way::Own));
    let mut bytes = [0; TAIL as usize];
    session.window().copy_out(PAGES as usize * PAGE as usize, &mut bytes).unwrap();
    let start = PAGES * u64::from(PAGE);
    assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == byte_at(start + at as u64)));
}

/// Length of the file.
fn bytes_of_all() -> usize {
    (PAGES * u64::from(PAGE)) as usize + TAIL as usize
}

fn a_named_file_is_read_here(session: &mut Delegated, path: &Path) {
    let name = path.to_str().unwrap();
    let scratch = Piece { offset: 512 * 1024, bytes: PAGE };
    for (access, way) in [(READ | DIRECT, Way::Own), (READ | WRITE | DIRECT, Way::Own)] {
        let named = session.open(name, access, scratch).unwrap();
        assert_eq!(one(session, read(named, 9)), (i64::from(PAGE), way));
        session.close(named).unwrap();
        let closed = one(session, read(named, 9)).0;
        assert_eq!(closed, -i64::from(libc::EBADF));
    }
    let named = session.open(name, READ, scratch).unwrap();
    assert_ne!(one(session, read(named, 9)).1, Way::Own, "not opened for the device");
    session.close(named).unwrap();
}

fn only_what_is_wanted_and_readable(session: &mut Delegated, file: &File, path: &Path) {
    session.read_directly(false);
    let opened = show(session, file);
    assert_eq!(one(session, read(opened, 2)), (i64::from(PAGE), Way::Direct));
    session.read_directly(true);
    assert_eq!(one(session, read(opened, 2)), (i64::from(PAGE), Way::Direct));
    let again = show(session, file);
    assert_eq!(one(session, read(again, 2)), (i64::from(PAGE), Way::Own));
    // Who may only write reads nothing here either.
    let writer = OpenOptions::new().write(true).open(path).unwrap();
    let writer = show(session, &writer);
    assert_eq!(one(session, read(writer, 2)).0, -i64::from(libc::EBADF));
}

/// Reads under way when the control plane dies end as they would; files mean nothing afterwards.
fn the_end_of_a_control_plane(
    daemon: &mut Daemon,
    session: &mut Delegated,
    stale: Opened,
    file: &File,
) {
    let opened = show(session, file);
    daemon.signal(Signal::STOP);
    let pages: Vec<_> = (0..PAGES).map(|page| read(opened, page)).collect();
    session.submit(&pages).unwrap();
    session.submit(&[Transfer { kind: OpKind::Fsync, ..read(opened, 99) }]).unwrap();
    daemon.restart();
    let (mut own, mut lost) = (0, 0);
    loop {
        match session.wait(PATIENCE) {
            Ok(done) => own += u64::from(done.way == Way::Own),
            Err(DelegatedError::Gone { lost: some }) => lost += some,
            Err(DelegatedError::Idle) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((own, lost), (PAGES, 1));
    await_that("the next control plane serves", || session.show(file.as_raw_fd(), DIRECT).is_ok());
    assert_eq!(session.submit(&[read(opened, 0)]), Err(DelegatedError::Stale));
    assert_eq!(session.submit(&[read(stale, 0)]), Err(DelegatedError::Stale));
    // One that ends while nothing is asked of it is noticed with the next read.
    let opened = show(session, file);
    daemon.restart();
    await_that("the end is noticed", || {
        matches!(session.submit(&[read(opened, 0)]), Err(DelegatedError::Gone { .. }))
    });
    await_that("the next control plane serves", || session.show(file.as_raw_fd(), 0).is_ok());
    // Its files have the numbers that the last one's had.
    let cached = session.show(file.as_raw_fd(), 0).unwrap();
    let numbers = |file: Opened| (file.to_parts().0, file.to_parts().1);
    assert_eq!(numbers(cached), numbers(opened));
    assert_ne!(one(session, read(cached, 0)).1, Way::Own, "not opened for the device");
}

/// One that was revoked reads nothing more, by whatever way.
fn a_session_is_revoked(daemon: &Daemon, session: &mut Delegated, file: &File) {
    let opened = show(session, file);
    assert_eq!(one(session, read(opened, 1)).1, Way::Own);
    let mut person = daemon.visit();
    person.hello();
    let (reply, _) = person.ask(&Request::Revoke { pid: std::process::id() });
    assert_eq!(reply, Reply::Done);
    await_that("it is noticed", || {
        matches!(session.submit(&[read(opened, 1)]), Err(DelegatedError::Gone { .. }))
    });
    assert!(session.submit(&[read(opened, 1)]).is_err(), "and stays so");
}

fn a_session_ends_with_reads_under_way(mut session: Delegated, file: &File) {
    let opened = show(&mut session, file);
    let (before, window) = (mappings(), session.window().clone());
    let pages: Vec<_> = (0..PAGES).map(|page| read(opened, page)).collect();
    session.submit(&pages).unwrap();
    drop(session);
    assert_eq!(std::sync::Arc::strong_count(&window), 1, "the ring has let go of the window");
    assert!(mappings() < before);
}

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

/// With a limit to keep, or told so, the server makes all reads.
fn without_leave(daemon: &mut Daemon, file: &File) {
    for config in
        ["operations_per_second = 100000", "bytes_per_second = 1000000000", "own_rings = false"]
    {
        let mut session = started(daemon, config);
        let opened = show(&mut session, file);
        assert_eq!(one(&mut session, read(opened, 2)), (i64::from(PAGE), Way::Direct), "{config}");
    }
}

/// A session with another control plane, of this configuration.
fn started(daemon: &mut Daemon, config: &str) -> Delegated {
    let config = format!("[delegated]\n{config}\n");
    std::fs::write(daemon.folder().join("config.toml"), config).unwrap();
    daemon.restart();
    let mut begun = None;
    await_that("the next control plane serves", || {
        begun = Delegated::start(1 << 20).ok();
        begun.is_some()
    });
    begun.unwrap()
}
