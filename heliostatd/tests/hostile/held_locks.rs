//! Programs that hold the kernel's lock of a socket that the control plane has as well.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use crate::support::beside::*;
use crate::support::faults::*;
use crate::support::*;
use heliostat_abi::listener::{ListenerReply, ListenerRequest, Rule};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_base::fd::OwnedFd;
use rustix::net::sockopt::{set_socket_timeout, Timeout};

/// This program's second self begins here.
#[test]
fn holds_a_lock_where_it_is_told_to() {
    hold_if_told();
}

/// What people ask is answered within this.
const PROMPT: Duration = Duration::from_secs(1);
/// The thread of a listener, and one that examines sockets.
const LISTENER: &str = "listener";
const EXAMINER: &str = "examiner";

fn hold(socket: i32, by: By) -> Option<LockHolder> {
    let _guard = STARTS.write();
    // SAFETY: its owner is a value of the test's that outlives this call.
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    LockHolder::of(socket, by, "held_locks::holds_a_lock_where_it_is_told_to")
}

/// Threads of the daemon with this name that wait for a lock, which no signal ends.
fn kept(daemon: &Daemon, name: &str) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap();
    let stats =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
    stats.filter(|stat| stat.contains(&format!("({name}) D"))).count()
}

/// A worker of a listener of its own.
struct Sharing {
    client: Client,
    socket: TcpListener,
    queue: OwnedFd,
    worker: ObjectId,
}

impl Sharing {
    fn begin(daemon: &Daemon, uid: u32) -> Sharing {
        as_user(uid, || {
            let (mut client, _) = daemon.session();
            let socket = TcpListener::bind("127.0.0.1:0").unwrap();
            let request = join();
            let (reply, mut ends) = client.ask_with(&request, &[socket.as_raw_fd()]);
            let Reply::Own(reply) = reply else { panic!("{reply:?}") };
            let Ok(ListenerReply::Joined { worker, .. }) = ListenerReply::decode(&reply) else {
                panic!("not joined")
            };
            let queue = ends.swap_remove(0);
            let mut sharing = Sharing { client, socket, queue, worker };
            sharing.tell(ListenerRequest::Ready { worker });
            sharing
        })
        .unwrap()
    }

    fn tell(&mut self, request: ListenerRequest) {
        assert_eq!(self.client.ask(&Request::Own(request.encode())).0, Reply::Done);
    }

    fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    /// Its connections reach it.
    fn serves(&self) {
        let _client = TcpStream::connect(self.address()).unwrap();
        set_socket_timeout(&self.queue, Timeout::Recv, Some(WATCHDOG)).unwrap();
        let mut record = [0; 64];
        let taken = heliostat_base::packet::receive_one(self.queue.as_raw_fd(), &mut record, 0);
        assert!(taken.unwrap().1.is_some());
    }

    /// What the control plane says of it.
    fn told(&self, daemon: &Daemon, what: &str) -> u64 {
        let status = daemon.status();
        let address = self.address().to_string();
        let listeners = status["listeners"].as_array().unwrap();
        let own = listeners.iter().find(|it| it["address"] == address.as_str());
        own.map_or(0, |it| it[what].as_u64().unwrap())
    }
}

fn join() -> Request {
    Request::Own(ListenerRequest::Join { rule: Some(Rule::LeastLoad) }.encode())
}

/// All others go on: another user with every service, root, whoever asks, and other listeners.
fn all_go_on(daemon: &Daemon, beside: &Beside, others: &[&Sharing]) {
    for uid in [0, ATTACKERS[0], NEIGHBOUR] {
        let asked = Instant::now();
        as_user(uid, || assert!(daemon.visit().text(&Request::Status).contains("\"sessions\"")));
        assert!(asked.elapsed() < PROMPT, "{uid} waited for {:?}", asked.elapsed());
    }
    others.iter().for_each(|sharing| sharing.serves());
    Sharing::begin(daemon, NEIGHBOUR).serves();
    Sharing::begin(daemon, ATTACKERS[0]).serves();
    beside.await_turn();
}

#[test]
fn who_holds_the_lock_of_its_queue_holds_up_its_own_listener_alone() {
    if !may_become_others() {
        return;
    }
    let daemon = Daemon::as_unit("");
    let mut attacker = Sharing::begin(&daemon, ATTACKERS[0]);
    let others = [NEIGHBOUR, ATTACKERS[0]].map(|uid| Sharing::begin(&daemon, uid));
    let beside = Beside::start(&daemon);
    let _clients = [(); 3].map(|()| TcpStream::connect(attacker.address()).unwrap());
    await_that("all lie in its queue", || attacker.told(&daemon, "given") == 3);
    let Some(holder) = hold(attacker.queue.as_raw_fd(), By::Receive) else { return };
    let worker = attacker.worker;
    attacker.tell(ListenerRequest::Drain { worker, back: false });
    await_that("its thread is kept", || kept(&daemon, LISTENER) == 1);
    all_go_on(&daemon, &beside, &others.each_ref());
    await_that("its thread is kept still", || kept(&daemon, LISTENER) == 1);
    // Orders are taken for it, and are carried out when it is let go: more than a few are refused.
    let more = ListenerRequest::Drain { worker, back: true };
    let refused =
        (0..1000).find(|_| attacker.client.ask(&Request::Own(more.encode())).0 != Reply::Done);
    assert!(refused.is_some_and(|count| count > 100), "{refused:?}");
    all_go_on(&daemon, &beside, &others.each_ref());
    drop(holder);
    await_that("its thread goes on", || attacker.told(&daemon, "taken_back") >= 2);
    await_that("none is kept", || kept(&daemon, LISTENER) == 0);
    beside.finish(&daemon);
}

#[test]
fn a_thread_that_is_kept_when_its_listener_ends_ends_when_it_is_let_go() {
    if !may_become_others() {
        return;
    }
    let daemon = Daemon::as_unit("");
    let beside = Beside::start(&daemon);
    let mut attacker = Sharing::begin(&daemon, ATTACKERS[0]);
    // It holds the lock of the listening socket: the next accept(2) waits, and so would we for its address.
    let address = attacker.address();
    let Some(holder) = hold(attacker.socket.as_raw_fd(), By::Option) else { return };
    let _client = TcpStream::connect(address).unwrap();
    await_that("its thread is kept", || kept(&daemon, LISTENER) == 1);
    all_go_on(&daemon, &beside, &[]);
    let worker = attacker.worker;
    attacker.tell(ListenerRequest::Leave { worker });
    let is_gone = || daemon.status()["listeners"].as_array().unwrap().is_empty();
    await_that("the listener is gone", is_gone);
    await_that("its thread is kept still", || kept(&daemon, LISTENER) == 1);
    drop(attacker);
    all_go_on(&daemon, &beside, &[]);
    drop(holder);
    await_that("its thread has ended", || kept(&daemon, LISTENER) == 0);
    beside.finish(&daemon);
}

#[test]
fn sockets_whose_lock_is_held_are_examined_by_their_users_threads_alone() {
    if !may_become_others() {
        return;
    }
    let daemon = Daemon::as_unit("");
    let beside = Beside::start(&daemon);
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let Some(holder) = hold(socket.as_raw_fd(), By::Option) else { return };
    let mut asked: Vec<Client> = (0..20)
        .map(|turn| {
            let request = if turn % 2 == 0 { Request::Listen } else { join() };
            let client = as_user(ATTACKERS[0], || daemon.session().0).unwrap();
            client.socket.send(&request.encode(7), &[socket.as_raw_fd()]).unwrap();
            client
        })
        .collect();
    await_that("threads are kept", || kept(&daemon, EXAMINER) == 8);
    let mut other = as_user(ATTACKERS[1], || daemon.session().0).unwrap();
    other.socket.send(&Request::Listen.encode(7), &[socket.as_raw_fd()]).unwrap();
    await_that("another user's is kept too", || kept(&daemon, EXAMINER) == 9);
    let asked_at = Instant::now();
    assert!(daemon.status()["sessions"].as_array().unwrap().len() > 20);
    assert!(asked_at.elapsed() < PROMPT);
    beside.await_turn();
    // Who asks something else has given up.
    let mut hasty = asked.remove(0);
    hasty.socket.send(&Request::Status.encode(8), &[]).unwrap();
    assert!(matches!(hasty.receive().unwrap(), (Reply::Refused { .. }, 7, _)));
    assert!(matches!(hasty.receive().unwrap(), (Reply::Text { .. }, 8, _)));
    drop(holder);
    for client in &mut asked {
        let (reply, sequence, _) = client.receive().unwrap();
        let is_good = matches!(reply, Reply::Listening { .. } | Reply::Own(_));
        assert!(is_good && sequence == 7, "{reply:?}");
    }
    assert_eq!(other.receive().unwrap().1, 7);
    await_that("none is kept", || kept(&daemon, EXAMINER) == 0);
    drop((asked, other));
    beside.finish(&daemon);
}
