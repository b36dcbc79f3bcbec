//! Clients that mean no good: the daemon survives, answers others, and keeps nothing of theirs.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;

use crate::support::*;
use heliostat_abi::code::Code;
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::session::record::{Reply, Request, REQUEST_BYTES};
use heliostat_base::sys::Errno;

/// xorshift64*: the same bytes in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

#[test]
fn what_is_no_listening_tcp_socket_is_no_proof() {
    let daemon = Daemon::start();
    let (mut client, _) = daemon.session();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let connected = TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
    let datagram = UdpSocket::bind("127.0.0.1:0").unwrap();
    let file = std::fs::File::open("/dev/zero").unwrap();
    let (_one, pair) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut with = |fd| client.refusal(&Request::Listen, &[fd]);
    assert_eq!(with(connected.as_raw_fd()), Code::BadState);
    assert_eq!(with(datagram.as_raw_fd()), Code::BadRecord);
    assert_eq!(with(file.as_raw_fd()), Code::BadRecord);
    assert_eq!(with(pair.as_raw_fd()), Code::BadRecord);
    client.listen(&tcp);
}

#[test]
fn wrong_numbers_of_descriptors_are_refused_and_closed() {
    let daemon = Daemon::start();
    let (mut client, _) = daemon.session();
    let before = daemon.descriptors();
    let file = std::fs::File::open("/dev/null").unwrap();
    let fds = [file.as_raw_fd(); 16];
    assert_eq!(client.refusal(&Request::Listen, &[]), Code::BadRecord);
    assert_eq!(client.refusal(&Request::Listen, &fds[..2]), Code::BadRecord);
    assert_eq!(client.refusal(&Request::Status, &fds), Code::BadRecord);
    await_that("they are closed", || daemon.descriptors() == before);
}

#[test]
fn a_client_that_goes_on_sending_rubbish_is_ended() {
    let daemon = Daemon::start();
    let (mut client, _) = daemon.session();
    for _ in 0..9 {
        client.socket.send(&[0xff; REQUEST_BYTES], &[]).unwrap();
        let (reply, _, _) = client.receive().unwrap();
        assert_eq!(reply, refused(Code::BadRecord));
    }
    assert!(client.is_ended());
}

#[test]
fn another_protocol_version_is_told_so() {
    let daemon = Daemon::start();
    let mut record = Request::Status.encode(1);
    record[4] = 99;
    let mut client = daemon.visit();
    client.socket.send(&record, &[]).unwrap();
    let (reply, _, _) = client.receive().unwrap();
    assert_eq!(reply, refused(Code::BadVersion));
}

#[test]
fn grants_need_a_greeting_and_only_one() {
    let daemon = Daemon::start();
    let mut visitor = daemon.visit();
    let address = NetAddress::new("127.0.0.1:1".parse().unwrap());
    let port = ObjectId { index: 0, generation: 1 };
    for request in [Request::Open { address }, Request::Attach { port }] {
        assert_eq!(visitor.refusal(&request, &[]), Code::BadState);
    }
    visitor.hello();
    assert_eq!(visitor.refusal(&Request::Hello { program: "x".into() }, &[]), Code::BadState);
}

#[test]
fn random_messages_from_300_clients_leave_nothing_behind() {
    let daemon = Daemon::start();
    let before = daemon.descriptors();
    let file = std::fs::File::open("/dev/null").unwrap();
    for seed in 1..=300 {
        let mut random = Random(seed);
        let client = daemon.visit();
        for _ in 0..20 {
            // A third are records with one field spoilt, the rest are noise of any length.
            let mut bytes = match random.next() % 3 {
                0 => Request::Attach { port: ObjectId::default() }.encode(1).to_vec(),
                1 => random.bytes(REQUEST_BYTES),
                _ => {
                    let length = 1 + random.next() as usize % 300;
                    random.bytes(length)
                }
            };
            let at = random.next() as usize % bytes.len();
            bytes[at] = random.next() as u8;
            let fds = vec![file.as_raw_fd(); random.next() as usize % 5];
            if client.socket.send(&bytes, &fds).is_err() {
                break;
            }
        }
    }
    await_that("all are gone", || daemon.descriptors() == before);
    assert_eq!(daemon.status()["sessions"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_client_that_never_reads_is_dropped_while_others_are_served() {
    let daemon = Daemon::start();
    let deaf = daemon.visit();
    let request = Request::Status.encode(1);
    await_that("the deaf one is dropped", || {
        let sent = deaf.socket.send(&request, &[]);
        assert!(daemon.status()["pid"].is_number());
        matches!(sent, Err(Errno(libc::EPIPE | libc::ECONNRESET)))
    });
}

#[test]
fn a_socket_that_lingers_on_close_delays_nobody() {
    let daemon = Daemon::start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let deaf = daemon.visit();
    let mut own = Vec::new();
    for _ in 0..3 {
        let mut full = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        full.set_nonblocking(true).unwrap();
        while std::io::Write::write(&mut full, &[0; 65536]).is_ok() {}
        let hour = Some(std::time::Duration::from_secs(3600));
        rustix::net::sockopt::set_socket_linger(&full, hour).unwrap();
        deaf.socket.send(&Request::Status.encode(1), &[full.as_raw_fd()]).unwrap();
        own.push(Brief(full));
    }
    // A wait of an hour would outlast the client's own deadline.
    assert!(daemon.status()["pid"].is_number());
    drop(deaf);
    assert!(daemon.status()["pid"].is_number());
}

/// A full socket of the test's own. Should it be the last one, it is not this test that lingers,
/// however it ends.
struct Brief(TcpStream);

impl Drop for Brief {
    fn drop(&mut self) {
        let _ = rustix::net::sockopt::set_socket_linger(&self.0, None);
    }
}

#[test]
fn any_order_of_well_formed_requests_is_answered() {
    let daemon = Daemon::with("[limits]\nchannels_per_session = 50\n", &[]);
    let before = daemon.descriptors();
    let mut random = Random(7);
    let sockets: Vec<_> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addresses: Vec<_> =
        sockets.iter().map(|socket| NetAddress::new(socket.local_addr().unwrap())).collect();
    let mut clients: Vec<_> = (0..20).map(|_| daemon.visit()).collect();
    for _ in 0..3000 {
        let place = random.next() as usize % clients.len();
        let which = random.next() as usize % sockets.len();
        let port = ObjectId { index: random.next() as u32 % 5, generation: 1 };
        let (request, fd) = match random.next() % 20 {
            0..=2 => (Request::Hello { program: "x".into() }, None),
            3..=5 => (Request::Listen, Some(sockets[which].as_raw_fd())),
            6 => (Request::Unlisten { port }, None),
            7..=13 => (Request::Open { address: addresses[which] }, None),
            14..=17 => (Request::Attach { port }, None),
            18 => (Request::Explain { pid: std::process::id() }, None),
            _ => {
                clients[place] = daemon.visit();
                continue;
            }
        };
        let (reply, fds) = clients[place].ask_with(&request, fd.as_slice());
        if let Reply::Channels { entries, .. } = &reply {
            assert_eq!(entries.len(), fds.len());
        }
    }
    drop(clients);
    await_that("all are gone", || daemon.descriptors() == before);
    assert_eq!(daemon.status()["channels"], 0);
}

#[test]
fn an_empty_message_ends_the_connection() {
    let daemon = Daemon::start();
    let mut client = daemon.visit();
    client.socket.send(&[], &[]).unwrap();
    assert!(client.is_ended());
}
