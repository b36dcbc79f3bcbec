//! A program takes its connection back from a loop while its other threads read: what they take for bells
//! is none of the connection's bytes.

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use heliostat_abi::code::Native;
use heliostat_base::call;
use heliostat_stub_posix::net::socket::Stream;
use heliostat_stub_posix::net::{demote, shadow, socket};
use support::pair::{direct, End};

const LAST: &[u8] = b"left in the lane";
const PAYLOAD: &[u8] = b"payload";
/// So long the kernel has no room, before it is believed.
const STAYS_FULL: Duration = Duration::from_millis(150);

/// A TCP connection: the program's end, and its remote peer's.
fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener.accept().unwrap().0, peer)
}

/// Writes until the kernel takes nothing more, however much room it is asked for: bytes written.
fn fill(socket: &TcpStream) -> usize {
    // The most that may be asked for: more is not had.
    call::set_option(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, 1 << 20).unwrap();
    socket.set_nonblocking(true).unwrap();
    let (mut written, mut since) = (0, Instant::now());
    while since.elapsed() < STAYS_FULL {
        match (&*socket).write(&[7; 65536]) {
            Ok(count) => (written, since) = (written + count, Instant::now()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    socket.set_nonblocking(false).unwrap();
    written
}

/// Makes `end` a carried connection to a remote peer: its socket has a hidden number, and its other end
/// stands for the loop.
fn carry(end: &End, tcp: &TcpStream) {
    let hidden = call::fcntl(tcp.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 512).unwrap() as i32;
    let socket = socket::at(end.index());
    socket.was_carried.store(true, Ordering::Relaxed);
    socket.carried.store(hidden, Ordering::Release);
}

/// A thread that takes bells off as soon as the socket stands where the shadow stood.
fn take_bells(client: &End, stream: &Stream, tcp: &TcpStream, is_over: &AtomicBool) {
    let socket = socket::at(client.index());
    let tcp = call::inode(tcp.as_raw_fd());
    while call::inode(client.fd) != tcp {
        std::hint::spin_loop();
    }
    while !is_over.load(Ordering::Relaxed) {
        shadow::drain(client.fd, socket, &stream.incoming);
    }
}

#[test]
fn a_bell_that_nobody_has_taken_off_the_shadow_is_no_byte_of_the_socket() {
    let (client, server) = direct();
    let (tcp, mut peer) = tcp();
    let filled = fill(&tcp);
    peer.write_all(PAYLOAD).unwrap();
    carry(&client, &tcp);
    assert_eq!(client.send(LAST, 0), Ok(LAST.len()));
    let stream = socket::at(client.index()).stream().unwrap();
    stream.incoming.count_bell();
    call::send(server.fd, &[0], libc::MSG_NOSIGNAL).unwrap();
    let (is_over, both) = (AtomicBool::new(false), Barrier::new(2));
    let mut came = vec![0; filled + LAST.len()];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            both.wait();
            take_bells(&client, &stream, &tcp, &is_over);
        });
        scope.spawn(|| {
            std::thread::sleep(STAYS_FULL / 10);
            peer.read_exact(&mut came)
        });
        both.wait();
        // What is in the lane waits for room meanwhile.
        demote::leave(client.fd, client.index(), Native::Option);
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(&came[filled..], LAST);
    let mut heard = [0; 16];
    assert_eq!(client.recv(&mut heard, 0), Ok(PAYLOAD.len()));
    assert_eq!(&heard[..PAYLOAD.len()], PAYLOAD);
}
