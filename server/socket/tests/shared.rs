//! Rules of shared listeners among sessions: by address, by content, and who is silent, busy or gone.

mod support;

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_abi::file::delegated::{OpKind, Operation};
use heliostat_abi::listener::rule::Peek;
use heliostat_abi::listener::Rule;
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::socket::operation::{
    PollEntry, BY_ADDRESS, BY_CONTENT, BY_TURN, POLL_ENTRY_BYTES, POLL_IN, SHARED_BIT,
};
use heliostat_abi::socket::Access;
use heliostat_server_loop::Order;
use heliostat_server_socket::{Guest, Judge, SocketOrder};
use rustix::net::{bind, connect, socket, sockopt, AddressFamily, SocketType};
use support::{accept, listen, operation, plain, receive, send, Loop, One};

/// First lines decide, and clients may be silent for so many milliseconds: as somebody has configured.
struct Configured(u32);

impl Judge for Configured {
    fn judge(&self, _: Access, _: NetAddress) -> Result<(), i32> {
        Ok(())
    }

    fn rule(&self, _: NetAddress) -> Option<Rule> {
        Some(Rule::Content(Peek { deadline_ms: self.0, ..Peek::USUAL }))
    }
}

/// Sessions that share a listener.
struct Sharers {
    of: Loop,
    /// Given, and not asked for yet.
    given: VecDeque<(usize, ObjectId)>,
    members: Vec<(One, ObjectId)>,
    /// Accepts that wait: whose, and their tags.
    waiting: Vec<(usize, u64)>,
    address: SocketAddr,
}

impl Sharers {
    fn new(count: usize, rule: u64) -> Sharers {
        Sharers::with(count, rule, None)
    }

    /// By a rule that somebody has configured, whatever members say.
    fn configured(count: usize, deadline_ms: u32) -> Sharers {
        Sharers::with(count, BY_TURN, Some(Arc::new(Configured(deadline_ms))))
    }

    fn with(count: usize, rule: u64, judge: Option<Arc<dyn Judge>>) -> Sharers {
        let mut of = Loop::new();
        let mut members = Vec::new();
        let mut address = "127.0.0.1:0".parse().unwrap();
        for _ in 0..count {
            let mut one = of.session();
            if let Some(judge) = judge.clone() {
                let guest = Guest { user: 7, judge, budget: of.budget.clone() };
                of.server.carry_out(Order::Service(SocketOrder::Guest(one.id, guest)));
            }
            one.put_address(0, address);
            let listener = of.object(&mut one, listen(64 | SHARED_BIT | rule));
            let NetAddress { ip, port } = one.address(0);
            address = SocketAddr::new(ip, port);
            members.push((one, listener));
        }
        Sharers { of, given: VecDeque::new(), members, waiting: Vec::new(), address }
    }

    fn wait(&mut self, member: usize, times: usize) {
        let (one, listener) = &mut self.members[member];
        let tags = (0..times).map(|_| (member, one.submit(accept(*listener))));
        self.waiting.extend(tags.collect::<Vec<_>>());
        self.of.sweep(20);
    }

    /// Takes what was given since; whether that was anything.
    fn look(&mut self) -> bool {
        self.of.sweep(50);
        let (given, members) = (&mut self.given, &mut self.members);
        self.waiting.retain(|(member, tag)| match members[*member].0.take(*tag) {
            Some(done) => {
                let index = u32::try_from(done.result).expect("an errno");
                given.push_back((*member, ObjectId { index, generation: done.generation }));
                false
            }
            None => true,
        });
        !self.given.is_empty()
    }

    /// The next one that somebody gets, within half a minute.
    fn next(&mut self) -> (usize, ObjectId) {
        let until = Instant::now() + Duration::from_secs(30);
        while Instant::now() < until {
            self.look();
            if let Some(found) = self.given.pop_front() {
                return found;
            }
        }
        panic!("nobody got a connection");
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).unwrap()
    }

    /// A connection from another address of the loopback.
    fn connect_from(&self, last: u8) -> TcpStream {
        let from = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&from, &SocketAddr::from(([127, 0, 0, last], 0))).unwrap();
        connect(&from, &self.address).unwrap();
        from.into()
    }

    fn ask(&mut self, text: &str) -> TcpStream {
        let mut peer = self.connect();
        peer.write_all(text.as_bytes()).unwrap();
        peer
    }

    /// What a member receives on a connection.
    fn received(&mut self, (member, socket): (usize, ObjectId)) -> Vec<u8> {
        let one = &mut self.members[member].0;
        let length = self.of.ask(one, receive(socket, 4096, 100));
        one.bytes(4096, usize::try_from(length).expect("an errno"))
    }

    /// A member polls its listener for connections: the tag.
    fn poll(&mut self, member: usize, timeout_us: u32) -> u64 {
        let (one, listener) = &mut self.members[member];
        let entry = PollEntry { socket: *listener, wanted: POLL_IN, found: 0 };
        one.window.copy_in(16384, &entry.encode()).unwrap();
        let asked = operation(OpKind::Poll, ObjectId::default(), 0, &[(16384, POLL_ENTRY_BYTES)]);
        one.submit(Operation { timeout_us, ..asked })
    }

    /// What a poll answered within so many milliseconds.
    fn polled(&mut self, member: usize, tag: u64, within_ms: u64) -> Option<i64> {
        let until = Instant::now() + Duration::from_millis(within_ms);
        while Instant::now() < until {
            self.of.sweep(50);
            if let Some(done) = self.members[member].0.take(tag) {
                return Some(done.result);
            }
        }
        None
    }

    fn end(&mut self, member: usize) {
        let (of, one) = (&mut self.of, &self.members[member].0);
        of.end(one);
        self.waiting.retain(|(its, _)| *its != member);
    }
}

#[test]
fn by_turn_members_take_turns_whatever_they_have() {
    let mut all = Sharers::new(2, BY_TURN);
    (0..2).for_each(|member| all.wait(member, 4));
    let mut order = Vec::new();
    let peers: Vec<_> = (0..6)
        .map(|_| {
            let peer = all.connect();
            order.push(all.next().0);
            peer
        })
        .collect();
    assert_eq!((order, peers.len()), (vec![0, 1, 0, 1, 0, 1], 6));
}

#[test]
fn by_address_a_client_comes_to_its_member_again_and_all_members_have_some() {
    let mut all = Sharers::new(3, BY_ADDRESS);
    (0..3).for_each(|member| all.wait(member, 100));
    let mut peers = Vec::new();
    let mut round = |all: &mut Sharers| -> Vec<usize> {
        let each = (1..60).map(|last| {
            peers.push(all.connect_from(last));
            all.next().0
        });
        each.collect()
    };
    let first = round(&mut all);
    assert_eq!(round(&mut all), first);
    assert!((0..3).all(|member| first.contains(&member)), "{first:?}");
}

#[test]
fn a_client_of_a_member_that_asks_for_nothing_waits_and_then_is_another_ones() {
    let mut all = Sharers::new(2, BY_ADDRESS);
    (0..2).for_each(|member| all.wait(member, 1));
    let _first = all.connect();
    let busy = all.next().0;
    all.wait(1 - busy, 8);
    let begun = Instant::now();
    let (_second, _third) = (all.connect(), all.connect());
    assert_eq!(all.next().0, 1 - busy);
    assert!(begun.elapsed() >= Duration::from_millis(900), "its own member was waited for");
    let _fourth = all.connect();
    assert_eq!([all.next().0, all.next().0], [1 - busy; 2], "the busy one is passed over");
    all.wait(busy, 1);
    let _fifth = all.connect();
    assert_eq!(all.next().0, busy, "it asks again");
}

#[test]
fn by_content_equal_first_lines_come_to_one_member_and_nothing_is_taken_away() {
    let mut all = Sharers::new(4, BY_CONTENT);
    (0..4).for_each(|member| all.wait(member, 100));
    let mut members = Vec::new();
    let mut peers = Vec::new();
    for number in 0..180 {
        let text = format!("key {}\nrest {number}", number % 60);
        peers.push(all.ask(&text));
        let given = all.next();
        assert_eq!(all.received(given), text.as_bytes());
        members.push(given.0);
    }
    assert_eq!((&members[..60], &members[60..120]), (&members[60..120], &members[120..]));
    assert!((0..4).all(|member| members.contains(&member)), "{members:?}");
}

#[test]
fn a_line_that_comes_in_pieces_is_waited_for() {
    let mut all = Sharers::configured(2, 60_000);
    (0..2).for_each(|member| all.wait(member, 4));
    let _whole = all.ask("one line\n");
    let member = all.next().0;
    let mut peer = all.ask("one ");
    assert!(!all.look());
    peer.write_all(b"line\n").unwrap();
    let given = all.next();
    assert_eq!((given.0, all.received(given)), (member, b"one line\n".to_vec()));
}

#[test]
fn a_line_that_comes_late_wakes_who_polls_the_listener() {
    let mut all = Sharers::configured(1, 60_000);
    let mut poll = all.poll(0, 60_000_000);
    assert_eq!(all.polled(0, poll, 20), None);
    let mut silent = all.connect();
    assert_eq!(all.polled(0, poll, 3000), Some(1), "of one in the kernel's queue an edge tells");
    all.wait(0, 1);
    assert!(!all.look(), "its first bytes are awaited");
    let (_, accepts) = all.waiting.pop().unwrap();
    let cancel = plain(OpKind::Cancel, ObjectId::default(), accepts);
    assert_eq!(all.of.ask(&mut all.members[0].0, cancel), 0);
    poll = all.poll(0, 60_000_000);
    assert_eq!(all.polled(0, poll, 200), None);
    silent.write_all(b"a line\n").unwrap();
    assert_eq!(all.polled(0, poll, 3000), Some(1), "of one that is held nothing else tells");
    all.wait(0, 1);
    let given = all.next();
    assert_eq!(all.received(given), b"a line\n");
}

#[test]
fn silent_clients_leave_half_of_their_users_places_to_others() {
    let mut all = Sharers::configured(1, 60_000);
    all.wait(0, 40);
    all.of.budget.set_most(20);
    let _silent: Vec<_> = (0..15).map(|_| all.connect()).collect();
    all.of.sweep(200);
    all.look();
    // A listener and its member, ten that are held, and five that were decided by load.
    assert_eq!((all.given.len(), all.of.budget.used()), (5, 17));
    all.given.clear();
    let mut speaks = all.ask("line\n");
    let given = all.next();
    assert_eq!(all.received(given), b"line\n");
    let one = &mut all.members[0].0;
    one.window.copy_in(8192, b"hello").unwrap();
    assert_eq!(all.of.ask(one, send(given.1, 8192, 5)), 5);
    speaks.read_exact(&mut [0; 5]).unwrap();
}

#[test]
fn who_is_silent_half_closed_or_reset_holds_up_nobody() {
    let mut all = Sharers::configured(2, 5000);
    (0..2).for_each(|member| all.wait(member, 8));
    let begun = Instant::now();
    let mut silent = all.connect();
    let half = all.ask("half");
    half.shutdown(Shutdown::Write).unwrap();
    let given = all.next();
    assert_eq!(all.received(given), b"half");
    let reset = all.ask("no end");
    sockopt::set_socket_linger(&reset, Some(Duration::ZERO)).unwrap();
    drop(reset);
    let gone = all.next();
    let one = &mut all.members[gone.0].0;
    let told = [(); 2].map(|()| all.of.ask(one, receive(gone.1, 4096, 10)));
    assert!(told[1] <= 0, "its member hears of its end: {told:?}");
    let _line = all.ask("line\n");
    let given = all.next();
    assert_eq!(all.received(given), b"line\n");
    let given = all.next();
    assert!(begun.elapsed() >= Duration::from_millis(4900), "the silent one was the last");
    let one = &mut all.members[given.0].0;
    one.window.copy_in(8192, b"hello").unwrap();
    assert_eq!(all.of.ask(one, send(given.1, 8192, 5)), 5);
    let mut hello = [0; 5];
    silent.read_exact(&mut hello).unwrap();
    assert_eq!(&hello, b"hello");
}

#[test]
fn what_waits_for_its_first_bytes_outlives_members_and_ends_with_the_listener() {
    let mut all = Sharers::configured(3, 60_000);
    (0..3).for_each(|member| all.wait(member, 4));
    let mut peers: Vec<_> = (0..6).map(|_| all.connect()).collect();
    assert!(!all.look());
    assert_eq!(all.of.budget.used(), 1 + 3 + 6, "they count as their user's");
    all.end(0);
    all.end(2);
    for peer in &mut peers[..3] {
        peer.write_all(b"key\n").unwrap();
        let given = all.next();
        assert_eq!((given.0, all.received(given)), (1, b"key\n".to_vec()));
    }
    all.end(1);
    all.of.sweep(20);
    for peer in &mut peers[3..] {
        let _ = peer.write_all(b"late\n");
    }
    all.of.sweep(200);
    assert!(TcpStream::connect(all.address).is_err(), "the last member closes the listener");
    let ended = |peer: &mut TcpStream| {
        peer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        !matches!(peer.read(&mut [0; 4]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    };
    assert!(peers[3..].iter_mut().all(ended));
    assert_eq!(all.of.budget.used(), 0);
}

#[test]
fn without_a_place_for_it_a_silent_connection_is_decided_by_load() {
    let mut all = Sharers::new(2, BY_CONTENT);
    (0..2).for_each(|member| all.wait(member, 1));
    all.of.budget.set_most(all.of.budget.used());
    let _silent = all.connect();
    all.of.sweep(50);
    let told = |(member, tag): (usize, u64)| {
        let done = all.members[member].0.take(tag);
        done.is_some_and(|it| it.result == -i64::from(libc::ENFILE))
    };
    let told: Vec<bool> = all.waiting.clone().into_iter().map(told).collect();
    assert_eq!(told, [true, true], "at once, and there is no place for a member's either");
    all.of.budget.set_most(100);
    all.waiting.clear();
    all.wait(1, 1);
    assert_eq!(all.next().0, 1, "it was not lost");
}

#[test]
fn a_listener_that_nobody_could_join_is_gone() {
    let mut of = Loop::with_sockets(1);
    let mut one = of.session();
    one.put_address(0, "127.0.0.1:0".parse().unwrap());
    for shared in [SHARED_BIT, 0] {
        for _ in 0..100 {
            assert_eq!(of.ask(&mut one, listen(4 | shared)), -i64::from(libc::ENFILE));
        }
    }
    assert_eq!(of.budget.used(), 0, "its own descriptor is given back");
    of.budget.set_most(2);
    one.put_address(0, "127.0.0.1:0".parse().unwrap());
    let listener = of.object(&mut one, listen(4 | SHARED_BIT));
    assert_eq!(of.budget.used(), 2);
    assert_eq!(of.ask(&mut one, plain(OpKind::Close, listener, 0)), 0);
    of.sweep(4);
    assert_eq!(of.budget.used(), 0);
}
