//! A loop of sockets driven by hand, with sessions that speak to it over their rings.
#![allow(dead_code)]

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;

use heliostat_abi::file::delegated::{
    Completion, OpKind, Operation, Piece, Pieces, COMPLETION_AT, COMPLETION_RECORD_BYTES,
    OPERATION_BYTES_MAX,
};
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::socket::operation::{decode_address, encode_address, ADDRESS_BYTES};
use heliostat_abi::socket::Access;
use heliostat_backend_uring::By;
use heliostat_base::mapping::SharedMapping;
use heliostat_ring::{Refresh, RingMemory, SpscConsumer, SpscProducer};
use heliostat_server_loop::{Bell, Engine, Event, Events, Inbox, NewSession, Order, Server};
use heliostat_server_socket::{Budget, Guest, Judge, Listeners, SocketOrder, Sockets, Watch};
use heliostat_service_grant::Meter;
use rustix::event::{eventfd, EventfdFlags};

pub const WINDOW: usize = 1 << 20;

/// Everything is allowed but port 1.
pub struct ButPortOne;

impl Judge for ButPortOne {
    fn judge(&self, _: Access, address: NetAddress) -> Result<(), i32> {
        (address.port != 1).then_some(()).ok_or(libc::EACCES)
    }
}

/// One session's ends.
pub struct One {
    pub id: ObjectId,
    pub window: Arc<SharedMapping>,
    pub submissions: SpscProducer,
    pub completions: SpscConsumer,
    _rings: OwnedFd,
    /// Completions that were taken before somebody waited for them.
    pub early: Vec<Completion>,
    tag: u64,
}

/// A loop, and what it tells.
pub struct Loop {
    pub server: Server<Sockets>,
    pub events: Receiver<Event<Sockets>>,
    pub budget: Arc<Budget>,
    sessions: u32,
}

pub fn bell() -> Arc<OwnedFd> {
    Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap())
}

impl Loop {
    pub fn new() -> Loop {
        Loop::with_sockets(1000)
    }

    /// With room for so many sockets of all sessions.
    pub fn with_sockets(most: u64) -> Loop {
        let (sender, events) = channel();
        // Nobody gives orders but the test, by the server's own hand.
        let (_gate, orders) = channel();
        let service =
            Sockets::new(Watch::create().ok(), Arc::from([]), Arc::new(Listeners::default()));
        let told = Events::new(sender, bell());
        let engine =
            Engine::create(0, service, Arc::default(), Arc::default(), told, By::available());
        let inbox = Inbox { orders, bell: Bell::create().unwrap(), spin_ns: 0, spin_flying_ns: 0 };
        let server = Server::new(engine.unwrap(), inbox);
        Loop { server, events, budget: Budget::new(most, None), sessions: 0 }
    }

    pub fn session(&mut self) -> One {
        self.sessions += 1;
        let id = ObjectId { index: self.sessions, generation: 1 };
        let (_fd, window) = SharedMapping::create(c"window", WINDOW).unwrap();
        let window = Arc::new(window);
        let (rings, new) = NewSession::create(window.clone(), Meter::default(), 1, 0).unwrap();
        self.server.carry_out(Order::Begin(id, Box::new(new)));
        let guest = Guest { user: 7, judge: Arc::new(ButPortOne), budget: self.budget.clone() };
        self.server.carry_out(Order::Service(SocketOrder::Guest(id, guest)));
        let attach = |at| RingMemory::attach(rings.as_raw_fd(), at).unwrap();
        let submissions = attach(0).spsc_producer(Refresh::Lazy).unwrap();
        let completions = attach(COMPLETION_AT).spsc_consumer(Refresh::Lazy).unwrap();
        One::new(id, window, (submissions, completions), rings)
    }

    pub fn end(&mut self, one: &One) {
        self.server.carry_out(Order::End(one.id));
    }

    pub fn sweep(&mut self, times: usize) {
        for _ in 0..times {
            self.server.sweep();
            std::thread::yield_now();
        }
    }

    /// Sweeps until an operation has completed.
    pub fn wait(&mut self, one: &mut One, tag: u64) -> Completion {
        for _ in 0..3_000_000 {
            if let Some(found) = one.take(tag) {
                return found;
            }
            self.server.sweep();
        }
        panic!("operation {tag} was not completed");
    }

    /// Asks, and sweeps until it is answered: the result.
    pub fn ask(&mut self, one: &mut One, operation: Operation) -> i64 {
        let tag = one.submit(operation);
        self.wait(one, tag).result
    }

    /// The object that an operation makes.
    pub fn object(&mut self, one: &mut One, operation: Operation) -> ObjectId {
        let tag = one.submit(operation);
        let Completion { result, generation, .. } = self.wait(one, tag);
        ObjectId { index: u32::try_from(result).expect("an errno"), generation }
    }

    /// A listener at any port, and its address.
    pub fn listener(&mut self, one: &mut One, argument: u64) -> (ObjectId, NetAddress) {
        one.put_address(0, "127.0.0.1:0".parse().unwrap());
        let listener = self.object(one, listen(argument));
        (listener, one.address(0))
    }
}

impl One {
    pub fn new(
        id: ObjectId,
        window: Arc<SharedMapping>,
        (submissions, completions): (SpscProducer, SpscConsumer),
        rings: OwnedFd,
    ) -> One {
        One { id, window, submissions, completions, _rings: rings, early: Vec::new(), tag: 0 }
    }

    pub fn submit(&mut self, operation: Operation) -> u64 {
        self.tag += 1;
        let mut record = [0; OPERATION_BYTES_MAX];
        let length = Operation { tag: self.tag, ..operation }.encode(&mut record);
        self.submissions.push(&record[..length]).unwrap();
        self.tag
    }

    pub fn take(&mut self, tag: u64) -> Option<Completion> {
        let mut record = [0; COMPLETION_RECORD_BYTES];
        while self.completions.pop(&mut record).is_ok() {
            self.early.push(Completion::decode(&record).unwrap());
        }
        let at = self.early.iter().position(|it| it.tag == tag)?;
        Some(self.early.remove(at))
    }

    pub fn put_address(&self, at: usize, address: std::net::SocketAddr) {
        self.window.copy_in(at, &encode_address(NetAddress::new(address))).unwrap();
    }

    pub fn address(&self, at: usize) -> NetAddress {
        let mut bytes = [0; ADDRESS_BYTES];
        self.window.copy_out(at, &mut bytes).unwrap();
        decode_address(&bytes).unwrap()
    }

    pub fn bytes(&self, at: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.window.copy_out(at, &mut bytes).unwrap();
        bytes
    }
}

pub fn operation(
    kind: OpKind,
    object: ObjectId,
    argument: u64,
    pieces: &[(usize, usize)],
) -> Operation {
    let piece = |(at, bytes): &(usize, usize)| Piece { offset: *at as u64, bytes: *bytes as u32 };
    let pieces: Vec<_> = pieces.iter().map(piece).collect();
    let pieces = Pieces::new(&pieces).unwrap();
    Operation { kind, object, offset: 0, tag: 0, timeout_us: 0, argument, pieces }
}

pub fn listen(argument: u64) -> Operation {
    operation(OpKind::Listen, ObjectId::default(), argument, &[(0, ADDRESS_BYTES)])
}

pub fn connect(at: usize) -> Operation {
    operation(OpKind::Connect, ObjectId::default(), 0, &[(at, ADDRESS_BYTES)])
}

pub fn accept(listener: ObjectId) -> Operation {
    operation(OpKind::Accept, listener, 0, &[(64, ADDRESS_BYTES)])
}

pub fn receive(socket: ObjectId, at: usize, bytes: usize) -> Operation {
    operation(OpKind::Read, socket, 0, &[(at, bytes)])
}

pub fn send(socket: ObjectId, at: usize, bytes: usize) -> Operation {
    operation(OpKind::Write, socket, 0, &[(at, bytes)])
}

pub fn plain(kind: OpKind, socket: ObjectId, argument: u64) -> Operation {
    operation(kind, socket, argument, &[])
}
