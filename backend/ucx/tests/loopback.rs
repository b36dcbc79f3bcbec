//! Nodes over UCX on loopback, by the suite of our own TCP transport. Without UCX nothing is tested,
//! which the tests say.

#[path = "../../transport/tests/loopback/station.rs"]
mod station;
#[path = "../../transport/tests/loopback/suite.rs"]
mod suite;

use std::io::Write;
use std::net::TcpStream;

use heliostat_backend_transport::address::Address;
use heliostat_backend_transport::tcp::Tcp;
use heliostat_backend_transport::transport::Transport;
use heliostat_backend_ucx::{version, Ucx};
use station::Station;

/// Where nodes listen: loopback, or the address of the device that is tested (`verify/roce`).
fn address() -> std::net::SocketAddr {
    let host = std::env::var("HELIOSTAT_TEST_HOST").unwrap_or_else(|_| "127.0.0.1".into());
    format!("{host}:0").parse().expect("an address")
}

fn ucx() -> Ucx {
    Ucx::listen(address()).expect("UCX listens")
}

/// Whether there is UCX here; a machine without it is no failure of ours.
fn is_here() -> bool {
    match version() {
        Ok((major, minor)) => {
            println!("UCX {major}.{minor}");
            true
        }
        Err(why) => {
            println!("not tested: {why}");
            false
        }
    }
}

macro_rules! over_ucx {
    ($($test:ident),*) => {$(
        #[test]
        fn $test() {
            if is_here() {
                suite::$test(ucx);
            }
        }
    )*};
}

over_ucx!(
    echoes_between_threads,
    calls_at_once_have_their_own_answers,
    leaving_is_told_and_a_node_can_come_back,
    another_secret_is_refused,
    an_address_where_nobody_listens_is_not_joined,
    three_processes_echo,
    a_killed_process_is_noticed_by_the_end_of_its_link,
    a_stopped_process_is_noticed_by_its_silence
);

/// A node takes what is there: UCX, or else TCP, chosen when it starts.
#[test]
fn a_node_can_choose_its_transport_when_it_starts() {
    fn any() -> Box<dyn Transport> {
        let at = address();
        match Ucx::listen(at) {
            Ok(ucx) => Box::new(ucx),
            Err(_) => Box::new(Tcp::listen(at).expect("listens")),
        }
    }
    suite::echoes_between_threads(any);
}

#[test]
fn child_node() {
    suite::be_child_node(ucx);
}

/// Two versions of UCX do not understand each other, so that ours may never be compared; either way
/// neither node is harmed. `HELIOSTAT_UCX_OTHER` names the library of another version.
#[test]
fn another_version_of_ucx_is_not_joined() {
    match std::env::var("HELIOSTAT_UCX_OTHER") {
        Ok(other) if is_here() => {
            suite::another_version_is_not_joined(ucx, &[("HELIOSTAT_UCX", &other)])
        }
        _ => println!("not tested: there is no other UCX"),
    }
}

/// What UCX itself makes of garbage is its own matter; nodes that are joined go on.
#[test]
fn garbage_at_the_port_of_ucx_leaves_joined_nodes_alone() {
    if !is_here() {
        return;
    }
    let (one, two) = (Station::start(1, 7, ucx), Station::start(2, 7, ucx));
    one.join(two.address);
    let Address::Ucx(port) = one.address else { panic!("it listens by UCX") };
    for count in 0..50u32 {
        let mut stream = TcpStream::connect(port).expect("it listens");
        let garbage: Vec<u8> =
            (0..count * 40).map(|at| at.wrapping_mul(count * 7 + 3) as u8).collect();
        // Where it has hung up already there is nothing to say.
        let _ = stream.write_all(&garbage);
    }
    let payload = suite::pattern(4 << 20);
    assert!(one.call(2, payload.clone()).expect("answered") == payload);
    assert!(two.call(1, payload.clone()).expect("answered") == payload);
}
