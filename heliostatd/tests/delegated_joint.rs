//! A joint session: threads and processes submit on it, are killed, stopped, and write what they like.
//!
//! One test, since a process has one session with the control plane. The test binary starts itself
//! again as another member: `member_process` does nothing unless the environment names its part.

mod support;

use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use heliostat_abi::file::delegated::joint::{rings_bytes, MEMBERS_AT, MEMBERS_BYTES, MEMBERS_MAX};
use heliostat_abi::file::delegated::{OpKind, Pieces, ALONE, UNLOCK};
use heliostat_base::mapping::{Access, SharedMapping};
use heliostat_client::session;
use heliostat_ring::members::MembersPage;
use heliostat_ring::turn::Turn;
use heliostat_stub_file::{
    DelegatedError, File, JointSession, Piece, Submitter, Transfer, READ, TAG_MAX,
};
use rustix::process::Signal;
use support::delegated::serves;
use support::member::{Given, Other};
use support::{await_that, write_file, Daemon, WATCHDOG};

const WINDOW: usize = 1 << 20;
const PAGE: u64 = 4096;
const PAGES: u64 = 64;
/// Where children tell how far they are: eight bytes each.
const TOLD_AT: u64 = 1 << 19;

/// The opener, as the test sees it.
struct Opener {
    daemon: Daemon,
    session: JointSession,
    submitter: Submitter,
    file: File,
    started: u64,
}

impl Opener {
    fn start(&mut self, part: &str) -> Other {
        self.started += 1;
        let place = self.started - 1;
        Other::start(part, &self.daemon.socket(), &self.session, self.file, place)
    }

    fn told(&self, other: &Other) -> u64 {
        let mut bytes = [0; 8];
        self.session.window().copy_out((TOLD_AT + other.place * 8) as usize, &mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    }

    fn await_told(&self, other: &Other, wanted: u64) {
        await_that("another member goes on", || self.told(other) >= wanted);
    }

    fn read_some(&mut self) {
        (0..50)
            .for_each(|round| read_page(&mut self.submitter, &self.session, self.file, (round, 0)));
    }
}

/// Reads one page of the file into a place of the window, and looks at what is there.
fn read_page(
    submitter: &mut Submitter,
    session: &JointSession,
    file: File,
    (round, place): (u64, u64),
) {
    let page = (round * 7 + place) % PAGES;
    let piece = Piece { offset: place * PAGE, bytes: PAGE as u32 };
    assert_eq!(submitter.read_at(file, page * PAGE, piece), Ok(PAGE as usize));
    let mut byte = [0];
    session.window().copy_out((place * PAGE + round % PAGE) as usize, &mut byte).unwrap();
    assert_eq!(u64::from(byte[0]), page);
}

fn transfer(file: File, place: u64, tag: u64) -> Transfer {
    let pieces = Pieces::new(&[Piece { offset: place * PAGE, bytes: PAGE as u32 }]).unwrap();
    let (offset, argument, timeout_us) = (tag % PAGES * PAGE, 0, 0);
    Transfer { kind: OpKind::Read, file, offset, argument, pieces, tag, timeout_us }
}

fn lock(file: File, argument: u64, tag: u64) -> Transfer {
    let (kind, pieces) = (OpKind::Lock, Pieces::default());
    Transfer { kind, offset: 0, argument, pieces, ..transfer(file, 0, tag) }
}

#[test]
fn member_process() {
    let Ok(part) = std::env::var("JOINT_PART") else { return };
    let given = Given::of_environment();
    match part.as_str() {
        "read" => read_for_ever(&given),
        "turn" => keep_the_turn(&given),
        "wait" => wait_for_a_lock(&given),
        "scribble" => scribble_for_ever(&given),
        other => panic!("no such part: {other}"),
    }
}

fn tell(session: &JointSession, given: &Given, count: u64) {
    let at = (TOLD_AT + given.place * 8) as usize;
    session.window().copy_in(at, &count.to_le_bytes()).unwrap();
}

fn read_for_ever(given: &Given) {
    let session = given.join();
    let mut submitter = session.submitter().unwrap();
    let file = File::from_parts(given.file);
    for round in 1.. {
        read_page(&mut submitter, &session, file, (round, 32 + given.place % 32));
        tell(&session, given, round);
    }
}

/// Has as much under way as it may, none of which ends by itself.
fn wait_for_a_lock(given: &Given) {
    let session = given.join();
    let mut submitter = session.submitter().unwrap();
    let file = File::from_parts(given.file);
    read_page(&mut submitter, &session, file, (given.place, 32 + given.place % 32));
    let waits: Vec<_> = (0..session.depth() as u64).map(|tag| lock(file, ALONE, tag)).collect();
    assert_eq!(submitter.submit(&waits), Ok(session.depth()));
    tell(&session, given, 1);
    loop {
        std::thread::park();
    }
}

/// Takes the turn, and does not give it back.
fn keep_the_turn(given: &Given) {
    let session = given.join();
    let page = SharedMapping::map(
        session.descriptors().0.as_raw_fd(),
        MEMBERS_AT,
        MEMBERS_BYTES,
        Access::ReadWrite,
    );
    let page = MembersPage::attach(page.unwrap()).unwrap();
    let (member, _life) = page.claim(1..MEMBERS_MAX).unwrap().unwrap();
    Turn::new(page, member).take().unwrap();
    tell(&session, given, 1);
    loop {
        std::thread::park();
    }
}

/// Writes pseudo-random words over all that members write.
fn scribble_for_ever(given: &Given) {
    let bytes = rings_bytes(MEMBERS_MAX);
    let rings = SharedMapping::from_fd(given.rings, bytes, Access::ReadWrite).unwrap();
    let mut state = 88172645463325252u64;
    loop {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let offset = (state >> 32) as usize % (bytes / 8) * 8;
        rings.atomic_u64(offset).store(state, Ordering::Relaxed);
    }
}

#[test]
fn members_submit_together_and_what_one_does_costs_no_more_than_their_session() {
    let daemon = Daemon::start();
    session::configure(daemon.socket().to_str().unwrap().into(), "opener".into());
    let path = daemon.folder().join("pages");
    let bytes: Vec<u8> = (0..PAGES * PAGE).map(|at| (at / PAGE) as u8).collect();
    write_file(&path, &bytes);
    assert!(matches!(JointSession::start(WINDOW, 0), Err(DelegatedError::Refused(..))));
    assert!(matches!(JointSession::start(WINDOW, 17), Err(DelegatedError::Refused(..))));
    let session = JointSession::start(WINDOW, MEMBERS_MAX).unwrap();
    let mut submitter = session.submitter().unwrap();
    let scratch = Piece { offset: 0, bytes: 4096 };
    let file = submitter.open(path.to_str().unwrap(), READ, scratch).unwrap();
    assert_eq!(submitter.facts(file, scratch).unwrap().size, PAGES * PAGE);
    let mut opener = Opener { daemon, session, submitter, file, started: 0 };

    threads_beside_another_process(&mut opener);
    a_killed_member_costs_the_others_nothing(&mut opener);
    a_member_that_keeps_the_turn_puts_the_others_off(&mut opener);
    a_stopped_member_does_not_hold_up_the_server(&mut opener);
    a_forked_child_takes_nothing_of_the_members(&mut opener);
    forty_that_die_one_after_the_other_leave_nothing_under_way(&mut opener);
    no_more_join_at_a_time_than_may(&mut opener);
    garbage_ends_the_session_only(opener);
}

/// Four threads, each with batches of its own, and another process.
fn threads_beside_another_process(opener: &mut Opener) {
    let other = opener.start("read");
    opener.await_told(&other, 1);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (session, file) = (opener.session.clone(), opener.file);
            scope.spawn(move || submit_batches(&session, file, thread));
        }
    });
    let told = opener.told(&other);
    opener.await_told(&other, told + 100);
    opener.read_some();
}

/// Tags are each thread's own: all use the same ones.
fn submit_batches(session: &JointSession, file: File, thread: u64) {
    let mut submitter = session.submitter().unwrap();
    let places = 4;
    for batch in 0..300 {
        let transfers: Vec<_> = (0..places)
            .map(|place| transfer(file, 4 + thread * places + place, batch * places + place))
            .collect();
        let mut given = 0;
        while given < transfers.len() {
            given += submitter.submit(&transfers[given..]).unwrap();
        }
        let mut tags: Vec<_> = (0..places)
            .map(|_| {
                let done = submitter.wait(Some(WATCHDOG)).unwrap();
                let place = 4 + thread * places + done.tag % places;
                let mut byte = [0];
                session.window().copy_out((place * PAGE) as usize, &mut byte).unwrap();
                assert_eq!((done.result, u64::from(byte[0])), (PAGE as i64, done.tag % PAGES));
                done.tag
            })
            .collect();
        tags.sort_unstable();
        assert_eq!(tags, (batch * places..(batch + 1) * places).collect::<Vec<_>>());
    }
    assert_eq!(submitter.wait(None), Err(DelegatedError::Idle));
    let large = Transfer { tag: TAG_MAX + 1, ..transfer(file, 4, 0) };
    assert_eq!(submitter.submit(&[large]), Err(DelegatedError::Tag));
}

/// Killed at some moment between two looks, among them moments in its turn.
fn a_killed_member_costs_the_others_nothing(opener: &mut Opener) {
    for round in 1..7 {
        let other = opener.start("read");
        opener.await_told(&other, round * 37);
        drop(other);
        opener.read_some();
    }
    serves(&opener.daemon);
}

fn a_member_that_keeps_the_turn_puts_the_others_off(opener: &mut Opener) {
    let other = opener.start("turn");
    opener.await_told(&other, 1);
    let begun = Instant::now();
    let (file, one) = (opener.file, transfer(opener.file, 0, 9));
    assert_eq!(opener.submitter.submit(&[one]), Ok(0));
    assert!(begun.elapsed() >= Duration::from_millis(90), "it waits before it gives up");
    // The server has nothing to do with it.
    serves(&opener.daemon);
    drop(other);
    await_that("the turn of the dead one is taken", || {
        opener.submitter.submit(&[transfer(file, 0, 9)]) == Ok(1)
    });
    assert_eq!(opener.submitter.wait(Some(WATCHDOG)).map(|done| done.tag), Ok(9));
    opener.read_some();
}

fn a_stopped_member_does_not_hold_up_the_server(opener: &mut Opener) {
    let other = opener.start("read");
    for round in 1..6 {
        opener.await_told(&other, round * 50);
        other.signal(Signal::STOP);
        serves(&opener.daemon);
        // Unless it was stopped in its turn.
        if opener.submitter.submit(&[transfer(opener.file, 0, round)]) == Ok(1) {
            assert_eq!(opener.submitter.wait(Some(WATCHDOG)).map(|done| done.tag), Ok(round));
        }
        other.signal(Signal::CONT);
        opener.read_some();
    }
}

/// A child's copy of the member's end says that it is none; what is under way stays the member's.
fn a_forked_child_takes_nothing_of_the_members(opener: &mut Opener) {
    let submitter = &mut opener.submitter;
    assert_eq!(submitter.submit(&[transfer(opener.file, 0, 5)]), Ok(1));
    // SAFETY: the child makes three calls on its copy, which allocate nothing, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let errors =
            [submitter.reap().err(), submitter.wait(None).err(), submitter.submit(&[]).err()];
        let is_gone = |error: &_| matches!(error, Some(DelegatedError::Gone { .. }));
        // SAFETY: it ends here.
        unsafe { libc::_exit(i32::from(!errors.iter().all(is_gone))) }
    }
    let mut status = -1;
    // SAFETY: our own child, and a number that is written.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
    // A wait of no time takes what is there.
    let mut wait = || submitter.wait(Some(Duration::ZERO)).map(|done| done.tag);
    await_that("it completes", || wait() == Ok(5));
}

/// More than the session has numbers, each of which waits for what it never gets. The server has room for
/// 256 operations: what the dead wait for has to end, so that the next are served.
fn forty_that_die_one_after_the_other_leave_nothing_under_way(opener: &mut Opener) {
    let path = opener.daemon.folder().join("pages");
    let scratch = Piece { offset: 0, bytes: 4096 };
    let held = opener.submitter.open(path.to_str().unwrap(), READ, scratch).unwrap();
    let lock = |opener: &mut Opener, argument| {
        assert_eq!(opener.submitter.submit(&[lock(held, argument, 1)]), Ok(1));
        opener.submitter.wait(Some(WATCHDOG)).map(|done| done.result)
    };
    assert_eq!(lock(opener, ALONE), Ok(0));
    for _ in 0..40 {
        let other = opener.start("wait");
        opener.await_told(&other, 1);
    }
    opener.read_some();
    assert_eq!(lock(opener, UNLOCK), Ok(0));
    opener.submitter.close(held).unwrap();
    serves(&opener.daemon);
}

fn no_more_join_at_a_time_than_may(opener: &mut Opener) {
    let join = |opener: &Opener| {
        let (rings, window) = opener.session.descriptors();
        JointSession::join(rings.duplicate().unwrap(), window.duplicate().unwrap())
    };
    let mut more = Vec::new();
    let refused = loop {
        match join(opener) {
            Ok(session) => more.push(session),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, DelegatedError::Refused(_, 16)), "{refused:?}");
    assert_eq!(more.len(), 16 - 1, "all others are dead");
    more.pop();
    let session = join(opener).unwrap();
    read_page(&mut session.submitter().unwrap(), &session, opener.file, (3, 0));
    let (rings, _) = opener.session.descriptors();
    let swapped = JointSession::join(rings.duplicate().unwrap(), rings.duplicate().unwrap());
    assert!(swapped.is_err());
}

fn garbage_ends_the_session_only(mut opener: Opener) {
    let _other = opener.start("scribble");
    let one = transfer(opener.file, 0, 9);
    let limit = Some(Duration::from_millis(20));
    await_that("the session ends", || {
        let submitted = opener.submitter.submit(&[one]);
        let waited = opener.submitter.wait(limit);
        let is_over =
            |error| matches!(error, DelegatedError::Gone { .. } | DelegatedError::Corrupt);
        submitted.err().is_some_and(is_over) || waited.err().is_some_and(is_over)
    });
    serves(&opener.daemon);
    let Opener { session, submitter, daemon, .. } = opener;
    drop((session, submitter));
    await_that("the next session begins", || JointSession::start(WINDOW, 1).is_ok());
    serves(&daemon);
}
