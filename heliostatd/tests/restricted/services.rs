//! What a connection may ask that was restricted before it was handed on.

use std::net::TcpListener;
use std::os::fd::AsRawFd;

use crate::support::*;
use heliostat_abi::code::Code;
use heliostat_abi::limits::DESTINATIONS_MAX;
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::session::record::{Reply, Request};
use heliostat_abi::session::restriction::{Destination, Services};
use heliostat_abi::snapshot::region::{RegionName, OWN_USER};

const PID: u32 = 4_000_000;

fn listener() -> (TcpListener, NetAddress) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = NetAddress::new(socket.local_addr().unwrap());
    (socket, address)
}

fn code(answer: Reply) -> Code {
    match answer {
        Reply::Refused { code, .. } => code,
        other => panic!("{other:?}"),
    }
}

fn allow(client: &mut Client, address: NetAddress) -> Reply {
    let destination = Destination { host: Some(address.ip), ports: (address.port, address.port) };
    client.ask(&Request::Allow { destination }).0
}

/// A session that may use `services`, with streams to `address`.
fn restricted(daemon: &Daemon, services: Services, address: NetAddress) -> Client {
    let mut client = daemon.visit();
    assert_eq!(allow(&mut client, address), Reply::Done);
    assert_eq!(client.ask(&Request::Restrict { services, pid: PID }).0, Reply::Done);
    client.hello();
    client
}

#[test]
fn streams_lead_to_allowed_destinations_only() {
    let daemon = Daemon::start();
    let (mut server, _) = daemon.session();
    let ((one, allowed), (other, forbidden)) = (listener(), listener());
    server.listen(&one);
    server.listen(&other);
    let mut client = restricted(&daemon, Services::STREAMS, allowed);
    assert!(client.open(allowed).is_ok());
    assert_eq!(client.open(forbidden).unwrap_err().0, Code::Denied);
    let mut without = restricted(&daemon, Services::FILES, allowed);
    assert_eq!(without.open(allowed).unwrap_err().0, Code::Denied);
}

#[test]
fn a_restriction_is_closed_for_good_and_only_before_the_greeting() {
    let daemon = Daemon::start();
    let (_, address) = listener();
    let mut client = restricted(&daemon, Services::STREAMS, address);
    assert_eq!(code(allow(&mut client, address)), Code::Denied);
    let wider = Request::Restrict { services: Services::STREAMS.and(Services::FILES), pid: 1 };
    assert_eq!(code(client.ask(&wider).0), Code::Denied);
    let (mut greeted, _) = daemon.session();
    assert_eq!(code(greeted.ask(&wider).0), Code::BadState);
    assert_eq!(code(allow(&mut greeted, address)), Code::BadState);
    let mut waiting = daemon.visit();
    assert_eq!(waiting.ask(&Request::Restrict { services: Services::NONE, pid: 1 }).0, Reply::Done);
    assert_eq!(code(allow(&mut waiting, address)), Code::Denied);
}

#[test]
fn nothing_that_concerns_others_may_be_asked() {
    let daemon = Daemon::start();
    let (_, address) = listener();
    let mut client = restricted(&daemon, Services::STREAMS.and(Services::FILES), address);
    let name = RegionName::parse("model").unwrap();
    let region = ObjectId { index: 0, generation: 1 };
    let forbidden = [
        Request::Status,
        Request::Explain { pid: PID },
        Request::Metrics,
        Request::Revoke { pid: daemon.pid() },
        Request::Stop,
        Request::Consumers { region },
        Request::Unpublish { region },
        Request::Detach { region, consumer: region },
    ];
    for request in forbidden {
        assert_eq!(code(client.ask(&request).0), Code::Denied, "{request:?}");
    }
    let file = std::fs::File::open("/dev/null").unwrap();
    let fds = [file.as_raw_fd(); 2];
    let publish = Request::Publish { name: name.clone() };
    assert_eq!(code(client.ask_with(&publish, &fds).0), Code::Denied);
    let attach = Request::AttachRegion { name, owner: OWN_USER };
    assert_eq!(code(client.ask_with(&attach, &fds[..1]).0), Code::Denied);
    assert_eq!(daemon.status()["sessions"].as_array().unwrap().len(), 1);
}

#[test]
fn what_it_shows_itself_may_be_registered_and_leased_by_service() {
    let daemon = Daemon::start();
    let (socket, address) = listener();
    let mut streams = restricted(&daemon, Services::STREAMS, address);
    let (port, found) = streams.listen(&socket);
    assert_eq!(found, address);
    assert!(streams.attach(port).unwrap().is_empty());
    let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    let lease = |client: &mut Client| client.ask_with(&Request::Lease, &[file.as_raw_fd()]).0;
    assert_eq!(code(lease(&mut streams)), Code::Denied);
    let mut files = restricted(&daemon, Services::FILES, address);
    assert!(!matches!(lease(&mut files), Reply::Refused { .. }));
    let listen = files.ask_with(&Request::Listen, &[socket.as_raw_fd()]).0;
    assert_eq!(code(listen), Code::Denied);
}

#[test]
fn destinations_are_limited_and_people_see_whom_the_session_serves() {
    let daemon = Daemon::start();
    let (_, address) = listener();
    let mut client = daemon.visit();
    (0..DESTINATIONS_MAX).for_each(|_| assert_eq!(allow(&mut client, address), Reply::Done));
    assert_eq!(code(allow(&mut client, address)), Code::Full);
    let restrict = Request::Restrict { services: Services::NONE, pid: PID };
    assert_eq!(client.ask(&restrict).0, Reply::Done);
    client.hello();
    let status = daemon.status();
    assert_eq!(status["sessions"][0]["pid"], PID);
    assert_eq!(status["sessions"][0]["restricted_by"], std::process::id());
}

#[test]
fn who_restricts_itself_under_another_number_is_found_by_its_own() {
    let daemon = Daemon::start();
    let (_, address) = listener();
    let _client = restricted(&daemon, Services::STREAMS, address);
    let pid = std::process::id();
    let explained = daemon.visit().text(&Request::Explain { pid });
    assert!(explained.contains("\"test\""), "{explained}");
    assert_eq!(daemon.visit().ask(&Request::Revoke { pid }).0, Reply::Done);
    assert_eq!(daemon.status()["sessions"][0]["revoked"], true);
}
