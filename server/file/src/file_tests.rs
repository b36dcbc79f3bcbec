//! A server loop with one session, without a control plane around it.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_abi::file::delegated::{
    Completion, OpKind, Operation, Piece, Pieces, Way, COMPLETION_AT, COMPLETION_RECORD_BYTES,
    OPERATION_BYTES_MAX,
};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::node::{self, State};
use heliostat_backend_uring::By;
use heliostat_base::mapping::SharedMapping;
use heliostat_ring::{Refresh, RingMemory, SpscConsumer, SpscProducer};
use heliostat_server_loop::{Bell, Engine, Events, Gate, Inbox, NewSession, Order, Server};
use heliostat_service_grant::Meter;
use rustix::event::{eventfd, EventfdFlags};

use super::*;

const WINDOW_BYTES: usize = 1 << 20;
const WATCHDOG: Duration = Duration::from_secs(60);

/// A loop, and a session's ends of its rings.
struct One {
    server: Server<Files>,
    submissions: SpscProducer,
    completions: SpscConsumer,
}

impl One {
    fn new(by: By) -> One {
        let (orders, inbox) = channel();
        let bell = Bell::create().unwrap();
        let gates = Arc::new([Gate::new(orders, bell.clone())]);
        let files = Files::new(Arc::new(SharedFiles::create(1 << 20, 1, None).unwrap()), gates);
        let events = Events::new(channel().0, Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap()));
        let engine = Engine::create(0, files, Arc::default(), Arc::default(), events, by).unwrap();
        let inbox = Inbox { orders: inbox, bell, spin_ns: 0, spin_flying_ns: 0 };
        let mut server = Server::new(engine, inbox);
        let (_fd, window) = SharedMapping::create(c"window", WINDOW_BYTES).unwrap();
        let (rings, new) = NewSession::create(Arc::new(window), Meter::default(), 1, 0).unwrap();
        server.carry_out(Order::Begin(ObjectId::default(), Box::new(new)));
        let attach = |at| RingMemory::attach(rings.as_raw_fd(), at).unwrap();
        let submissions = attach(0).spsc_producer(Refresh::Lazy).unwrap();
        let completions = attach(COMPLETION_AT).spsc_consumer(Refresh::Lazy).unwrap();
        One { server, submissions, completions }
    }

    fn next(&mut self) -> Option<Completion> {
        let mut record = [0; COMPLETION_RECORD_BYTES];
        let ends = Instant::now() + WATCHDOG;
        while Instant::now() < ends {
            self.server.sweep();
            if self.completions.pop(&mut record).is_ok() {
                return Completion::decode(&record);
            }
            // Where threads make the requests they need a core.
            std::thread::yield_now();
        }
        None
    }

    fn show(&mut self, file: OpenFile) -> ObjectId {
        let by = OpenedBy::Shown(0);
        let order = FileOrder::Opened(ObjectId::default(), by, Ok(Box::new(file)));
        self.server.carry_out(Order::Service(order));
        let Completion { result, generation, .. } = self.next().unwrap();
        ObjectId { index: u32::try_from(result).unwrap(), generation }
    }

    fn read(&mut self, object: ObjectId) -> Option<Completion> {
        let pieces = Pieces::new(&[Piece { offset: 0, bytes: 100 }]).unwrap();
        let (kind, tag) = (OpKind::Read, 7);
        let read = Operation { kind, object, offset: 0, tag, timeout_us: 0, argument: 0, pieces };
        let mut record = [0; OPERATION_BYTES_MAX];
        let length = read.encode(&mut record);
        self.submissions.push(&record[..length]).unwrap();
        self.next()
    }
}

/// A file under a lease that holds, by this descriptor.
fn leased(fd: OwnedFd, page: &'static SharedMapping) -> OpenFile {
    let id = ObjectId { index: 0, generation: 1 };
    let word = LeaseWord::new(page, id);
    word.set(State::Active);
    let version = Version { device: 1, inode: 1, size: 4096, changed: (0, 0), only_under: None };
    OpenFile {
        inode: Inode { device: 1, number: 1 },
        buffered: Arc::new(fd),
        direct: None,
        can_read: true,
        can_write: false,
        may_lock_alone: true,
        wants_direct: false,
        wants_buffered: false,
        directory: None,
        may_cache: true,
        lease: Some(Vouched { id, word, version }),
        device: Devices::new(None).of(1),
        serial: 1,
        holder: heliostat_service_grant::Holder::user(1),
        meter: None,
        stats: Arc::default(),
    }
}

#[test]
fn a_read_of_what_cannot_be_read_ends_with_the_kernels_error() {
    for by in [By::available(), By::Threads] {
        let mut one = One::new(by);
        let page = SharedMapping::create(c"node", node::BYTES).unwrap().1;
        let page = Box::leak(Box::new(page));
        // Reading by it fails every time, as on a device that has gone bad.
        let unreadable = std::fs::File::options().write(true).open("/dev/null").unwrap();
        let object = one.show(leased(unreadable.into(), page));
        let found = one.read(object).expect("an end");
        assert_eq!((found.result, found.way), (-i64::from(libc::EBADF), Way::Kernel));
    }
}
