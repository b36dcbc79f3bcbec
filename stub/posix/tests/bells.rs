//! Bells on a shadow whose send buffer is small.

mod support;

use heliostat_abi::code::Native;
use heliostat_base::call;
use heliostat_stub_posix::net::{demote, option, shadow, socket};
use support::pair::direct;

/// More than a send buffer of the least size holds before they are acknowledged.
const BELLS: u32 = 200;

fn send_buffer(fd: i32) -> i32 {
    call::option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF).unwrap()
}

#[test]
fn bells_find_room_in_a_small_send_buffer_that_the_program_is_told_of_still() {
    let (client, server) = direct();
    call::set_option(client.fd, libc::SOL_SOCKET, libc::SO_SNDBUF, 1).unwrap();
    let asked_for = send_buffer(client.fd);
    let index = client.index();
    let socket = socket::at(index);
    let stream = socket.stream().expect("direct");
    for _ in 0..BELLS {
        shadow::ring_bell(client.fd, socket, &stream.outgoing, 0);
    }
    assert_eq!(stream.outgoing.bells_pending(), BELLS);
    assert_eq!(option::get(client.fd, index, libc::SOL_SOCKET, libc::SO_SNDBUF), Some(asked_for));
    assert_eq!(client.send(b"x", 0), Ok(1));
    assert_eq!(server.recv(&mut [0; 4], 0), Ok(1));
    demote::leave(client.fd, index, Native::Option);
    assert_eq!(send_buffer(client.fd), asked_for);
}
