//! Nodes over our own TCP transport on loopback, and what strangers do to its port.

mod station;
mod strangers;
mod suite;

use heliostat_backend_transport::tcp::Tcp;

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
fn a_killed_process_is_noticed_by_the_end_of_its_link() {
    suite::a_killed_process_is_noticed_by_the_end_of_its_link(tcp);
}

#[test]
fn a_stopped_process_is_noticed_by_its_silence() {
    suite::a_stopped_process_is_noticed_by_its_silence(tcp);
}
