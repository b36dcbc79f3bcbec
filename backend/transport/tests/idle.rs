//! Nodes that are joined and have nothing to do use no processor but for their signs of life.
//!
//! Alone in its process, since it measures the process.

#[path = "loopback/rest.rs"]
mod rest;
#[path = "loopback/station.rs"]
#[allow(dead_code)]
mod station;

use heliostat_backend_transport::tcp::Tcp;
use station::Station;

fn tcp() -> Tcp {
    Tcp::listen("127.0.0.1:0".parse().expect("an address")).expect("listens")
}

#[test]
fn two_joined_nodes_at_rest_run_for_less_than_two_percent_of_a_core() {
    let (one, two) = (Station::start(1, 7, tcp), Station::start(2, 7, tcp));
    one.join(two.address);
    one.call(2, vec![1; 100_000]).expect("answered");
    rest::assert_at_rest();
    assert!(one.lost.try_recv().is_err(), "they stay joined");
}
