//! Calls, made: what a real connection says of itself.

use super::*;
use std::os::fd::AsRawFd;

#[test]
fn addresses_of_a_real_connection_are_read_back() {
    let listener = std::net::TcpListener::bind("[::1]:0").unwrap();
    let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    assert_eq!(peer_address(client.as_raw_fd()), listener.local_addr().ok());
    assert_eq!(local_address(client.as_raw_fd()), client.local_addr().ok());
    let mut peer = RawAddress::empty();
    let fd = accept(listener.as_raw_fd(), libc::SOCK_CLOEXEC, &mut peer).unwrap() as i32;
    assert_eq!(peer.parse(), client.local_addr().ok());
    assert_eq!(send(client.as_raw_fd(), b"x", 0), Ok(1));
    let mut byte = [0; 4];
    assert_eq!(recv(fd, &mut byte, 0), Ok(1));
    close(fd).unwrap();
    assert_eq!(recv(fd, &mut byte, 0), Err(Errno(libc::EBADF)));
}

#[test]
fn own_addresses_are_local_and_others_are_not() {
    assert!(is_local_ip("127.3.4.5".parse().unwrap()));
    assert!(!is_local_ip("192.0.2.1".parse().unwrap()));
}
