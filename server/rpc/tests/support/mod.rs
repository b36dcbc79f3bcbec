//! A loop with several sessions, whose other ends a test holds.

#![allow(dead_code)] // each test file uses its part

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_abi::file::delegated::{
    Completion, OpKind, Operation, Piece, Pieces, COMPLETION_AT, COMPLETION_RECORD_BYTES,
    OPERATION_BYTES_MAX,
};
use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::{CallHead, HEAD_BYTES};
use heliostat_backend_uring::By;
use heliostat_base::mapping::SharedMapping;
use heliostat_ring::{Refresh, RingMemory, SpscConsumer, SpscProducer};
use heliostat_server_loop::{Bell, Engine, Event, Events, Inbox, NewSession, Order, Server};
use heliostat_server_rpc::{Role, RpcOrder, Rpcs, ServedFunction, Who};
use heliostat_service_grant::Meter;
use rustix::event::{eventfd, EventfdFlags};

pub const WINDOW_BYTES: usize = 4 << 20;
/// Where a session's operation has its incoming bytes, and its outgoing ones.
pub const IN: u64 = 0;
pub const OUT: u64 = 2 << 20;
pub const SERVES: Role = Role { serves: true, calls: false };
pub const CALLS: Role = Role { serves: false, calls: true };
pub const NOTHING: Role = Role { serves: false, calls: false };

pub struct Loop {
    server: Server<Rpcs>,
    orders: Sender<Order<Rpcs>>,
    pub sessions: Vec<End>,
    pub events: Receiver<Event<Rpcs>>,
}

/// A session's end of its rings.
pub struct End {
    pub window: Arc<SharedMapping>,
    submissions: SpscProducer,
    completions: SpscConsumer,
    _rings: OwnedFd,
}

pub fn session(number: usize) -> ObjectId {
    ObjectId { index: 10 + number as u32, generation: 1 }
}

pub fn function(number: u32) -> ObjectId {
    ObjectId { index: number, generation: 1 }
}

pub fn errno(errno: i32) -> i64 {
    -i64::from(errno)
}

pub fn piece(offset: u64, bytes: u32) -> Piece {
    Piece { offset, bytes }
}

pub fn operation(kind: OpKind, tag: u64, argument: u64, pieces: &[Piece]) -> Operation {
    let (pieces, object) = (Pieces::new(pieces).unwrap(), function(1));
    Operation { kind, object, offset: 0, tag, timeout_us: 0, argument, pieces }
}

/// Bytes that differ by place.
pub fn payload(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed).collect()
}

/// A server, session 0, and callers.
pub fn with_callers(count: usize) -> Loop {
    let mut on = Loop::with(count + 1, 8);
    on.grant(0, SERVES);
    (1..=count).for_each(|number| on.grant(number, CALLS));
    on
}

pub fn grant(number: usize, of: u32, role: Role) -> RpcOrder {
    let who = Some(Who { user: 1000 + number as u32, process: 50 + number as u32 });
    RpcOrder::Grant { session: session(number), who, function: function(of), role }
}

fn bell() -> Arc<OwnedFd> {
    Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap())
}

impl Loop {
    /// One with so many sessions and function 1, whose messages have so many places.
    pub fn with(sessions: usize, queue: u32) -> Loop {
        let (to_loop, orders) = channel();
        let (sender, events) = channel();
        let sender = Events::new(sender, bell());
        let engine = Engine::create(
            0,
            Rpcs::default(),
            Arc::default(),
            Arc::default(),
            sender,
            By::available(),
        );
        let inbox = Inbox { orders, bell: Bell::create().unwrap(), spin_ns: 0, spin_flying_ns: 0 };
        let server = Server::new(engine.unwrap(), inbox);
        let mut made = Loop { server, orders: to_loop, sessions: Vec::new(), events };
        (0..sessions).for_each(|_| made.join());
        made.serve(1, queue);
        made
    }

    /// Another session.
    pub fn join(&mut self) {
        let window = Arc::new(SharedMapping::create(c"window", WINDOW_BYTES).unwrap().1);
        let made = NewSession::create(window.clone(), Meter::default(), 1, 0).unwrap();
        let (rings, new) = made;
        let id = session(self.sessions.len());
        self.server.carry_out(Order::Begin(id, Box::new(new)));
        let attach = |at| RingMemory::attach(rings.as_raw_fd(), at).unwrap();
        let submissions = attach(0).spsc_producer(Refresh::Lazy).unwrap();
        let completions = attach(COMPLETION_AT).spsc_consumer(Refresh::Lazy).unwrap();
        self.sessions.push(End { window, submissions, completions, _rings: rings });
    }

    pub fn order(&mut self, order: RpcOrder) {
        self.server.carry_out(Order::Service(order));
    }

    /// The same, when the loop next looks for orders.
    pub fn order_later(&mut self, order: RpcOrder) {
        self.orders.send(Order::Service(order)).unwrap();
    }

    pub fn serve(&mut self, number: u32, queue: u32) {
        let (request_bytes, reply_bytes) = (1 << 20, 1 << 20);
        let function = function(number);
        let served = ServedFunction { function, user: 7, request_bytes, reply_bytes, queue };
        self.order(RpcOrder::Serve(served));
    }

    pub fn grant(&mut self, number: usize, role: Role) {
        self.grant_of(number, 1, role);
    }

    pub fn grant_of(&mut self, number: usize, of: u32, role: Role) {
        self.order(grant(number, of, role));
    }

    pub fn end(&mut self, number: usize) {
        self.server.carry_out(Order::End(session(number)));
    }

    pub fn submit(&mut self, number: usize, asked: &Operation) {
        let mut record = [0; OPERATION_BYTES_MAX];
        let length = asked.encode(&mut record);
        self.push(number, &record[..length]);
    }

    pub fn push(&mut self, number: usize, record: &[u8]) {
        self.sessions[number].submissions.push(record).unwrap();
    }

    pub fn sweep(&mut self, times: usize) {
        (0..times).for_each(|_| _ = self.server.sweep());
    }

    /// What a session is told, once something is.
    pub fn next(&mut self, number: usize) -> Completion {
        // By the clock: a completion may be one that comes when time is over.
        let until = Instant::now() + Duration::from_secs(20);
        while Instant::now() < until {
            self.server.sweep();
            if let Some(found) = self.poll(number) {
                return found;
            }
        }
        panic!("session {number}: nothing was completed");
    }

    pub fn poll(&mut self, number: usize) -> Option<Completion> {
        let mut record = [0; COMPLETION_RECORD_BYTES];
        self.sessions[number].completions.pop(&mut record).ok()?;
        Some(Completion::decode(&record).unwrap())
    }

    /// Whether a session is told nothing, however often the loop looks.
    pub fn is_silent(&mut self, number: usize) -> bool {
        self.sweep(500);
        self.poll(number).is_none()
    }

    /// Calls with a payload that lies at `OUT`; the reply goes to `IN`.
    pub fn call(&mut self, number: usize, tag: u64, payload: &[u8]) {
        let asked = self.call_of(number, tag, payload);
        self.submit(number, &asked);
    }

    pub fn call_of(&mut self, number: usize, tag: u64, payload: &[u8]) -> Operation {
        self.sessions[number].window.copy_in(OUT as usize, payload).unwrap();
        let pieces = [piece(IN, 1 << 20), piece(OUT, payload.len() as u32)];
        let count = if payload.is_empty() { 1 } else { 2 };
        operation(OpKind::Call, tag, 0, &pieces[..count])
    }

    pub fn receive(&mut self, number: usize, tag: u64) {
        let pieces = [piece(IN, (1 << 20) + HEAD_BYTES as u32)];
        self.submit(number, &operation(OpKind::Receive, tag, 0, &pieces));
    }

    pub fn reply(&mut self, number: usize, tag: u64, token: u64, payload: &[u8]) {
        self.sessions[number].window.copy_in(OUT as usize, payload).unwrap();
        let pieces = [piece(OUT, payload.len() as u32)];
        let count = usize::from(!payload.is_empty());
        self.submit(number, &operation(OpKind::Reply, tag, token, &pieces[..count]));
    }

    pub fn bytes(&self, number: usize, at: u64, len: usize) -> Vec<u8> {
        let mut found = vec![0; len];
        self.sessions[number].window.copy_out(at as usize, &mut found).unwrap();
        found
    }

    /// The call that a session has received: its head and payload.
    pub fn received(&mut self, number: usize, tag: u64) -> (CallHead, Vec<u8>) {
        let done = self.next(number);
        assert_eq!(done.tag, tag);
        let head: [u8; HEAD_BYTES] = self.bytes(number, IN, HEAD_BYTES).try_into().unwrap();
        let head = CallHead::decode(&head);
        assert_eq!(done.result, (HEAD_BYTES + head.bytes as usize) as i64);
        (head, self.bytes(number, IN + HEAD_BYTES as u64, head.bytes as usize))
    }
}
