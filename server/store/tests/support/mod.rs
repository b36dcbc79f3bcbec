//! A loop with some sessions, and areas on a device of the test's choice.

#![allow(dead_code)] // each test has its own part

use std::os::fd::OwnedFd;
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;

use heliostat_abi::file::delegated::{
    Completion, OpKind, Operation, Piece as Place, Pieces, COMPLETION_AT, COMPLETION_RECORD_BYTES,
    OPERATION_BYTES_MAX,
};
use heliostat_abi::name::ObjectId;
use heliostat_abi::store::{AreaRights, Piece};
use heliostat_backend_block::Device;
use heliostat_backend_uring::By;
use heliostat_base::mapping::SharedMapping;
use heliostat_ring::{Refresh, RingMemory, SpscConsumer, SpscProducer};
use heliostat_server_loop::{Bell, Engine, Event, Events, Inbox, NewSession, Order, Server};
use heliostat_server_store::{Areas, StoreEvent, StoreOrder};
use heliostat_service_grant::Meter;
use rustix::event::{eventfd, EventfdFlags};

pub const WINDOW_BYTES: usize = 2 << 20;
pub const BOTH: AreaRights = AreaRights::READ.and(AreaRights::WRITE);
/// The sector of memory devices.
pub const SECTOR: u64 = 512;

/// The program's end of a session.
pub struct Client {
    pub id: ObjectId,
    pub window: Arc<SharedMapping>,
    submissions: SpscProducer,
    completions: SpscConsumer,
    _rings: OwnedFd,
}

pub struct Loop {
    pub server: Server<Areas>,
    pub clients: Vec<Client>,
    /// Sessions that broke the protocol.
    pub broken: Vec<ObjectId>,
    events: Receiver<Event<Areas>>,
}

pub fn id(index: u32) -> ObjectId {
    ObjectId { index, generation: 1 }
}

pub fn session(index: usize) -> ObjectId {
    id(100 + index as u32)
}

pub fn piece(offset: u64, bytes: u64) -> Piece {
    Piece { offset, bytes }
}

pub fn errno(errno: i32) -> i64 {
    -i64::from(errno)
}

/// An operation with pieces, each an offset in the window and a length.
pub fn operation(kind: OpKind, handle: ObjectId, offset: u64, pieces: &[(u64, u32)]) -> Operation {
    let places: Vec<_> =
        pieces.iter().map(|(offset, bytes)| Place { offset: *offset, bytes: *bytes }).collect();
    let pieces = Pieces::new(&places).unwrap();
    Operation { kind, object: handle, offset, tag: 7, timeout_us: 0, argument: 0, pieces }
}

fn bell() -> Arc<OwnedFd> {
    Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap())
}

impl Loop {
    /// A loop with so many sessions.
    pub fn new(device: impl Device + 'static, sessions: usize) -> Loop {
        let (sender, events) = channel();
        let sender = Events::new(sender, bell());
        let (_, orders) = channel();
        let service = Areas::new(Box::new(device), sender.clone());
        let engine =
            Engine::create(4, service, Arc::default(), Arc::default(), sender, By::available());
        let inbox = Inbox { orders, bell: Bell::create().unwrap(), spin_ns: 0, spin_flying_ns: 0 };
        let server = Server::new(engine.unwrap(), inbox);
        let mut on = Loop { server, clients: vec![], broken: vec![], events };
        (0..sessions).for_each(|_| on.begin_session());
        on
    }

    pub fn begin_session(&mut self) {
        let id = session(self.clients.len());
        let window = Arc::new(SharedMapping::create(c"window", WINDOW_BYTES).unwrap().1);
        let (rings, link) = NewSession::create(window.clone(), Meter::default(), 1, 0).unwrap();
        self.server.carry_out(Order::Begin(id, Box::new(link)));
        let raw = std::os::fd::AsRawFd::as_raw_fd(&rings);
        let attach = |at| RingMemory::attach(raw, at).unwrap();
        self.clients.push(Client {
            id,
            window,
            submissions: attach(0).spsc_producer(Refresh::Lazy).unwrap(),
            completions: attach(COMPLETION_AT).spsc_consumer(Refresh::Lazy).unwrap(),
            _rings: rings,
        });
    }

    pub fn order(&mut self, order: StoreOrder) {
        self.server.carry_out(Order::Service(order));
    }

    /// Makes an area known that lies in these pieces, as long as they are.
    pub fn area(&mut self, number: u32, pieces: &[Piece]) {
        self.area_with(number, pieces, Meter::default());
    }

    pub fn area_with(&mut self, number: u32, pieces: &[Piece], meter: Meter) {
        let bytes = pieces.iter().map(|piece| piece.bytes).sum();
        self.order(StoreOrder::Area { area: id(number), bytes, pieces: pieces.into(), meter });
    }

    /// Gives a session a handle with this number.
    pub fn open(&mut self, of: usize, handle: u32, area: u32, rights: AreaRights) -> ObjectId {
        let (session, handle, area) = (session(of), id(handle), id(area));
        self.order(StoreOrder::Open { session, handle, area, rights });
        handle
    }

    pub fn close(&mut self, of: usize, handle: ObjectId) {
        self.order(StoreOrder::Close { session: session(of), handle });
    }

    pub fn end_session(&mut self, of: usize) {
        self.server.carry_out(Order::End(session(of)));
    }

    pub fn submit(&mut self, of: usize, asked: &Operation) {
        let mut record = [0; OPERATION_BYTES_MAX];
        let length = asked.encode(&mut record);
        assert!(self.submit_bytes(of, &record[..length]), "the ring is full");
    }

    /// Puts any bytes into a session's ring; false where there is no room.
    pub fn submit_bytes(&mut self, of: usize, record: &[u8]) -> bool {
        self.clients[of].submissions.push(record).is_ok()
    }

    pub fn sweep(&mut self, times: usize) {
        for _ in 0..times {
            self.server.sweep();
        }
    }

    /// What has completed, if something has.
    pub fn poll(&mut self, of: usize) -> Option<Completion> {
        let mut record = [0; COMPLETION_RECORD_BYTES];
        self.clients[of].completions.pop(&mut record).ok()?;
        Completion::decode(&record)
    }

    /// The next completion of a session.
    pub fn next(&mut self, of: usize) -> Completion {
        for _ in 0..1_000_000 {
            if let Some(found) = self.poll(of) {
                return found;
            }
            self.server.sweep();
        }
        panic!("nothing was completed");
    }

    /// Has an operation done: its result.
    pub fn run(&mut self, of: usize, asked: &Operation) -> i64 {
        self.submit(of, asked);
        self.next(of).result
    }

    pub fn fill(&mut self, of: usize, at: usize, len: usize, byte: u8) {
        self.clients[of].window.copy_in(at, &vec![byte; len]).unwrap();
    }

    pub fn window(&self, of: usize, at: usize, len: usize) -> Vec<u8> {
        let mut found = vec![0; len];
        self.clients[of].window.copy_out(at, &mut found).unwrap();
        found
    }

    /// The next event of the service.
    pub fn event(&mut self) -> Option<StoreEvent> {
        loop {
            match self.events.try_recv().ok()? {
                Event::Service(event) => return Some(event),
                Event::Broken(session, _) => self.broken.push(session),
                Event::Gone => panic!("the loop is gone"),
            }
        }
    }
}
