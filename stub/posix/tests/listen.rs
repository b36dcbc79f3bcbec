//! Listening addresses: listened on again, and shared by several sockets of one process.

mod support;

use std::sync::{Mutex, MutexGuard};

use support::pair::{End, Listener};

/// Reads exactly what was sent, through shared memory on both ends.
fn exchange(client: &End, server: &End) {
    assert!(client.is_direct() && server.is_direct());
    assert_eq!(client.send(b"ping", 0), Ok(4));
    let mut bytes = [0; 4];
    assert_eq!(server.recv(&mut bytes, 0), Ok(4));
    assert_eq!(&bytes, b"ping");
}

/// The kernel spreads connections over all sockets of an address: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[test]
fn an_address_that_is_listened_on_again_gives_direct_streams_again() {
    let _alone = alone();
    let listener = Listener::new();
    let port = listener.port();
    let first = (listener.connect(), listener.accept());
    drop(listener);
    let listener = Listener::on(port);
    let second = (listener.connect(), listener.accept());
    exchange(&second.0, &second.1);
    exchange(&first.0, &first.1);
}

#[test]
fn sockets_that_share_an_address_all_accept_direct_streams() {
    let _alone = alone();
    let first = Listener::new();
    let all = [Listener::on(first.port()), Listener::on(first.port()), first];
    let mut accepted = [0; 3];
    for _ in 0..48 {
        let client = all[0].connect();
        let place = all.iter().position(|listener| listener.is_pending()).expect("a connection");
        exchange(&client, &all[place].accept());
        accepted[place] += 1;
    }
    assert!(accepted.iter().all(|count| *count > 0), "{accepted:?}");
}

#[test]
fn an_address_stays_registered_until_its_last_socket_is_closed() {
    let _alone = alone();
    let first = Listener::new();
    let second = Listener::on(first.port());
    drop(first);
    let client = second.connect();
    exchange(&client, &second.accept());
}
