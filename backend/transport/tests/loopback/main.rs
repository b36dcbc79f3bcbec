//! Nodes over our own TCP transport on loopback, and what strangers do to its port.

mod station;
mod strangers;
mod suite;

use heliostat_backend_transport::tcp::Tcp;
use station::{Station, SLOW, WATCHDOG};

fn tcp() -> Tcp {
    Tcp::listen("127.0.0.1:0".parse().expect("an address")).expect("listens")
}

#[test]
fn child_node() {
    suite::be_child_node(tcp);
}

#[test]
fn messages_of_every_size_come_back_between_threads() {
    suite::echoes_between_threads(tcp);
}

#[test]
fn calls_at_once_have_their_own_answers() {
    suite::calls_at_once_have_their_own_answers(tcp);
}

#[test]
fn leaving_is_told_and_a_node_can_come_back() {
    suite::leaving_is_told_and_a_node_can_come_back(tcp);
}

#[test]
fn another_secret_is_refused() {
    suite::another_secret_is_refused(tcp);
}

#[test]
fn an_address_where_nobody_listens_is_not_joined() {
    suite::an_address_where_nobody_listens_is_not_joined(tcp);
}

#[test]
fn three_processes_echo() {
    suite::three_processes_echo(tcp);
}

#[test]
fn a_node_that_works_for_one_peer_for_seconds_is_lost_to_nobody_and_loses_nobody() {
    let [busy, asks, other] = [1, 2, 3].map(|number| Station::start(number, 7, tcp));
    asks.join(busy.address);
    other.join(busy.address);
    let begun: Vec<_> = (0..30).map(|_| asks.begin_call(1, SLOW, vec![1])).collect();
    for answered in begun {
        assert_eq!(answered.recv_timeout(WATCHDOG).expect("ends"), Ok(vec![1]));
    }
    assert_eq!(other.call(1, vec![2]), Ok(vec![2]));
    for station in [&busy, &asks, &other] {
        assert!(station.lost.try_recv().is_err(), "they stay joined");
    }
}

#[test]
fn a_killed_process_is_noticed_by_the_end_of_its_link() {
    suite::a_killed_process_is_noticed_by_the_end_of_its_link(tcp);
}

#[test]
fn a_stopped_process_is_noticed_by_its_silence() {
    suite::a_stopped_process_is_noticed_by_its_silence(tcp);
}
