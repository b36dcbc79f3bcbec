//! The way of a grant: greet, listen, open, attach, end.

use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use crate::support::*;
use heliostat_abi::code::{Code, Native};
use heliostat_abi::limits::FDS_PER_REPLY_MAX;
use heliostat_abi::name::NetAddress;
use heliostat_abi::session::node::{self, State};
use heliostat_abi::session::record::{Reply, Request};
use heliostat_abi::session::report;
use heliostat_abi::stream::channel;
use heliostat_base::mapping::{Access, SharedMapping};

fn listener() -> (TcpListener, NetAddress) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = NetAddress::new(socket.local_addr().unwrap());
    (socket, address)
}

fn word(node: &SharedMapping, offset: usize) -> u32 {
    node.atomic_u32(offset).load(Ordering::Acquire)
}

#[test]
fn a_greeting_brings_a_node_page_that_cannot_be_written_and_an_own_report() {
    let daemon = Daemon::start();
    let (_client, welcome) = daemon.session();
    assert_eq!(word(&welcome.node, 0), node::MAGIC);
    assert_eq!(welcome.node.atomic_u64(node::BOOT).load(Ordering::Acquire), welcome.boot);
    assert_eq!(welcome.report.atomic_u32(0).load(Ordering::Acquire), report::MAGIC);
    let own = word(&welcome.node, node::session_word(welcome.session.index));
    assert_eq!(node::state(own, welcome.session.generation), State::Active);
    let raw = welcome.node_fd.as_raw_fd();
    assert!(SharedMapping::from_fd(raw, node::BYTES, Access::ReadWrite).is_err());
}

#[test]
fn both_ends_of_a_channel_see_the_same_memory() {
    let daemon = Daemon::start();
    let (mut server, at_server) = daemon.session();
    let (mut client, at_client) = daemon.session();
    let (socket, address) = listener();
    let registry = word(&at_client.node, node::REGISTRY);
    let (port, found) = server.listen(&socket);
    assert_eq!(found, address);
    assert_ne!(word(&at_client.node, node::REGISTRY), registry);

    let before = word(&at_server.node, node::port_word(port.index));
    let (entry, client_fd) = client.open(address).unwrap();
    assert_ne!(word(&at_server.node, node::port_word(port.index)), before);
    assert_eq!(entry.client, at_client.session);
    let state = word(&at_client.node, node::channel_word(entry.id.index));
    assert_eq!(node::state(state, entry.id.generation), State::Active);

    let attached = server.attach(port).unwrap();
    assert_eq!(attached.len(), 1);
    assert_eq!(attached[0].0.id, entry.id);
    let bytes = channel::bytes(entry.slots, entry.ring_bytes);
    let one = SharedMapping::from_fd(client_fd.as_raw_fd(), bytes, Access::ReadWrite).unwrap();
    let other_fd = attached[0].1.as_raw_fd();
    let other = SharedMapping::from_fd(other_fd, bytes, Access::ReadWrite).unwrap();
    let head: Vec<_> = (0..6).map(|place| word(&other, place * 4)).collect();
    let id = entry.id;
    let wanted =
        [channel::MAGIC, channel::VERSION, entry.slots, entry.ring_bytes, id.index, id.generation];
    assert_eq!(head, wanted);
    one.atomic_u64(channel::OFFERS).store(77, Ordering::Release);
    assert_eq!(other.atomic_u64(channel::OFFERS).load(Ordering::Acquire), 77);
    assert!(server.attach(port).unwrap().is_empty());
}

#[test]
fn an_address_nobody_listens_on_is_not_found() {
    let daemon = Daemon::start();
    let (mut client, _) = daemon.session();
    assert_eq!(client.open(listener().1).err(), Some((Code::NotFound, 0)));
}

#[test]
fn a_wildcard_listener_is_found_under_every_address() {
    let daemon = Daemon::start();
    let (mut server, _) = daemon.session();
    let (mut client, _) = daemon.session();
    let socket = TcpListener::bind("[::]:0").unwrap();
    let number = socket.local_addr().unwrap().port();
    let (port, _) = server.listen(&socket);
    for address in [format!("127.0.0.1:{number}"), format!("[::1]:{number}")] {
        let address = NetAddress::new(address.parse().unwrap());
        assert!(client.open(address).is_ok());
    }
    assert_eq!(server.attach(port).unwrap().len(), 2);
}

#[test]
fn many_channels_come_in_batches() {
    let daemon = Daemon::start();
    let (mut server, _) = daemon.session();
    let (mut client, _) = daemon.session();
    let (socket, address) = listener();
    let (port, _) = server.listen(&socket);
    let opened: Vec<_> = (0..20).map(|_| client.open(address).unwrap().0.id).collect();
    let mut attached = server.attach(port).unwrap();
    assert_eq!(attached.len(), FDS_PER_REPLY_MAX);
    attached.extend(server.attach(port).unwrap());
    let attached: Vec<_> = attached.iter().map(|(entry, _)| entry.id).collect();
    assert_eq!(attached, opened);
}

#[test]
fn only_a_listener_attaches() {
    let daemon = Daemon::start();
    let (mut server, _) = daemon.session();
    let (mut stranger, _) = daemon.session();
    let (port, _) = server.listen(&listener().0);
    assert_eq!(stranger.attach(port).err(), Some(Code::Denied));
    let unlisten = Request::Unlisten { port };
    assert_eq!(stranger.refusal(&unlisten, &[]), Code::Denied);
    assert_eq!(server.ask(&unlisten).0, Reply::Done);
    assert_eq!(server.attach(port).err(), Some(Code::Denied));
}

#[test]
fn a_session_that_leaves_takes_its_grants_along() {
    let daemon = Daemon::start();
    let (mut server, at_server) = daemon.session();
    let (socket, address) = listener();
    let (port, _) = server.listen(&socket);
    let before = daemon.descriptors();
    let (mut client, welcome) = daemon.session();
    let (entry, _) = client.open(address).unwrap();
    drop(client);
    let gone =
        |offset, generation| node::state(word(&at_server.node, offset), generation) == State::Free;
    await_that("the channel is free", || {
        gone(node::channel_word(entry.id.index), entry.id.generation)
    });
    await_that("the session is free", || {
        gone(node::session_word(welcome.session.index), welcome.session.generation)
    });
    assert!(server.attach(port).unwrap().is_empty());
    await_that("its descriptors are closed", || daemon.descriptors() == before);
}

#[test]
fn a_port_without_listeners_is_gone_for_clients() {
    let daemon = Daemon::start();
    let (mut server, _) = daemon.session();
    let (mut client, at_client) = daemon.session();
    let (socket, address) = listener();
    let (port, _) = server.listen(&socket);
    let (entry, _) = client.open(address).unwrap();
    assert_eq!(server.ask(&Request::Unlisten { port }).0, Reply::Done);
    let state = word(&at_client.node, node::channel_word(entry.id.index));
    assert_eq!(node::state(state, entry.id.generation), State::Free);
    assert_eq!(client.open(address).err(), Some((Code::NotFound, 0)));
    let (again, _) = server.listen(&socket);
    assert_ne!(again, port);
    assert!(client.open(address).is_ok());
}

#[test]
fn revoking_a_process_ends_its_grants_for_good() {
    let daemon = Daemon::start();
    let (mut server, _) = daemon.session();
    let (mut client, at_client) = daemon.session();
    let (socket, address) = listener();
    server.listen(&socket);
    let (entry, _) = client.open(address).unwrap();
    // Both sessions are of this process.
    let pid = std::process::id();
    assert_eq!(daemon.visit().ask(&Request::Revoke { pid }).0, Reply::Done);
    let state = word(&at_client.node, node::channel_word(entry.id.index));
    assert_eq!(node::state(state, entry.id.generation), State::Revoked);
    assert_eq!(client.refusal(&Request::Listen, &[socket.as_raw_fd()]), Code::Revoked);
    let unknown = Request::Revoke { pid: 1 };
    assert_eq!(daemon.visit().refusal(&unknown, &[]), Code::NotFound);
}

#[test]
fn status_explain_and_metrics_show_what_a_stub_reports() {
    let daemon = Daemon::start();
    let (mut server, welcome) = daemon.session();
    let (socket, address) = listener();
    server.listen(&socket);
    let entry = report::Entry {
        fd: 9,
        path: report::Path::Native(Native::NotLocal),
        accepted: true,
        local: address,
        peer: address,
        received: 5,
        sent: 6,
    };
    welcome.report.copy_in(report::entry(3), &entry.encode()).unwrap();
    let counted = report::counter(report::Counter::Bells);
    welcome.report.atomic_u64(counted).store(42, Ordering::Relaxed);

    let status = daemon.status();
    assert_eq!(status["sessions"][0]["program"], "test");
    assert_eq!(status["sessions"][0]["counters"]["bells"], 42);
    assert_eq!(status["ports"][0]["address"], address.to_string());
    let pid = std::process::id();
    let explained = daemon.visit().text(&Request::Explain { pid });
    let explained: serde_json::Value = serde_json::from_str(&explained).unwrap();
    let connection = &explained["connections"][0];
    assert_eq!(
        (&connection["path"], &connection["reason"]),
        (&"native".into(), &"NotLocal".into())
    );
    assert_eq!((&connection["received"], &connection["sent"]), (&5.into(), &6.into()));
    assert!(daemon.visit().text(&Request::Metrics).contains("heliostat_stub_bells_total 42"));
    drop(server);
    await_that("the sum stays after the session", || {
        daemon.status()["sessions"].as_array().unwrap().is_empty()
            && daemon.visit().text(&Request::Metrics).contains("heliostat_stub_bells_total 42")
    });
}
