//! Both ends of one stream in this process, driven as `bind/posix` drives them.

use std::io::{IoSlice, IoSliceMut};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::time::Duration;

use heliostat_abi::name::NetAddress;
use heliostat_base::call;
use heliostat_base::sys::Errno;
use heliostat_stub_posix::net::early::{self, proof, proof::Proof};
use heliostat_stub_posix::net::receive::Received;
use heliostat_stub_posix::net::socket::Connection;
use heliostat_stub_posix::net::{accept, close, connect, listen, receive, send, shadow, socket};
use heliostat_stub_posix::table::{self, DescriptorKind};
use heliostat_stub_posix::thread::Began;
use heliostat_stub_posix::{process, Answer};

/// One end: a descriptor and what the stub makes of it. Dropping it closes it as close(2) does.
pub struct End {
    /// The descriptor.
    pub fd: i32,
}

/// The result of a transfer, with a bare error number.
pub type Moved = Result<usize, i32>;

fn bare(answer: Result<usize, Errno>) -> Moved {
    answer.map_err(|Errno(errno)| errno)
}

impl End {
    /// Its place in the table of connections.
    pub fn index(&self) -> u32 {
        match table::kind(self.fd) {
            DescriptorKind::Socket(index) => index,
            other => panic!("descriptor {} is {other:?}", self.fd),
        }
    }

    /// True while both halves are shared memory.
    pub fn is_direct(&self) -> bool {
        !socket::at(self.index()).is_native() && socket::at(self.index()).stream().is_some()
    }

    /// As after a fork whose child has let go of this end.
    pub fn take_shared_locks(&self) {
        let socket = socket::at(self.index());
        let stream = socket.stream().expect("it is direct");
        socket.share(&stream);
        stream.slot.unshare(stream.side);
    }

    /// recv(2).
    pub fn recv(&self, buffer: &mut [u8], flags: i32) -> Moved {
        let index = self.index();
        let mut began = None;
        loop {
            let mut buffers = [IoSliceMut::new(buffer)];
            match receive::receive(self.fd, index, &mut buffers, flags, began) {
                Received::Answer(Some(answer)) => return bare(answer),
                Received::Answer(None) => return bare(call::recv(self.fd, buffer, flags)),
                Received::Sleep => {
                    let sleeper = receive::sleeper(index);
                    let slept = call::recv(self.fd, &mut [0], libc::MSG_PEEK);
                    if let Some(answer) = receive::woken(self.fd, index, sleeper, slept) {
                        return bare(answer);
                    }
                    began = Some(Began::of_sleep());
                }
            }
        }
    }

    /// send(2), without SIGPIPE.
    pub fn send(&self, bytes: &[u8], flags: i32) -> Moved {
        let flags = flags | libc::MSG_NOSIGNAL;
        match send::send(self.fd, self.index(), &[IoSlice::new(bytes)], flags) {
            Some(answer) => bare(answer),
            None => bare(call::send(self.fd, bytes, flags)),
        }
    }

    /// Receives until the end of the stream.
    pub fn recv_all(&self) -> Result<Vec<u8>, i32> {
        let (mut all, mut piece) = (Vec::new(), vec![0; 4096]);
        loop {
            match self.recv(&mut piece, 0)? {
                0 => return Ok(all),
                count => all.extend_from_slice(&piece[..count]),
            }
        }
    }

    /// shutdown(2).
    pub fn shutdown(&self, how: i32) {
        let answer: Answer = close::shutdown(self.fd, self.index(), how);
        answer.unwrap_or_else(|| call::shutdown(self.fd, how)).expect("shutdown");
    }

    /// SO_RCVTIMEO and SO_SNDTIMEO, so that a test cannot sleep for ever.
    pub fn set_timeouts(&self, limit: Duration) {
        let time =
            libc::timeval { tv_sec: limit.as_secs() as i64, tv_usec: limit.subsec_micros() as i64 };
        for name in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
            // SAFETY: `time` is a live timeval of sixteen bytes.
            let done = unsafe {
                libc::setsockopt(self.fd, libc::SOL_SOCKET, name, (&raw const time).cast(), 16)
            };
            assert_eq!(done, 0);
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        process::closing(self.fd);
        let _ = call::close(self.fd);
    }
}

/// A client between connect(2) and its offer.
pub struct Halfway {
    fd: i32,
    ticket: connect::Ticket,
}

impl Halfway {
    /// Puts the offer.
    pub fn end(self) -> End {
        connect::end(self.fd, self.ticket, Ok(0));
        End { fd: self.fd }
    }
}

/// A registered listening socket.
pub struct Listener(TcpListener);

impl Listener {
    /// On a port of its own.
    pub fn new() -> Self {
        Self::on(0)
    }

    /// On `port` (0: a free one), which others may share.
    pub fn on(port: u16) -> Self {
        super::control();
        // SAFETY: socket takes no pointer.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
        call::set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1).unwrap();
        let address = loopback(port);
        // SAFETY: `address` is a live address of its true length; listen takes no pointer; the
        // descriptor is fresh and this socket its only owner.
        let listener = unsafe {
            assert_eq!(libc::bind(fd, (&raw const address).cast(), 16), 0);
            assert_eq!(libc::listen(fd, 64), 0);
            TcpListener::from_raw_fd(fd)
        };
        listen::listening(listener.as_raw_fd());
        Self(listener)
    }

    /// True when a connection waits to be accepted.
    pub fn is_pending(&self) -> bool {
        let fd = self.0.as_raw_fd();
        let mut fds = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
        call::poll(&mut fds, 0) == Ok(1)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    /// Connects to it under the stub; nobody has accepted yet.
    pub fn connect(&self) -> End {
        self.connect_halfway().end()
    }

    /// As `connect`, up to where connect(2) has returned and the stub has not put its offer yet.
    pub fn connect_halfway(&self) -> Halfway {
        // SAFETY: socket takes no pointer.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
        let address = self.0.local_addr().unwrap();
        let ticket = connect::begin(fd, address);
        let raw = loopback(address.port());
        // SAFETY: `raw` is a live address of its true length.
        let done = unsafe { libc::connect(fd, (&raw const raw).cast(), 16) };
        assert_eq!(done, 0);
        Halfway { fd, ticket }
    }

    /// Accepts under the stub.
    pub fn accept(&self) -> End {
        let (stream, peer) = self.0.accept().unwrap();
        let fd = stream.into_raw_fd();
        accept::accepted(self.0.as_raw_fd(), fd, NetAddress::new(peer), false);
        End { fd }
    }

    /// Accepts as a program without a stub does.
    pub fn accept_natively(&self) -> (std::net::TcpStream, std::net::SocketAddr) {
        self.0.accept().unwrap()
    }
}

/// 127.0.0.1 with a port, for calls of libc.
pub fn loopback(port: u16) -> libc::sockaddr_in {
    // SAFETY: all-zero bytes are a valid address of no family.
    let mut raw: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    raw.sin_family = libc::AF_INET as u16;
    raw.sin_port = port.to_be();
    raw.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
    raw
}

impl Drop for Listener {
    fn drop(&mut self) {
        process::closing(self.0.as_raw_fd());
    }
}

/// Begins both rings: nothing of the stream is the kernel's any more.
fn begin(client: &End, server: &End) {
    let [from, to] = [client, server].map(|end| socket::at(end.index()));
    let [forth, back] = [from, to].map(|socket| socket.stream().expect("direct"));
    let (ours, theirs) =
        (Connection::new(client.fd, from, &forth), Connection::new(server.fd, to, &back));
    assert!(early::start_and_tell(ours));
    assert_eq!(proof::look(theirs), Proof::True);
    assert!(early::settles(ours));
    shadow::drain(server.fd, to, &back.incoming);
    assert_eq!(back.incoming.bells_pending(), 0);
}

/// A direct stream, both of its rings begun: the client's end, the server's. It is native where the machine held the control
/// plane up for so long that the stub did without; then the next one is tried.
pub fn direct() -> (End, End) {
    const TRIALS: usize = 20;
    for _ in 0..TRIALS {
        let listener = Listener::new();
        let client = listener.connect();
        let server = listener.accept();
        if client.is_direct() && server.is_direct() {
            begin(&client, &server);
            return (client, server);
        }
        super::until_standing();
    }
    panic!("no stream is direct");
}
