//! Clients that never leave connect(2): what they hold up costs nobody else's thread a wait.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use heliostat_abi::limits::CANDIDATES_MAX;
use heliostat_abi::name::NetAddress;
use heliostat_client::session;
use heliostat_stub_posix::net::channel::{Channel, Slot};
use heliostat_stub_posix::net::requests;
use heliostat_stub_posix::net::socket;
use heliostat_stub_posix::net::socket::Stage;
use support::pair::Listener;

const CHANNELS: usize = 250;
const CONNECTIONS: usize = 10;

/// Slots of many channels, all of them Connecting for good.
fn stuck(listener: &Listener) -> Vec<Slot> {
    support::until_standing();
    let node = session::standing().expect("a session").node;
    let address = NetAddress::new(([127, 0, 0, 1], listener.port()).into());
    let mut slots = Vec::new();
    for _ in 0..CHANNELS {
        for (entry, fd) in &requests::open(address).expect("granted").entries {
            let channel = Channel::map(*entry, fd, &node).expect("a channel");
            slots.extend(std::iter::from_fn(|| channel.take_slot()));
        }
    }
    slots
}

/// Times this thread has given its core away to wait.
fn waits() -> i64 {
    // SAFETY: all-zero bytes are a valid `rusage`, which the call fills.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &mut usage), 0);
        usage.ru_nvcsw
    }
}

#[test]
fn a_server_waits_for_nobody_before_it_answers() {
    let listener = Listener::new();
    let slots = stuck(&listener);
    assert!(slots.len() > 10 * CANDIDATES_MAX);
    let mut waited = 0;
    for _ in 0..CONNECTIONS {
        let mut plain = TcpStream::connect(("127.0.0.1", listener.port())).unwrap();
        plain.write_all(b"ask").unwrap();
        let server = listener.accept();
        assert_eq!(socket::at(server.index()).stage(), Stage::Undecided);
        assert_eq!(server.recv(&mut [0; 8], 0), Ok(3));
        // Long enough for any memory of waits that were in vain.
        std::thread::sleep(Duration::from_millis(100));
        let before = waits();
        assert_eq!(server.send(b"answer", 0), Ok(6));
        waited += waits() - before;
        let mut answer = [0; 6];
        plain.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"answer");
    }
    assert_eq!(waited, 0, "of {CONNECTIONS} answers");
    slots.into_iter().for_each(Slot::abandon);
}

#[test]
fn an_offer_that_came_after_the_accept_is_claimed_by_accepts_that_follow() {
    let listener = Listener::new();
    let slow = listener.connect_halfway();
    let server = listener.accept();
    assert_eq!(socket::at(server.index()).stage(), Stage::Undecided);
    let client = slow.end();
    // Each looks at a few, and other tests have some.
    let _others: Vec<_> = (0..40).map(|_| (listener.connect(), listener.accept())).collect();
    assert_eq!(socket::at(server.index()).stage(), Stage::Accepted);
    assert_eq!((client.send(b"ask", 0), server.recv(&mut [0; 8], 0)), (Ok(3), Ok(3)));
    assert!(client.is_direct() && server.is_direct());
}
