//! A server loop with one session, without a control plane around it.

use std::os::fd::OwnedFd;
use std::sync::mpsc::channel;

use heliostat_abi::delegated::{
    Completion, Kind, Operation, Piece, Pieces, COMPLETION_AT, COMPLETION_RECORD_BYTES,
    OPERATION_BYTES_MAX,
};
use heliostat_abi::node::State;
use heliostat_base::mapping::SharedMapping;
use heliostat_ring::{Refresh, RingMemory, SpscConsumer, SpscProducer};
use heliostat_service_file::delegated::Meter;
use rustix::event::{eventfd, EventfdFlags};

use super::super::counts::Counts;
use super::super::file::{OpenFile, Version, Vouched};
use super::super::make_link;
use super::super::message::Asked;
use super::super::shared::{Gate, Shared};
use super::super::told::Told;
use super::*;
use crate::memory::NodePage;

const WINDOW_BYTES: usize = 1 << 20;

/// A loop, and a session's ends of its rings.
struct One {
    server: Server,
    submissions: SpscProducer,
    completions: SpscConsumer,
}

impl One {
    fn new() -> One {
        let (orders, inbox) = channel();
        let (teller, _) = channel();
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap());
        let gate = Gate { orders, bell: bell.clone() };
        let shared = Arc::new(Shared::create(1 << 20, vec![gate]).unwrap());
        let counts = Arc::new(Counts::default());
        let engine = Engine::create(0, shared, counts, (teller, bell.clone())).unwrap();
        let inbox = Inbox { orders: inbox, bell, spin_ns: 0, spin_flying_ns: 0 };
        let mut server = Server::new(engine, inbox);
        let (_fd, window) = SharedMapping::create(c"window", WINDOW_BYTES).unwrap();
        let (rings, link) = make_link(Arc::new(window), Meter::default()).unwrap();
        server.carry_out(Order::Begin(ObjectId::default(), Box::new(link)));
        let attach = |at| RingMemory::attach(std::os::fd::AsRawFd::as_raw_fd(&rings), at).unwrap();
        let submissions = attach(0).spsc_producer(Refresh::Lazy).unwrap();
        let completions = attach(COMPLETION_AT).spsc_consumer(Refresh::Lazy).unwrap();
        One { server, submissions, completions }
    }

    fn next(&mut self) -> Option<Completion> {
        let mut record = [0; COMPLETION_RECORD_BYTES];
        for _ in 0..100_000 {
            self.server.sweep();
            if self.completions.pop(&mut record).is_ok() {
                return Completion::decode(&record);
            }
        }
        None
    }

    fn show(&mut self, file: OpenFile) -> ObjectId {
        let asked = Asked::Shown(0);
        self.server.carry_out(Order::Opened(ObjectId::default(), asked, Ok(Box::new(file))));
        let Completion { result, generation, .. } = self.next().unwrap();
        ObjectId { index: u32::try_from(result).unwrap(), generation }
    }

    fn read(&mut self, object: ObjectId) -> Option<Completion> {
        let pieces = Pieces::new(&[Piece { offset: 0, bytes: 100 }]).unwrap();
        let (kind, tag) = (Kind::Read, 7);
        let read = Operation { kind, object, offset: 0, tag, timeout_us: 0, argument: 0, pieces };
        let mut record = [0; OPERATION_BYTES_MAX];
        let length = read.encode(&mut record);
        self.submissions.push(&record[..length]).unwrap();
        self.next()
    }
}

/// A file under a lease that holds, by this descriptor.
fn leased(fd: OwnedFd, node: &NodePage) -> OpenFile {
    let id = ObjectId { index: 0, generation: 1 };
    let word = node.lease_word(id);
    word.set(State::Active);
    let version = Version { device: 1, inode: 1, size: 4096, changed: (0, 0), only_under: None };
    OpenFile {
        buffered: Arc::new(fd),
        direct: None,
        can_read: true,
        can_write: false,
        wants_direct: false,
        may_cache: true,
        lease: Some(Vouched { id, word, version }),
        serial: 1,
        holder: heliostat_abi::quota::Holder::user(1),
        meter: None,
        told: Arc::new(Told::default()),
    }
}

#[test]
fn a_read_of_what_cannot_be_read_ends_with_the_kernels_error() {
    let mut one = One::new();
    let node = NodePage::create(1).unwrap();
    // Reading by it fails every time, as on a device that has gone bad.
    let unreadable = std::fs::File::options().write(true).open("/dev/null").unwrap();
    let object = one.show(leased(unreadable.into(), &node));
    let found = one.read(object).expect("an end");
    assert_eq!((found.result, found.way), (-i64::from(libc::EBADF), Way::Kernel));
}
