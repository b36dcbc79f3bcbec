//! Shared listeners: what their clients hold of the control plane's descriptors.

mod support;

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use heliostat_abi::code::Thing;
use heliostat_abi::listener::rule::Peek;
use heliostat_abi::listener::{ListenerReply, ListenerRequest, Rule};
use heliostat_abi::session::record::{Reply, Request};
use rustix::process::{setrlimit, Resource, Rlimit};
use support::*;

/// Descriptors that the control plane may have, and this process.
const DESCRIPTORS: u64 = 1024;
/// Connections that nobody has taken: a quarter of them, and what one batch brings for each listener.
const HELD_MAX: u64 = DESCRIPTORS / 4 + LISTENERS as u64 * 16;
const LISTENERS: usize = 4;
const CLIENTS: usize = 150;

/// A client becomes a worker of what this socket listens on, and waits.
fn join(client: &mut Client, socket: &TcpListener) -> Vec<heliostat_base::fd::OwnedFd> {
    // The deadline of a silent client is longer than this test.
    let rule = Some(Rule::Content(Peek { bytes_max: 64, deadline_ms: 60_000 }));
    let request = Request::Own(ListenerRequest::Join { rule }.encode());
    let (Reply::Own(reply), ends) = client.ask_with(&request, &[socket.as_raw_fd()]) else {
        panic!("not joined")
    };
    let Ok(ListenerReply::Joined { worker, .. }) = ListenerReply::decode(&reply) else {
        panic!("not joined")
    };
    let ready = Request::Own(ListenerRequest::Ready { worker }.encode());
    assert_eq!(client.ask(&ready).0, Reply::Done);
    ends
}

fn sum(daemon: &Daemon, what: &str) -> u64 {
    let status = daemon.status();
    let listeners = status["listeners"].as_array().unwrap();
    listeners.iter().map(|it| it[what].as_u64().unwrap()).sum()
}

#[test]
fn silent_clients_of_shared_listeners_leave_descriptors_to_others() {
    let limit = Rlimit { current: Some(DESCRIPTORS), maximum: Some(DESCRIPTORS) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let daemon = Daemon::start();
    let (mut worker, _) = daemon.session();
    let sockets: Vec<_> =
        (0..LISTENERS).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let _ends: Vec<_> = sockets.iter().map(|socket| join(&mut worker, socket)).collect();
    let clients: Vec<_> = (0..CLIENTS)
        .flat_map(|_| {
            sockets.iter().map(|it| TcpStream::connect(it.local_addr().unwrap()).unwrap())
        })
        .collect();
    await_that("as many are held as may be", || sum(&daemon, "held") >= DESCRIPTORS / 4);
    assert!(sum(&daemon, "held") <= HELD_MAX, "{}", sum(&daemon, "held"));
    // Others have their descriptors.
    let (mut other, _) = daemon.session();
    let more = TcpListener::bind("127.0.0.1:0").unwrap();
    other.listen(&more);
    // Those of workers count too: a few hundred do not fit any more.
    let refused = (0..DESCRIPTORS).find_map(|_| {
        let rule = Some(Rule::LeastLoad);
        let request = Request::Own(ListenerRequest::Join { rule }.encode());
        match other.ask_with(&request, &[more.as_raw_fd()]).0 {
            Reply::Refused { bound, .. } => Some(bound.thing),
            _ => None,
        }
    });
    assert_eq!(refused, Some(Thing::Descriptors));
    drop(clients);
}
