//! Descriptors whose close waits for whoever sent them: the event loop never makes that close.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use crate::support::*;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_abi::session::restriction::Services;
use heliostat_abi::snapshot::memory::{Shape, PINS_BYTES};
use heliostat_abi::snapshot::region::{RegionName, OWN_USER};
use heliostat_base::mapping::{SharedMapping, Writers};
use rustix::net::{
    connect, sendmsg, socket, AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketAddrUnix, SocketType,
};
use rustix::process::Signal;

/// A socket with bytes that nobody takes: whose last close it is waits for an hour.
struct Lingering {
    _listener: TcpListener,
    full: TcpStream,
}

impl Lingering {
    fn new() -> Lingering {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut full = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        full.set_nonblocking(true).unwrap();
        while std::io::Write::write(&mut full, &[0; 65536]).is_ok() {}
        let hour = Some(std::time::Duration::from_secs(3600));
        rustix::net::sockopt::set_socket_linger(&full, hour).unwrap();
        Lingering { _listener: listener, full }
    }

    /// Leaves the last close to whoever got a copy. The peer stays: its end would let it go.
    fn leave(self) -> TcpListener {
        drop(self.full);
        self._listener
    }
}

/// A wait of an hour would outlast the client's own deadline.
fn serves(daemon: &Daemon) {
    assert!(daemon.status()["pid"].is_number());
}

/// Acts while the control plane is stopped: a socket that is sent and then closed here must have its
/// last close there, and not here because the control plane was quicker.
fn while_stopped<T>(daemon: &Daemon, act: impl FnOnce() -> T) -> T {
    daemon.signal(Signal::STOP);
    while !is_stopped(daemon.pid()) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let done = act();
    daemon.signal(Signal::CONT);
    done
}

/// True when every thread of a process is stopped.
fn is_stopped(pid: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks
        .map(|task| task.unwrap().path().join("stat"))
        .all(|stat| std::fs::read_to_string(stat).is_ok_and(|line| line.contains(") T ")))
}

/// Asks with a lingering socket that is closed here before the control plane looks at it.
fn send(daemon: &Daemon, client: &Client, request: &Request) -> TcpListener {
    let socket = Lingering::new();
    while_stopped(daemon, || {
        client.socket.send(&request.encode(1), &[socket.full.as_raw_fd()]).unwrap();
        socket.leave()
    })
}

/// A socket in whose queue a lingering one waits, which is closed with it.
fn stuffed() -> (UnixStream, TcpListener) {
    let (stuffed, other) = UnixStream::pair().unwrap();
    let socket = Lingering::new();
    send_fds(&other, &[1], &[socket.full.as_fd()]);
    (stuffed, socket.leave())
}

/// Source: SCM_MAX_FD, net/scm.h.
const ONE_MESSAGE_MAX: usize = 253;

fn send_fds(to: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(ONE_MESSAGE_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(fds)));
    sendmsg(to, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::empty()).unwrap();
}

#[test]
fn what_is_no_window_delays_nobody() {
    let daemon = Daemon::start();
    let (client, _) = daemon.session();
    let _peer = send(&daemon, &client, &Request::Delegate { members: 0 });
    serves(&daemon);
}

/// The kernel closes in the receiver's name what it finds no room for.
#[test]
fn what_is_more_than_any_request_brings_delays_nobody() {
    let daemon = Daemon::start();
    let client = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    connect(&client, &SocketAddrUnix::new(daemon.socket()).unwrap()).unwrap();
    let (null, socket) = (std::fs::File::open("/dev/null").unwrap(), Lingering::new());
    let _peer = while_stopped(&daemon, || {
        let mut fds = [null.as_fd(); ONE_MESSAGE_MAX];
        fds[ONE_MESSAGE_MAX - 1] = socket.full.as_fd();
        send_fds(&client, &Request::Lease.encode(1), &fds);
        socket.leave()
    });
    serves(&daemon);
}

#[test]
fn what_a_restricted_session_may_not_show_delays_nobody() {
    let daemon = Daemon::start();
    let mut client = daemon.visit();
    let restrict = Request::Restrict { services: Services::NONE, pid: 1 };
    assert_eq!(client.ask(&restrict).0, Reply::Done);
    client.hello();
    let _peer = send(&daemon, &client, &Request::Lease);
    serves(&daemon);
}

#[test]
fn what_waits_in_a_bell_delays_nobody() {
    let daemon = Daemon::start();
    let (mut producer, _) = daemon.session();
    let shape = Shape::new(1, 5000, 0, 2).unwrap();
    let own = Writers::CreatorOnly;
    let table = SharedMapping::create_for(c"table", shape.table_bytes(), own).unwrap();
    let pool = SharedMapping::create_for(c"pool", shape.pool_bytes(), own).unwrap();
    table.1.copy_in(0, &shape.encode()).unwrap();
    let name = RegionName::parse("x").unwrap();
    let fds = [table.0.as_raw_fd(), pool.0.as_raw_fd()];
    let published = producer.ask_with(&Request::Publish { name: name.clone() }, &fds).0;
    assert!(matches!(published, Reply::Published { .. }), "{published:?}");

    let (page, _mapped) = SharedMapping::create(c"pins", PINS_BYTES).unwrap();
    let (stuffed, _peer) = stuffed();
    let (mut consumer, _) = daemon.session();
    let attach = Request::AttachRegion { name, owner: OWN_USER };
    let attached = consumer.ask_with(&attach, &[page.as_raw_fd(), stuffed.as_raw_fd()]).0;
    assert!(matches!(attached, Reply::Region { .. }), "{attached:?}");
    drop(stuffed);
    // With the consumer's end its bell goes, which nobody has fetched.
    drop(consumer);
    serves(&daemon);
    serves(&daemon);
}
