//! Two loops with threads of their own, whose sessions share a listener.

mod support;

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_abi::file::delegated::{Completion, OpKind, Operation, COMPLETION_AT};
use heliostat_abi::listener::rule::Peek;
use heliostat_abi::listener::Rule;
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::socket::operation::{PollEntry, POLL_ENTRY_BYTES, POLL_IN, SHARED_BIT};
use heliostat_abi::socket::Access;
use heliostat_base::mapping::SharedMapping;
use heliostat_ring::{Refresh, RingMemory};
use heliostat_server_loop::{Events, Loops, NewSession, Order, Settings};
use heliostat_server_socket::{Budget, Guest, Judge, Listeners, SocketOrder, Sockets, Watch};
use heliostat_service_grant::Meter;
use support::{accept, bell, listen, operation, plain, receive, One, WINDOW};

/// First lines decide, and clients may be silent for a minute: as somebody has configured.
struct Patient;

impl Judge for Patient {
    fn judge(&self, _: Access, _: NetAddress) -> Result<(), i32> {
        Ok(())
    }

    fn rule(&self, _: NetAddress) -> Option<Rule> {
        Some(Rule::Content(Peek { deadline_ms: 60_000, ..Peek::USUAL }))
    }
}

/// The loops, and a session of each.
struct Two {
    loops: Loops<Sockets>,
    each: Vec<One>,
    budget: Arc<Budget>,
}

impl Two {
    fn new() -> Two {
        let (sender, _events) = channel();
        let listeners = Arc::new(Listeners::default());
        let settings = Settings { loops: 2, cores: Vec::new(), by: None };
        let create = |gates| Sockets::new(Watch::create().ok(), gates, listeners.clone());
        let loops = Loops::start(&settings, &Events::new(sender, bell()), create).unwrap();
        let mut two = Two { loops, each: Vec::new(), budget: Budget::new(100, None) };
        (0..2).for_each(|on| two.begin(on));
        two
    }

    fn begin(&mut self, on: usize) {
        let id = ObjectId { index: on as u32 + 1, generation: 1 };
        let (_fd, window) = SharedMapping::create(c"window", WINDOW).unwrap();
        let window = Arc::new(window);
        let (rings, new) = NewSession::create(window.clone(), Meter::default(), 1, 0).unwrap();
        self.loops.order(on, Order::Begin(id, Box::new(new)));
        let attach = |at| RingMemory::attach(rings.as_raw_fd(), at).unwrap();
        let submissions = attach(0).spsc_producer(Refresh::Lazy).unwrap();
        let completions = attach(COMPLETION_AT).spsc_consumer(Refresh::Lazy).unwrap();
        self.each.push(One::new(id, window, (submissions, completions), rings));
        self.wake(on);
    }

    /// An order ends a loop's sleep.
    fn wake(&self, on: usize) {
        let (judge, budget) = (Arc::new(Patient), self.budget.clone());
        let guest = Guest { user: 7, judge, budget };
        self.loops.order(on, Order::Service(SocketOrder::Guest(self.each[on].id, guest)));
    }

    fn submit(&mut self, on: usize, asked: Operation) -> u64 {
        let tag = self.each[on].submit(asked);
        self.wake(on);
        tag
    }

    fn within(&mut self, on: usize, tag: u64, seconds: f32) -> Option<Completion> {
        let until = Instant::now() + Duration::from_secs_f32(seconds);
        while Instant::now() < until {
            if let Some(done) = self.each[on].take(tag) {
                return Some(done);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }

    fn ask(&mut self, on: usize, asked: Operation) -> ObjectId {
        let tag = self.submit(on, asked);
        let Completion { result, generation, .. } = self.within(on, tag, 30.0).expect("an answer");
        ObjectId { index: u32::try_from(result).expect("an errno"), generation }
    }
}

#[test]
fn a_member_on_another_loop_hears_of_a_line_that_comes_late() {
    let mut two = Two::new();
    let mut address: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let listeners = [0, 1].map(|on| {
        two.each[on].put_address(0, address);
        let listener = two.ask(on, listen(16 | SHARED_BIT));
        let NetAddress { ip, port } = two.each[on].address(0);
        address = SocketAddr::new(ip, port);
        listener
    });
    // The first loop takes the silent one and waits for its line; its member then wants none.
    let waits = two.submit(0, accept(listeners[0]));
    let mut silent = TcpStream::connect(address).unwrap();
    let entry = PollEntry { socket: listeners[1], wanted: POLL_IN, found: 0 };
    let held = Instant::now() + Duration::from_secs(30);
    while two.budget.used() < 4 && Instant::now() < held {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(two.budget.used(), 4, "a listener, two members, and who is silent");
    two.ask(0, plain(OpKind::Cancel, ObjectId::default(), waits));
    two.each[1].window.copy_in(16384, &entry.encode()).unwrap();
    let poll = operation(OpKind::Poll, ObjectId::default(), 0, &[(16384, POLL_ENTRY_BYTES)]);
    let polled = two.submit(1, poll);
    assert!(two.within(1, polled, 0.1).is_none(), "its first bytes are awaited");
    silent.write_all(b"line\n").unwrap();
    assert_eq!(two.within(1, polled, 30.0).map(|done| done.result), Some(1), "before the deadline");
    let given = two.ask(1, accept(listeners[1]));
    assert_eq!(two.ask(1, receive(given, 4096, 100)).index, 5);
    assert_eq!(two.each[1].bytes(4096, 5), b"line\n");
}
