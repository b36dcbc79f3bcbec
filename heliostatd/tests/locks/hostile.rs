//! Locks and clients that speak the protocol badly, or name what is others'.

use std::os::fd::AsRawFd;

use crate::support::{await_that, full, refused, Client, Daemon};
use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::lock::name::OWN_USER;
use heliostat_abi::lock::request::FIRST;
use heliostat_abi::lock::{Claim, Event, LockName, LockReply, LockRequest, Outcome, Shape};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{OwnRequest, Reply, Request, REQUEST_BODY_BYTES};
use heliostat_abi::session::restriction::Services;
use heliostat_base::bell::Bell;

/// A connection that asks the lock service.
struct Asking(Client);

impl Asking {
    fn new(daemon: &Daemon) -> Asking {
        let mut client = daemon.visit();
        client.hello();
        Asking(client)
    }

    fn reply(&mut self, request: &LockRequest) -> Reply {
        self.0.ask(&Request::Own(request.encode())).0
    }

    /// What is answered, or why nothing is.
    fn ask(&mut self, request: &LockRequest) -> Result<Option<LockReply>, Code> {
        match self.reply(request) {
            Reply::Own(own) => Ok(Some(LockReply::decode(&own).unwrap())),
            Reply::Done => Ok(None),
            Reply::Refused { code, .. } => Err(code),
            other => panic!("{other:?}"),
        }
    }

    fn open(&mut self, name: &str, shape: Shape) -> ObjectId {
        match self.ask(&open(name, shape)) {
            Ok(Some(LockReply::Opened { handle, .. })) => handle,
            other => panic!("{other:?}"),
        }
    }

    fn acquire(&mut self, handle: ObjectId) -> Event {
        match self.ask(&LockRequest::Acquire { handle, claim: Claim::Exclusive, wait: true }) {
            Ok(Some(LockReply::Outcome(event))) => event,
            other => panic!("{other:?}"),
        }
    }

    fn next(&mut self) -> Vec<Event> {
        match self.ask(&LockRequest::Next) {
            Ok(Some(LockReply::Events { events, .. })) => events,
            other => panic!("{other:?}"),
        }
    }

    fn show_bell(&mut self) -> Bell {
        let (near, far) = Bell::pair().unwrap();
        let request = Request::Own(LockRequest::Bell.encode());
        let reply = self.0.ask_with(&request, &[far.fd().as_raw_fd()]).0;
        assert_eq!(reply, Reply::Done);
        near
    }
}

fn release(ticket: ObjectId) -> LockRequest {
    LockRequest::Release { ticket, untouched: false }
}

fn open(name: &str, shape: Shape) -> LockRequest {
    LockRequest::Open { user: OWN_USER, name: LockName::parse(name).unwrap(), shape }
}

fn is_granted(event: &Event) -> bool {
    matches!(event.outcome, Outcome::Granted { .. })
}

#[test]
fn handles_and_tickets_of_others_and_of_nobody_are_not_there() {
    let daemon = Daemon::start();
    let (mut owner, mut other) = (Asking::new(&daemon), Asking::new(&daemon));
    let handle = owner.open("a", Shape::LOCK);
    let ticket = owner.acquire(handle).ticket;
    let (claim, wait) = (Claim::Exclusive, true);
    let none = ObjectId { index: u32::MAX, generation: u32::MAX };
    let next = ObjectId { generation: ticket.generation + 1, ..ticket };
    for (handle, ticket) in [(handle, ticket), (none, none), (ticket, handle), (handle, next)] {
        for request in [
            LockRequest::Acquire { handle, claim, wait },
            LockRequest::Arrive { handle },
            LockRequest::Reset { handle },
            LockRequest::Close { handle },
            release(ticket),
            LockRequest::Cancel { ticket },
        ] {
            assert_eq!(other.ask(&request), Err(Code::NotFound), "{request:?}");
        }
    }
    assert!(other.next().is_empty());
    assert_eq!(owner.ask(&release(ticket)), Ok(None));
    assert_eq!(owner.ask(&release(ticket)), Err(Code::NotFound), "once");
}

#[test]
fn bodies_of_garbage_are_refused_and_who_sends_nothing_else_is_ended() {
    let daemon = Daemon::start();
    let mut seed = 1u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 56) as u8
    };
    let mut ended = 0;
    for round in 0..40 {
        let mut asking = Asking::new(&daemon);
        for step in 0..9u16 {
            let mut body = [0; REQUEST_BODY_BYTES];
            body.iter_mut().for_each(|byte| *byte = random());
            let number = FIRST + (round + step) % 12;
            let record = Request::Own(OwnRequest { number, body }).encode(7);
            asking.0.socket.send(&record, &[]).unwrap();
            if let Ok((reply, ..)) = asking.0.receive() {
                assert_eq!(reply, refused(Code::BadRecord));
            }
        }
        ended += u32::from(asking.0.is_ended());
    }
    assert_eq!(ended, 40);
    let mut asking = Asking::new(&daemon);
    let handle = asking.open("a", Shape::LOCK);
    assert!(is_granted(&asking.acquire(handle)));
}

#[test]
fn what_does_not_fit_what_it_is_asked_of_is_refused() {
    let daemon = Daemon::start();
    let mut asking = Asking::new(&daemon);
    let barrier = asking.open("b", Shape::barrier(2).unwrap());
    let semaphore = asking.open("s", Shape::semaphore(2).unwrap());
    let claim = |handle, claim| LockRequest::Acquire { handle, claim, wait: true };
    for request in [
        claim(barrier, Claim::Exclusive),
        claim(semaphore, Claim::Shared),
        claim(semaphore, Claim::Permits(3)),
        LockRequest::Arrive { handle: semaphore },
        LockRequest::Reset { handle: semaphore },
    ] {
        assert_eq!(asking.ask(&request), Err(Code::BadRecord), "{request:?}");
    }
    assert_eq!(asking.ask(&open("s", Shape::LOCK)), Err(Code::BadState));
    let Ok(Some(LockReply::Outcome(waits))) = asking.ask(&LockRequest::Arrive { handle: barrier })
    else {
        panic!("no ticket")
    };
    let released = asking.ask(&release(waits.ticket));
    assert_eq!(released, Err(Code::BadState), "it holds nothing");
}

#[test]
fn a_bell_has_to_be_a_unix_socket_and_rings_for_what_is_there_already() {
    let daemon = Daemon::start();
    let (mut holder, mut waiter) = (Asking::new(&daemon), Asking::new(&daemon));
    let (first, second) = (holder.open("a", Shape::LOCK), waiter.open("a", Shape::LOCK));
    let ticket = holder.acquire(first).ticket;
    assert_eq!(waiter.acquire(second).outcome, Outcome::Queued);
    let null = std::fs::File::open("/dev/null").unwrap();
    let request = Request::Own(LockRequest::Bell.encode());
    let refusal = waiter.0.refusal(&request, &[null.as_raw_fd()]);
    assert_eq!(refusal, Code::BadRecord);
    assert_eq!(holder.ask(&release(ticket)), Ok(None));
    let bell = waiter.show_bell();
    assert_eq!(bell.wait(Some(60_000)), Ok(true));
    let told = waiter.next();
    assert!(told.len() == 1 && is_granted(&told[0]));
    // A second bell takes the place of the first, which ends.
    let again = waiter.show_bell();
    await_that("the first bell ends", || !bell.drain());
    assert_eq!(again.wait(Some(0)), Ok(false));
}

#[test]
fn a_bell_that_nobody_hears_holds_up_nobody() {
    let daemon = Daemon::start();
    let (mut one, mut other) = (Asking::new(&daemon), Asking::new(&daemon));
    let _deaf = other.show_bell();
    let handles = [one.open("a", Shape::LOCK), other.open("a", Shape::LOCK)];
    let mut held = one.acquire(handles[0]).ticket;
    for _ in 0..2000 {
        let waits = other.acquire(handles[1]).ticket;
        assert_eq!(one.ask(&release(held)), Ok(None));
        assert_eq!(other.ask(&release(waits)), Ok(None));
        held = one.acquire(handles[0]).ticket;
    }
    assert!(other.next().is_empty(), "what was released is not told");
}

#[test]
fn limits_are_told_by_their_name() {
    let daemon = Daemon::with(
        "[locks]\nlocks_per_user = 3\nhandles_per_session = 5\ntickets_per_session = 2\n",
        &[],
    );
    let mut asking = Asking::new(&daemon);
    let gate = Shape::semaphore(9).unwrap();
    let handle = asking.open("a", gate);
    let request = LockRequest::Acquire { handle, claim: Claim::Permits(1), wait: true };
    for _ in 0..2 {
        asking.ask(&request).unwrap();
    }
    assert_eq!(asking.reply(&request), full(Thing::LockTickets, Side::Session, 2));
    for _ in 0..4 {
        asking.open("a", gate);
    }
    assert_eq!(asking.reply(&open("a", gate)), full(Thing::LockHandles, Side::Session, 5));
    // Root and the owner of the control plane are limited by the node alone.
    let is_full = Asking::new(&daemon).ask(&open("d", gate));
    assert!(is_full.is_ok());
}

#[test]
fn a_session_that_ends_in_the_middle_of_everything_leaves_nothing() {
    let daemon = Daemon::start();
    let before = daemon.descriptors();
    let mut others = Asking::new(&daemon);
    for round in 0..8 {
        let mut asking = Asking::new(&daemon);
        let _bell = asking.show_bell();
        let lock = asking.open("a", Shape::LOCK);
        let barrier = asking.open("b", Shape::barrier(9).unwrap());
        let other = others.open("a", Shape::LOCK);
        asking.acquire(lock);
        for _ in 0..round {
            asking.acquire(lock);
            asking.ask(&LockRequest::Arrive { handle: barrier }).unwrap();
        }
        others.acquire(other);
        drop(asking);
        await_that("it has it", || others.next().iter().any(is_granted));
        assert_eq!(others.ask(&LockRequest::Close { handle: other }), Ok(None));
    }
    drop(others);
    await_that("nothing is left", || {
        let status = daemon.status();
        status["locks"]["locks"] == 0 && status["sessions"].as_array().is_none_or(Vec::is_empty)
    });
    await_that("descriptors are closed", || daemon.descriptors() == before);
}

#[test]
fn a_revoked_session_loses_all_and_hears_of_it() {
    let daemon = Daemon::start();
    let (mut revoked, mut next) = (Asking::new(&daemon), Asking::new(&daemon));
    let bell = revoked.show_bell();
    let (first, second) = (revoked.open("a", Shape::LOCK), next.open("a", Shape::LOCK));
    let ticket = revoked.acquire(first).ticket;
    assert_eq!(next.acquire(second).outcome, Outcome::Queued);
    // Both are of this process; the second asks anew afterwards.
    let pid = std::process::id();
    assert!(matches!(
        daemon.visit().ask(&Request::Revoke { pid }).0,
        Reply::Done | Reply::Text { .. }
    ));
    assert_eq!(bell.wait(Some(60_000)), Ok(true));
    assert!(!bell.drain());
    assert_eq!(revoked.ask(&release(ticket)), Err(Code::Revoked));
    assert_eq!(revoked.ask(&LockRequest::Next), Err(Code::Revoked));
    let mut later = Asking::new(&daemon);
    let handle = later.open("a", Shape::LOCK);
    assert!(is_granted(&later.acquire(handle)));
}

#[test]
fn restricted_sessions_and_visitors_have_no_locks() {
    let daemon = Daemon::start();
    let mut visitor = daemon.visit();
    let request = Request::Own(open("a", Shape::LOCK).encode());
    assert_eq!(visitor.ask(&request).0, refused(Code::BadState));
    let restrict = Request::Restrict { services: Services::MEMORY, pid: 4_000_000 };
    assert_eq!(visitor.ask(&restrict).0, Reply::Done);
    visitor.hello();
    assert_eq!(visitor.ask(&request).0, refused(Code::Denied));
}

#[test]
fn a_connection_that_is_closed_while_others_wait_frees_them() {
    let daemon = Daemon::start();
    let mut holder = Asking::new(&daemon);
    let handle = holder.open("a", Shape::LOCK);
    holder.acquire(handle);
    let mut waiters: Vec<_> = (0..50)
        .map(|_| {
            let mut waiter = Asking::new(&daemon);
            let bell = waiter.show_bell();
            let handle = waiter.open("a", Shape::LOCK);
            assert_eq!(waiter.acquire(handle).outcome, Outcome::Queued);
            (waiter, bell)
        })
        .collect();
    drop(holder);
    for (waiter, bell) in &mut waiters {
        assert_eq!(bell.wait(Some(60_000)), Ok(true));
        let told = waiter.next();
        assert!(is_granted(&told[0]));
        assert_eq!(waiter.ask(&release(told[0].ticket)), Ok(None));
    }
    assert_eq!(daemon.status()["locks"]["held"], 0);
}
