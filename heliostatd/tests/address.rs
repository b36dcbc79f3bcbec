//! When a listener's address is free again. By itself: another test that starts a process meanwhile
//! has the socket, too, until that process is another program.

mod support;

use std::net::TcpListener;

use heliostat_abi::name::NetAddress;
use heliostat_abi::session::record::{Reply, Request};
use support::*;

#[test]
fn an_address_is_free_as_soon_as_its_listener_closes_it() {
    let daemon = Daemon::start();
    let (mut server, _) = daemon.session();
    let mut socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = NetAddress::new(socket.local_addr().unwrap());
    for _ in 0..200 {
        let (port, _) = server.listen(&socket);
        drop(socket);
        socket = TcpListener::bind((address.ip, address.port)).unwrap();
        assert_eq!(server.ask(&Request::Unlisten { port }).0, Reply::Done);
    }
}
