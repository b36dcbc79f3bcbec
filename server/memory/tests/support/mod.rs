//! A loop with one session, whose regions all lie in one area of several pieces.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;

use heliostat_abi::file::delegated::{
    CallWords, Completion, OpKind, Operation, Piece, Pieces, CALL_AT, CALL_BYTES, COMPLETION_AT,
    COMPLETION_RECORD_BYTES, OPERATION_BYTES_MAX,
};
use heliostat_abi::memory::operation::CopySource;
use heliostat_abi::memory::page::{State, HEADER_BYTES};
use heliostat_abi::memory::Rights;
use heliostat_abi::name::ObjectId;
use heliostat_backend_uring::By;
use heliostat_base::mapping::{Access, SharedMapping};
use heliostat_ring::call_line::Asker;
use heliostat_ring::{Refresh, RingMemory, SpscConsumer, SpscProducer};
use heliostat_server_loop::{
    Area, Bell, Engine, Event, Events, Inbox, NewSession, Order, RegionPage, Server,
};
use heliostat_server_memory::{Hold, Memories, MemoryEvent, MemoryOrder};
use heliostat_service_grant::Meter;
use rustix::event::{eventfd, EventfdFlags};

pub const SESSION: ObjectId = ObjectId { index: 3, generation: 1 };
pub const WINDOW_BYTES: usize = 1 << 20;
/// Bytes of every region: the pieces have 24 more.
pub const AREA_BYTES: usize = 300_000;
const ARENA_BYTES: usize = 1 << 20;

pub struct Loop {
    pub server: Server<Memories>,
    pub window: Arc<SharedMapping>,
    pub page: RegionPage,
    pub area: Arc<Area>,
    arena: Arc<SharedMapping>,
    submissions: SpscProducer,
    completions: SpscConsumer,
    asker: Asker,
    events: Receiver<Event<Memories>>,
    orders: Sender<Order<Memories>>,
    _rings: OwnedFd,
}

pub fn handle(index: u32) -> ObjectId {
    ObjectId { index, generation: 1 }
}

pub fn region(index: u32) -> ObjectId {
    ObjectId { index, generation: 1 }
}

pub fn piece(offset: u64, bytes: u32) -> Piece {
    Piece { offset, bytes }
}

pub fn errno(errno: i32) -> i64 {
    -i64::from(errno)
}

/// A read by no handle.
pub fn blank(pieces: &[Piece]) -> Operation {
    let pieces = Pieces::new(pieces).unwrap();
    let (kind, object) = (OpKind::Read, ObjectId::default());
    Operation { kind, object, offset: 0, tag: 7, timeout_us: 0, argument: 0, pieces }
}

fn bell() -> Arc<OwnedFd> {
    Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap())
}

fn pieces_of(arena: &Arc<SharedMapping>) -> [(Arc<SharedMapping>, u64, u64); 3] {
    let piece = |at, bytes| (arena.clone(), at, bytes);
    [piece(4096, 100_000), piece(640_000, 100_000), piece(320_000, 100_024)]
}

impl Loop {
    pub fn new() -> Loop {
        let (sent, orders) = channel();
        let (sender, events) = channel();
        let sender = Events::new(sender, bell());
        let page = SharedMapping::create(c"regions", HEADER_BYTES + 4096).unwrap().1;
        let page = Arc::new(page);
        let service = Memories::new(page.clone(), sender.clone());
        let engine =
            Engine::create(0, service, Arc::default(), Arc::default(), sender, By::available());
        let inbox = Inbox { orders, bell: Bell::create().unwrap(), spin_ns: 0, spin_flying_ns: 0 };
        let mut server = Server::new(engine.unwrap(), inbox);
        let window = Arc::new(SharedMapping::create(c"window", WINDOW_BYTES).unwrap().1);
        let (rings, link) = NewSession::create(window.clone(), Meter::default(), 1, 0).unwrap();
        server.carry_out(Order::Begin(SESSION, Box::new(link)));
        let raw = rings.as_raw_fd();
        let attach = |at| RingMemory::attach(raw, at).unwrap();
        let call = SharedMapping::map(raw, CALL_AT, CALL_BYTES, Access::ReadWrite).unwrap();
        let arena = Arc::new(SharedMapping::create(c"arena", ARENA_BYTES).unwrap().1);
        let area = Area::new(pieces_of(&arena), AREA_BYTES as u64).unwrap();
        Loop {
            server,
            window,
            page: RegionPage::new(page),
            area: Arc::new(area),
            arena,
            submissions: attach(0).spsc_producer(Refresh::Lazy).unwrap(),
            completions: attach(COMPLETION_AT).spsc_consumer(Refresh::Lazy).unwrap(),
            asker: Asker::new(call),
            events,
            orders: sent,
            _rings: rings,
        }
    }

    fn order(&mut self, order: MemoryOrder) {
        self.server.carry_out(Order::Service(order));
    }

    /// Gives the session a handle on a live region, both of this number.
    pub fn hold(&mut self, number: u32, rights: Rights) -> ObjectId {
        self.page.set(region(number), State::Live, 1);
        let (handle, region, area) = (handle(number), region(number), self.area.clone());
        let hold = Hold { session: SESSION, handle, region, rights, area, epoch: 1 };
        self.order(MemoryOrder::Hold(Box::new(hold)));
        handle
    }

    /// The same by an order that the loop finds when it looks for some.
    pub fn send_hold(&mut self, number: u32, rights: Rights) {
        self.page.set(region(number), State::Live, 1);
        let (handle, region, area) = (handle(number), region(number), self.area.clone());
        let hold = Hold { session: SESSION, handle, region, rights, area, epoch: 1 };
        self.orders.send(Order::Service(MemoryOrder::Hold(Box::new(hold)))).unwrap();
    }

    pub fn drop_handle(&mut self, handle: ObjectId) {
        self.order(MemoryOrder::Drop { session: SESSION, handle });
    }

    /// Puts a region elsewhere, for its second epoch.
    pub fn place(&mut self, number: u32, area: &Arc<Area>) {
        let (region, area) = (region(number), area.clone());
        self.order(MemoryOrder::Place { region, area, epoch: 2 });
    }

    pub fn lose(&mut self, number: u32) {
        self.order(MemoryOrder::Lose { region: region(number) });
    }

    pub fn leave(&mut self, number: u32) {
        self.order(MemoryOrder::Leave { region: region(number), epoch: 1 });
    }

    pub fn end_session(&mut self) {
        self.server.carry_out(Order::End(SESSION));
    }

    /// As long as the usual one, elsewhere.
    pub fn other_area(&self) -> Arc<Area> {
        let pieces = [(self.arena.clone(), 0, AREA_BYTES as u64)];
        Arc::new(Area::new(pieces, AREA_BYTES as u64).unwrap())
    }

    /// The usual one with another piece.
    pub fn grown_area(&self) -> Arc<Area> {
        let more = (self.arena.clone(), 800_000, 4096);
        let pieces = pieces_of(&self.arena).into_iter().chain([more]);
        Arc::new(Area::new(pieces, AREA_BYTES as u64 + 4096).unwrap())
    }

    pub fn submit(&mut self, asked: &Operation) {
        let mut record = [0; OPERATION_BYTES_MAX];
        let length = asked.encode(&mut record);
        self.submissions.push(&record[..length]).unwrap();
    }

    pub fn next(&mut self) -> Completion {
        let mut record = [0; COMPLETION_RECORD_BYTES];
        for _ in 0..100_000 {
            self.server.sweep();
            if self.completions.pop(&mut record).is_ok() {
                return Completion::decode(&record).unwrap();
            }
        }
        panic!("nothing was completed");
    }

    /// Whether nothing is completed, however often the loop looks.
    pub fn is_silent(&mut self) -> bool {
        let mut record = [0; COMPLETION_RECORD_BYTES];
        (0..1000).all(|_| {
            self.server.sweep();
            self.completions.pop(&mut record).is_err()
        })
    }

    /// Submits an operation at (offset, argument): its result.
    pub fn run(
        &mut self,
        kind: OpKind,
        object: ObjectId,
        (offset, argument): (u64, u64),
        pieces: &[Piece],
    ) -> i64 {
        self.submit(&Operation { kind, object, offset, argument, ..blank(pieces) });
        self.next().result
    }

    pub fn copy(&mut self, object: ObjectId, offset: u64, source: CopySource) -> i64 {
        self.window.copy_in(512, &source.encode()).unwrap();
        self.run(OpKind::Copy, object, (offset, 0), &[piece(512, 24)])
    }

    /// Changes a word: the result, and what it was.
    pub fn change(
        &mut self,
        kind: OpKind,
        object: ObjectId,
        offset: u64,
        argument: u64,
        expected: u64,
    ) -> (i64, u64) {
        self.window.copy_in(256, &expected.to_le_bytes()).unwrap();
        let result = self.run(kind, object, (offset, argument), &[piece(256, 8)]);
        (result, u64::from_le_bytes(self.window_bytes(256, 8).try_into().unwrap()))
    }

    pub fn call(&mut self, words: CallWords) -> i64 {
        self.asker.ask(words);
        for _ in 0..100_000 {
            self.server.sweep();
            if let Some(answer) = self.asker.take() {
                return answer;
            }
        }
        panic!("nothing was answered");
    }

    pub fn window_bytes(&self, at: usize, len: usize) -> Vec<u8> {
        let mut found = vec![0; len];
        self.window.copy_out(at, &mut found).unwrap();
        found
    }

    pub fn bytes_of(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut found = vec![0; len];
        self.area.read(offset, &mut found).unwrap();
        found
    }

    /// The next handle that was released: whose, and which.
    pub fn released(&mut self) -> Option<(ObjectId, ObjectId)> {
        match self.events.try_recv().ok()? {
            Event::Service(MemoryEvent::Released { session, handle }) => Some((session, handle)),
            _ => panic!("another event"),
        }
    }

    /// The next answer to `Leave`: of which loop, about which region.
    pub fn left(&mut self) -> Option<(usize, ObjectId)> {
        match self.events.try_recv().ok()? {
            Event::Service(MemoryEvent::Left { number, region, .. }) => Some((number, region)),
            _ => panic!("another event"),
        }
    }
}
