//! The thread with real sockets: workers here are threads that receive from their queue.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use heliostat_abi::listener::rule::Peek;
use heliostat_abi::listener::{page, Handed, Rule};
use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::{Access, SharedMapping};
use heliostat_base::packet::receive_one;
use heliostat_service_grant::{Holder, Shares, Used};
use heliostat_service_listener::Standing;
use rustix::net::sockopt::{set_socket_timeout, Timeout};
use rustix::net::{socketpair, AddressFamily, SendFlags, SocketFlags, SocketType};

use crate::plugin::{ANSWER, QUESTION_HEAD_BYTES};
use crate::{Balancer, Closer, HeldShares, Owner, WorkerEnds};

pub const LISTENER: ObjectId = ObjectId { index: 0, generation: 1 };
/// Nothing here takes as long.
const PATIENCE: Duration = Duration::from_secs(20);

pub fn worker(place: u32) -> ObjectId {
    ObjectId { index: place, generation: 1 }
}

/// A worker's place, and a connection that it took.
pub type Taken = (u32, TcpStream);

/// A thread of its own closes each: here nobody hangs more than a few.
struct Beside;

impl Closer for Beside {
    fn close(&self, fd: OwnedFd) {
        std::thread::spawn(move || drop(fd));
    }

    fn waiting(&self) -> Used {
        Used::default()
    }
}

/// Whose everything is here.
pub fn owner() -> Owner {
    Owner { holder: Holder::user(1), closer: Arc::new(Beside) }
}

pub struct House {
    pub balancer: Balancer,
    pub address: SocketAddr,
    /// One more descriptor of the listening socket, as its workers have one.
    pub socket: TcpListener,
    pub ends: Vec<WorkerEnds>,
    pub told: (Sender<Taken>, Receiver<Taken>),
}

impl House {
    /// A listener with so many workers, none of which waits yet.
    pub fn new(rule: Rule, workers: u32) -> House {
        let held = HeldShares::new(Shares::whole(1 << 20));
        Self::of(Balancer::start(LISTENER, owner(), rule, held).unwrap(), workers)
    }

    pub fn of(balancer: Balancer, workers: u32) -> House {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let shared = socket.try_clone().unwrap();
        balancer.add_socket(owner().own(shared.into())).unwrap();
        let add = |place| balancer.add_worker(worker(place), place).unwrap();
        let ends = (0..workers).map(add).collect();
        House { balancer, address, socket, ends, told: channel() }
    }

    /// A thread takes what comes to a worker, and tells it here.
    pub fn serve(&self, place: u32) {
        let queue = rustix::io::fcntl_dupfd_cloexec(&self.ends[place as usize].queue, 0).unwrap();
        let told = self.told.0.clone();
        std::thread::spawn(move || {
            while let Some(connection) = take(&queue, 0) {
                if told.send((place, connection)).is_err() {
                    return;
                }
            }
        });
        self.balancer.ready(worker(place)).unwrap();
    }

    pub fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).unwrap()
    }

    pub fn next(&self) -> (u32, TcpStream) {
        self.told.1.recv_timeout(PATIENCE).expect("nobody has taken it")
    }

    pub fn view(&self) -> crate::ListenerState {
        self.balancer.look()
    }

    pub fn wait_until(&self, what: impl Fn(&crate::ListenerState) -> bool) {
        let began = Instant::now();
        while !what(&self.view()) {
            assert!(began.elapsed() < PATIENCE, "{:?}", self.view());
            sleep(Duration::from_millis(5));
        }
    }
}

/// One connection from a queue, waited for unless `flags` say otherwise.
pub fn take(queue: &OwnedFd, flags: i32) -> Option<TcpStream> {
    let mut record = [0; Handed::BYTES];
    let (length, fd) = receive_one(queue.as_raw_fd(), &mut record, flags).ok()?;
    Handed::decode(&record[..length]).ok()?;
    Some(TcpStream::from(OwnedFd::from(fd?)))
}

/// The client and the worker of a connection speak with each other.
pub fn is_whole(client: &mut TcpStream, served: &mut TcpStream) {
    client.write_all(b"ping").unwrap();
    let mut heard = [0; 4];
    served.read_exact(&mut heard).unwrap();
    served.write_all(&heard).unwrap();
    client.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"ping");
}

#[test]
fn each_connection_has_one_worker_and_its_end_is_seen_at_once() {
    let house = House::new(Rule::RoundRobin, 4);
    (0..4).for_each(|place| house.serve(place));
    let mut taken = [0; 4];
    for _ in 0..40 {
        let mut client = house.connect();
        let (place, mut served) = house.next();
        taken[place as usize] += 1;
        is_whole(&mut client, &mut served);
        drop(served);
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0, "nobody else has it open");
    }
    assert_eq!(taken, [10; 4]);
    assert_eq!(house.view().counts.given, 40);
}

#[test]
fn nothing_is_accepted_before_a_worker_waits() {
    let house = House::new(Rule::LeastLoad, 2);
    let mut client = house.connect();
    sleep(Duration::from_millis(50));
    assert_eq!((house.view().counts.accepted, house.view().is_open), (0, false));
    house.serve(1);
    let (place, mut served) = house.next();
    assert_eq!(place, 1);
    is_whole(&mut client, &mut served);
}

#[test]
fn what_a_worker_does_not_take_others_do() {
    let house = House::new(Rule::RoundRobin, 2);
    house.balancer.ready(worker(0)).unwrap();
    house.serve(1);
    let mut clients: Vec<TcpStream> = (0..20).map(|_| house.connect()).collect();
    let mut served: Vec<TcpStream> = (0..20).map(|_| house.next().1).collect();
    for served in &mut served {
        let peer = served.peer_addr().unwrap();
        let client = clients.iter_mut().find(|it| it.local_addr().unwrap() == peer).unwrap();
        is_whole(client, served);
    }
    let state = house.view().workers[&worker(0)];
    assert!(state.passed >= 1 && house.view().counts.taken_back >= 1);
    assert!(take(&house.ends[0].queue, libc::MSG_DONTWAIT).is_none());
}

#[test]
fn a_worker_that_ends_or_drains_loses_nothing_that_it_had_not_taken() {
    let mut house = House::new(Rule::RoundRobin, 3);
    (0..2).for_each(|place| house.balancer.ready(worker(place)).unwrap());
    let mut clients: Vec<TcpStream> = (0..10).map(|_| house.connect()).collect();
    house.wait_until(|view| view.counts.given == 10);
    let mine = take(&house.ends[0].queue, 0).unwrap();
    house.ends.remove(0);
    house.balancer.end_worker(worker(0));
    house.balancer.drain(worker(1)).unwrap();
    assert_eq!(house.view().workers[&worker(1)].standing, Standing::Draining);
    house.ends.insert(0, house.balancer.add_worker(worker(0), 0).unwrap());
    house.serve(2);
    let mut served: Vec<TcpStream> = (0..9).map(|_| house.next().1).collect();
    served.push(mine);
    for client in &mut clients {
        let own = client.local_addr().unwrap();
        let at = served.iter().position(|it| it.peer_addr().unwrap() == own).unwrap();
        is_whole(client, &mut served[at]);
    }
    // Those of the first that the second got meanwhile were taken back twice.
    assert!(house.view().counts.taken_back >= 9);
}

#[test]
fn while_all_queues_are_full_the_kernel_keeps_what_comes() {
    let house = House::new(Rule::LeastLoad, 1);
    house.balancer.ready(worker(0)).unwrap();
    let _clients: Vec<TcpStream> = (0..20).map(|_| house.connect()).collect();
    house.wait_until(|view| view.workers[&worker(0)].untaken == 8 && !view.is_open);
    assert!(house.view().counts.accepted <= 9);
    let _served: Vec<_> = (0..20).map(|_| take(&house.ends[0].queue, 0).unwrap()).collect();
    house.wait_until(|view| view.is_open);
}

#[test]
fn a_worker_that_lies_about_its_load_is_judged_by_what_the_kernel_counts() {
    let house = House::new(Rule::LeastLoad, 2);
    (0..2).for_each(|place| house.serve(place));
    let fd = house.ends[0].page.as_raw_fd();
    let page = SharedMapping::from_fd(fd, page::BYTES, Access::ReadWrite).unwrap();
    let closed = page.atomic_u64(page::AT_CLOSED);
    let mut kept = Vec::new();
    let mut taken = [0u64; 2];
    for _ in 0..200 {
        let client = house.connect();
        let (place, served) = house.next();
        taken[place as usize] += 1;
        closed.store(taken[0], std::sync::atomic::Ordering::Relaxed);
        kept.push((client, served));
        sleep(Duration::from_millis(2));
    }
    let state = house.view().workers[&worker(0)];
    assert!(!state.is_believed && state.lies > 0, "{state:?}");
    assert!(taken[0] < 150, "it has {} of 200", taken[0]);
}

#[test]
fn equal_first_lines_go_to_one_worker_and_silent_clients_to_somebody() {
    let peek = Peek { bytes_max: 64, deadline_ms: 1000 };
    let house = House::new(Rule::Content(peek), 4);
    (0..4).for_each(|place| house.serve(place));
    let silent = house.connect();
    let is_silent = |peer: &TcpStream| peer.peer_addr().unwrap() == silent.local_addr().unwrap();
    let mut of = std::collections::HashMap::new();
    for turn in 0..40 {
        let name = turn % 10;
        let mut client = house.connect();
        // In two parts: half a line decides nothing.
        client.write_all(format!("GET /{name} HT").as_bytes()).unwrap();
        client.write_all(b"TP/1.1\r\nHost: x\r\n").unwrap();
        let mut next = house.next();
        if is_silent(&next.1) {
            // Its time is over; who has just come is the next one.
            next = house.next();
        }
        let (place, mut served) = next;
        let mut heard = [0; 5];
        served.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"GET /", "what was looked at is there still");
        assert_eq!(*of.entry(name).or_insert(place), place);
    }
    house.wait_until(|view| view.counts.silent == 1);
    assert_eq!(house.view().held, 0);
}

#[test]
fn half_closed_and_reset_clients_are_given_and_not_kept() {
    let house = House::new(Rule::Content(Peek::USUAL), 1);
    house.serve(0);
    let half = house.connect();
    half.shutdown(std::net::Shutdown::Write).unwrap();
    let (_, mut served) = house.next();
    assert_eq!(served.read(&mut [0; 1]).unwrap(), 0);
    let gone = house.connect();
    heliostat_base::call::linger_zero(gone.as_raw_fd()).unwrap();
    drop(gone);
    // Whoever looked at its first bytes may have got the error: then this is its end.
    assert_eq!(house.next().1.read(&mut [0; 1]).unwrap_or(0), 0);
    assert_eq!(house.view().counts.silent, 0);
}

/// The plug-in's end, and what it is asked: the serial and the number of workers.
fn asked(socket: &OwnedFd) -> (u64, u32) {
    let mut record = [0; 8192];
    let (length, _) =
        rustix::net::recv(socket, &mut record, rustix::net::RecvFlags::empty()).unwrap();
    assert!(length >= QUESTION_HEAD_BYTES);
    let serial = u64::from_le_bytes(record[8..16].try_into().unwrap());
    (serial, u32::from_le_bytes(record[40..44].try_into().unwrap()))
}

fn answer(socket: &OwnedFd, serial: u64, place: u32) {
    let mut record = [0; 16];
    record[..4].copy_from_slice(&ANSWER.to_le_bytes());
    record[4..8].copy_from_slice(&place.to_le_bytes());
    record[8..].copy_from_slice(&serial.to_le_bytes());
    rustix::net::send(socket, &record, SendFlags::empty()).unwrap();
}

/// A plug-in that a listener asks. It waits for no question longer than anything takes here.
fn plugin_of(house: &House) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let (asking, plugin) = pair;
    set_socket_timeout(&plugin, Timeout::Recv, Some(PATIENCE)).unwrap();
    house.balancer.set_plugin(owner().own(asking)).unwrap();
    plugin
}

#[test]
fn a_plugin_is_asked_about_connections_that_were_made_after_it_was_set() {
    let house = House::new(Rule::Plugin(Peek { bytes_max: 0, deadline_ms: 100 }), 1);
    house.serve(0);
    let go_on = house.balancer.stop_for_now();
    let plugin = plugin_of(&house);
    let _client = house.connect();
    drop(go_on);
    let (serial, _) = asked(&plugin);
    answer(&plugin, serial, 0);
    house.next();
}

#[test]
fn a_plugin_decides_and_one_that_says_nothing_of_use_is_not_waited_for() {
    let peek = Peek { bytes_max: 0, deadline_ms: 100 };
    let house = House::new(Rule::Plugin(peek), 3);
    (0..3).for_each(|place| house.serve(place));
    let plugin = plugin_of(&house);
    for place in [2, 0, 2] {
        let _client = house.connect();
        let (serial, workers) = asked(&plugin);
        assert_eq!(workers, 3);
        answer(&plugin, serial, place);
        assert_eq!(house.next().0, place);
    }
    let _client = house.connect();
    rustix::net::send(&plugin, b"garbage", SendFlags::empty()).unwrap();
    house.next();
    house.wait_until(|view| (view.counts.garbage, view.counts.unanswered) == (1, 1));
    let _client = house.connect();
    drop(plugin);
    house.next();
    house.wait_until(|view| !view.has_plugin);
}
