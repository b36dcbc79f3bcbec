//! A node whose process has no descriptor left: nobody new comes in, and everybody else is served.
//!
//! Alone in its process, whose limit it changes.

use std::time::Duration;

#[path = "loopback/rest.rs"]
#[allow(dead_code)]
mod rest;
#[path = "loopback/station.rs"]
#[allow(dead_code)]
mod station;

use heliostat_backend_transport::address::Address;
use heliostat_backend_transport::tcp::Tcp;
use rest::processor_ns;
use rustix::net::{connect, socket, AddressFamily, SocketType};
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use station::Station;

fn tcp() -> Tcp {
    Tcp::listen("127.0.0.1:0".parse().expect("an address")).expect("listens")
}

fn limit_descriptors(current: Option<u64>) {
    let limit = Rlimit { current, ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).expect("within the maximum");
}

#[test]
fn without_descriptors_joined_nodes_go_on_and_the_port_is_looked_at_now_and_then() {
    let before = getrlimit(Resource::Nofile).current;
    let (one, two) = (Station::start(1, 7, tcp), Station::start(2, 7, tcp));
    one.join(two.address);
    let strangers: Vec<_> = (0..8)
        .map(|_| socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket"))
        .collect();
    let start_ns = processor_ns();
    // Every number below is in use; those who knock have sockets already.
    limit_descriptors(Some(3));
    let Address::Tcp(port) = one.address else { panic!("it listens by TCP") };
    strangers.iter().for_each(|stranger| connect(stranger, &port).expect("the kernel takes it"));
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(one.call(2, vec![5; 10_000]), Ok(vec![5; 10_000]));
    }
    limit_descriptors(before);
    let ran_ns = processor_ns() - start_ns;
    println!("{} us of processor", ran_ns / 1000);
    assert!(ran_ns < 40_000_000, "{ran_ns} ns: it spins");
    drop(strangers);
    let three = Station::start(3, 7, tcp);
    three.join(one.address);
}
