//! Memory regions and clients that speak the protocol badly, or for others.

use std::os::fd::AsRawFd;

use crate::support::beside::{as_user, may_become_others, ATTACKERS, NEIGHBOUR};
use crate::support::{await_that, Client, Daemon, WATCHDOG};
use heliostat_abi::code::Code;
use heliostat_abi::file::delegated::*;
use heliostat_abi::memory::limits::{ARENA_BYTES_MAX, PIECES_MAX, REGIONS_MAX};
use heliostat_abi::memory::name::OWN_USER;
use heliostat_abi::memory::operation::{set_argument, CopySource, COPY_BYTES};
use heliostat_abi::memory::request::{number, FIRST};
use heliostat_abi::memory::{Allocation, Granted, MemoryName, MemoryReply, MemoryRequest, Rights};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{OwnRequest, Reply, Request, REQUEST_BODY_BYTES};
use heliostat_abi::session::restriction::Services;
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::{Access, SharedMapping};
use heliostat_ring::doorbell::Patience;
use heliostat_ring::probe::Immortal;
use heliostat_ring::{Refresh, RingMemory, SpscConsumer, SpscProducer};

const WINDOW: usize = 1 << 16;

/// A connection that asks the memory service.
struct Asking(Client);

impl Asking {
    fn new(daemon: &Daemon) -> Asking {
        let mut client = daemon.visit();
        client.hello();
        Asking(client)
    }

    /// One that may map nothing: everything of its is delegated.
    fn restricted(daemon: &Daemon, services: Services) -> Asking {
        let mut client = daemon.visit();
        assert_eq!(client.ask(&Request::Restrict { services, pid: 4_000_000 }).0, Reply::Done);
        client.hello();
        Asking(client)
    }

    fn ask_with(&mut self, request: &MemoryRequest, fds: &[i32]) -> (Reply, Vec<OwnedFd>) {
        self.0.ask_with(&Request::Own(request.encode()), fds)
    }

    /// What is answered, or why nothing is.
    fn ask(&mut self, request: &MemoryRequest) -> Result<Option<MemoryReply>, Code> {
        match self.ask_with(request, &[]).0 {
            Reply::Own(own) => Ok(Some(MemoryReply::decode(&own).unwrap())),
            Reply::Done => Ok(None),
            Reply::Refused { code, .. } => Err(code),
            other => panic!("{other:?}"),
        }
    }

    fn grant(&mut self, request: &MemoryRequest) -> Result<Granted, Code> {
        match self.ask(request)? {
            Some(MemoryReply::Granted(granted)) => Ok(granted),
            other => panic!("{other:?}"),
        }
    }

    fn allocate(&mut self, bytes: u64) -> Result<Granted, Code> {
        self.grant(&allocation(bytes, None, Rights::NONE))
    }
}

fn allocation(bytes: u64, name: Option<&str>, others: Rights) -> MemoryRequest {
    let name = name.map(|name| MemoryName::parse(name).unwrap());
    MemoryRequest::Allocate(Allocation { bytes, lasting: false, name, others })
}

/// A session with rings on a memory loop, that writes what it likes.
struct Delegate {
    asking: Asking,
    window: SharedMapping,
    submissions: SpscProducer,
    completions: SpscConsumer,
}

impl Delegate {
    fn of(mut asking: Asking) -> Delegate {
        let (fd, window) = SharedMapping::create(c"window", WINDOW).unwrap();
        let (reply, fds) = asking.ask_with(&MemoryRequest::Session, &[fd.as_raw_fd()]);
        assert!(matches!(reply, Reply::Own(_)), "{reply:?}");
        let attach = |at| RingMemory::attach(fds[0].as_raw_fd(), at).unwrap();
        let submissions = attach(0).spsc_producer(Refresh::Lazy).unwrap();
        let completions = attach(COMPLETION_AT).spsc_consumer(Refresh::Lazy).unwrap();
        Delegate { asking, window, submissions, completions }
    }

    fn push(&mut self, record: &[u8]) {
        self.submissions.push(record).unwrap();
    }

    fn next(&mut self) -> i64 {
        self.completions.wait(&Patience::up_to(WATCHDOG), &Immortal).expect("a completion");
        let mut record = [0; COMPLETION_RECORD_BYTES];
        assert_eq!(self.completions.pop(&mut record), Ok(COMPLETION_RECORD_BYTES));
        Completion::decode(&record).expect("a completion").result
    }

    fn run(
        &mut self,
        kind: OpKind,
        object: ObjectId,
        offset: u64,
        argument: u64,
        bytes: u32,
    ) -> i64 {
        let pieces: &[Piece] = if bytes > 0 { &[Piece { offset: 0, bytes }] } else { &[] };
        let pieces = Pieces::new(pieces).unwrap();
        let asked = Operation { kind, object, offset, tag: 5, timeout_us: 0, argument, pieces };
        let mut record = [0; OPERATION_BYTES_MAX];
        let length = asked.encode(&mut record);
        self.push(&record[..length]);
        self.next()
    }

    fn copy(&mut self, object: ObjectId, source: CopySource) -> i64 {
        self.window.copy_in(0, &source.encode()).unwrap();
        self.run(OpKind::Copy, object, 0, 0, COPY_BYTES as u32)
    }
}

fn errno(errno: i32) -> i64 {
    -i64::from(errno)
}

/// Whether an honest client is served.
fn serves(daemon: &Daemon) {
    let mut honest = Asking::restricted(daemon, Services::MEMORY);
    let handle = honest.allocate(4096).unwrap().handle;
    let mut honest = Delegate::of(honest);
    honest.window.copy_in(0, b"honest").unwrap();
    assert_eq!(honest.run(OpKind::Write, handle, 100, 0, 6), 6);
    honest.window.zero(0, 6).unwrap();
    assert_eq!(honest.run(OpKind::Read, handle, 100, 0, 6), 6);
    let mut found = [0; 6];
    honest.window.copy_out(0, &mut found).unwrap();
    assert_eq!(&found, b"honest");
}

#[test]
fn bodies_that_mean_nothing_are_refused_whatever_they_hold() {
    let daemon = Daemon::start();
    let (fd, _window) = SharedMapping::create(c"window", WINDOW).unwrap();
    let mut random = 88_172_645_463_325_252u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for number in FIRST..=number::MAP_REGION {
        let mut client = Asking::new(&daemon);
        for round in 0..60 {
            // Who sends nothing but rubbish is ended before long.
            if round % 6 == 0 {
                client = Asking::new(&daemon);
                client.allocate(4096).unwrap();
            }
            let mut body = [0u8; REQUEST_BODY_BYTES];
            // Few bytes that are not zero come further than many.
            let count = if round % 2 == 0 { 3 } else { REQUEST_BODY_BYTES };
            for _ in 0..count {
                body[next() as usize % REQUEST_BODY_BYTES] = next() as u8;
            }
            let brings: &[i32] = match number {
                number::SESSION | number::ASK_ME => &[fd.as_raw_fd()],
                _ => &[],
            };
            let (reply, _) = client.0.ask_with(&Request::Own(OwnRequest { number, body }), brings);
            let is_answer = matches!(reply, Reply::Own(_) | Reply::Done | Reply::Refused { .. });
            assert!(is_answer, "{reply:?}");
        }
    }
    serves(&daemon);
}

#[test]
fn sizes_that_no_region_has_are_refused_and_take_nothing() {
    let daemon = Daemon::start();
    let mut client = Asking::new(&daemon);
    for bytes in [0, u64::MAX, u64::MAX - 63, 1 << 63, ARENA_BYTES_MAX, ARENA_BYTES_MAX + 1] {
        assert!(client.allocate(bytes).is_err(), "{bytes}");
    }
    // Who sends nothing but rubbish is ended before long.
    let mut client = Asking::new(&daemon);
    let kept = client.allocate(100).unwrap();
    for bytes in [0, 99, u64::MAX, 1 << 63, ARENA_BYTES_MAX * PIECES_MAX as u64] {
        let grow = MemoryRequest::Grow { handle: kept.handle, bytes };
        assert!(client.ask(&grow).is_err(), "{bytes}");
    }
    let located = MemoryRequest::Locate { handle: kept.handle, from: 0 };
    assert_eq!(client.grant(&located).unwrap().bytes, 100);
    for from in [1, 2, PIECES_MAX as u32, u32::MAX] {
        let answer = client.grant(&MemoryRequest::Locate { handle: kept.handle, from });
        assert!(answer.map_or(true, |it| it.pieces.is_empty()), "{from}");
    }
    assert_eq!(daemon.status()["memory"]["regions"], 1);
}

#[test]
fn handles_of_others_and_of_before_are_none() {
    let daemon = Daemon::start();
    let (mut one, mut other) = (Asking::new(&daemon), Asking::new(&daemon));
    let handle = one.allocate(4096).unwrap().handle;
    one.ask(&MemoryRequest::Unmap { handle }).unwrap();
    let kept = one.allocate(4096).unwrap().handle;
    let wrong = [
        handle,
        ObjectId { generation: kept.generation + 1, ..kept },
        ObjectId { generation: 0, ..kept },
        ObjectId { index: REGIONS_MAX as u32, generation: 1 },
        ObjectId { index: u32::MAX, generation: u32::MAX },
    ];
    for handle in wrong {
        let requests = [
            MemoryRequest::Locate { handle, from: 0 },
            MemoryRequest::Grow { handle, bytes: 8192 },
            MemoryRequest::Free { handle },
            MemoryRequest::Unmap { handle },
            MemoryRequest::Lasting { handle, lasting: true },
            MemoryRequest::Name { handle, name: None, others: Rights::ALL },
            MemoryRequest::Appoint { handle, user: 0, rights: Rights::ALL },
        ];
        for request in requests {
            assert!(one.ask(&request).is_err(), "{request:?}");
        }
    }
    assert!(other.ask(&MemoryRequest::Free { handle: kept }).is_err());
    assert!(one.ask(&MemoryRequest::Locate { handle: kept, from: 0 }).is_ok());
}

#[test]
fn a_restricted_session_maps_nothing_and_reads_by_the_loop() {
    let daemon = Daemon::start();
    let mut none = Asking::restricted(&daemon, Services::FILES);
    assert_eq!(none.allocate(4096).err(), Some(Code::Denied));
    let mut owner = Asking::new(&daemon);
    let whole = owner.grant(&allocation(4096, Some("kv"), Rights::NONE)).unwrap();
    assert!(whole.direct);
    let arena = whole.pieces[0].arena;
    let mut client = Asking::restricted(&daemon, Services::MEMORY);
    assert!(client.ask(&MemoryRequest::Arena { arena }).is_err());
    assert!(client.ask(&MemoryRequest::RegionPage).is_err());
    let granted = client.allocate(4096).unwrap();
    assert!(!granted.direct && granted.pieces.is_empty());
    let mut session = Delegate::of(client);
    assert_eq!(
        session.run(OpKind::Set, granted.handle, 0, set_argument(7, 4096).unwrap(), 0),
        4096
    );
    assert_eq!(session.run(OpKind::Read, granted.handle, 0, 0, 4096), 4096);
    let mut found = [0; 4096];
    session.window.copy_out(0, &mut found).unwrap();
    assert_eq!(found, [7; 4096]);
}

#[test]
fn operations_that_reach_beyond_are_refused_and_touch_nothing() {
    let daemon = Daemon::start();
    let mut client = Asking::restricted(&daemon, Services::MEMORY);
    let (small, neighbour) = (client.allocate(64).unwrap(), client.allocate(4096).unwrap());
    let (small, neighbour) = (small.handle, neighbour.handle);
    let mut session = Delegate::of(client);
    session.window.fill(0, WINDOW, 9).unwrap();
    for (offset, bytes) in [(64, 1), (63, 2), (0, 65), (1 << 40, 8), (1 << 62, 8)] {
        assert_eq!(session.run(OpKind::Write, small, offset, 0, bytes), errno(libc::ERANGE));
        assert_eq!(session.run(OpKind::Read, small, offset, 0, bytes), errno(libc::ERANGE));
        let set = set_argument(9, u64::from(bytes)).unwrap();
        assert_eq!(session.run(OpKind::Set, small, offset, set, 0), errno(libc::ERANGE));
        let source = CopySource { handle: small, offset, bytes: u64::from(bytes) };
        assert_eq!(session.copy(neighbour, source), errno(libc::ERANGE));
        session.window.fill(0, WINDOW, 9).unwrap();
    }
    for offset in [64, 1 << 40, 1 << 62] {
        assert_eq!(session.run(OpKind::Swap, small, offset, 9, 8), errno(libc::ERANGE));
    }
    assert_eq!(session.run(OpKind::FetchAdd, small, 4, 9, 8), errno(libc::EINVAL));
    assert_eq!(session.run(OpKind::Read, neighbour, 0, 0, 4096), 4096);
    let mut found = [9; 4096];
    session.window.copy_out(0, &mut found).unwrap();
    assert_eq!(found, [0; 4096]);
}

#[test]
fn records_that_are_no_operations_are_refused_and_others_are_served() {
    let daemon = Daemon::start();
    let mut client = Asking::restricted(&daemon, Services::MEMORY);
    let handle = client.allocate(4096).unwrap().handle;
    let mut session = Delegate::of(client);
    let good = {
        let pieces = Pieces::new(&[Piece { offset: 0, bytes: 8 }]).unwrap();
        let (offset, tag, timeout_us, argument) = (0, 5, 0, 0);
        let (kind, object) = (OpKind::FetchAdd, handle);
        let asked = Operation { kind, object, offset, tag, timeout_us, argument, pieces };
        let mut record = [0; OPERATION_BYTES_MAX];
        let length = asked.encode(&mut record);
        record[..length].to_vec()
    };
    // Each byte of a good one changed, but for its tag.
    for at in (0..good.len()).filter(|at| !(24..32).contains(at)) {
        for value in [1, 0x7f, 0xff] {
            let mut record = good.clone();
            record[at] ^= value;
            session.push(&record);
            session.next();
        }
    }
    session.push(&good);
    assert_eq!(session.next(), 8);
    // One that is too short to have a tag ends the session, and no other.
    session.push(&good[..8]);
    await_that("the session is ended", || session.asking.0.is_ended());
    serves(&daemon);
}

#[test]
fn who_has_no_rights_gets_none_by_any_request() {
    if !may_become_others() {
        return;
    }
    let daemon = Daemon::start();
    let owned = as_user(NEIGHBOUR, || {
        let mut owner = Asking::new(&daemon);
        let granted = owner.grant(&allocation(4096, Some("kv"), Rights::READ)).unwrap();
        (owner, granted)
    });
    let (mut owner, granted) = owned.unwrap();
    let (region, arena) = (granted.region, granted.pieces[0].arena);
    as_user(ATTACKERS[0], || {
        let mut attacker = Asking::new(&daemon);
        let kv = || MemoryName::parse("kv").unwrap();
        for rights in [Rights::WRITE, Rights::ATOMIC, Rights::MANAGE, Rights::SHARE, Rights::ALL] {
            let map = MemoryRequest::Map { user: NEIGHBOUR, name: kv(), rights };
            assert!(attacker.ask(&map).is_err(), "{rights}");
            assert!(attacker.ask(&MemoryRequest::MapRegion { region, rights }).is_err());
        }
        let own = MemoryRequest::Map { user: OWN_USER, name: kv(), rights: Rights::READ };
        assert_eq!(attacker.ask(&own).err(), Some(Code::NotFound));
        assert!(attacker.ask(&MemoryRequest::Arena { arena }).is_err());
        let all = MemoryRequest::List { user: NEIGHBOUR, from: 0, beginning: String::new() };
        let Ok(Some(MemoryReply::Listed { regions, .. })) = attacker.ask(&all) else { panic!() };
        assert!(regions.is_empty(), "it sees nobody else's");
        let map = MemoryRequest::Map { user: NEIGHBOUR, name: kv(), rights: Rights::READ };
        let read = attacker.grant(&map).unwrap();
        assert!(!read.direct && read.pieces.is_empty(), "no descriptor of another user's arena");
        let mut session = Delegate::of(attacker);
        assert_eq!(session.run(OpKind::Read, read.handle, 0, 0, 8), 8);
        assert_eq!(session.run(OpKind::Write, read.handle, 0, 0, 8), errno(libc::EACCES));
        assert_eq!(session.run(OpKind::Swap, read.handle, 0, 1, 8), errno(libc::EACCES));
        let free = MemoryRequest::Free { handle: read.handle };
        assert_eq!(session.asking.ask(&free).err(), Some(Code::Denied));
    })
    .unwrap();
    owner.ask(&MemoryRequest::Locate { handle: granted.handle, from: 0 }).unwrap();
}

/// What a session shows as its window, and is none.
#[test]
fn windows_that_are_none_are_refused() {
    let daemon = Daemon::start();
    let mut client = Asking::new(&daemon);
    let file = std::fs::File::open("/dev/zero").unwrap();
    let (reply, _) = client.ask_with(&MemoryRequest::Session, &[file.as_raw_fd()]);
    assert!(matches!(reply, Reply::Refused { .. }), "{reply:?}");
    let (fd, _) = SharedMapping::create(c"window", WINDOW).unwrap();
    let (reply, fds) = client.ask_with(&MemoryRequest::Session, &[fd.as_raw_fd()]);
    assert!(matches!(reply, Reply::Own(_)) && fds.len() == 1);
    let (reply, _) = client.ask_with(&MemoryRequest::Session, &[fd.as_raw_fd()]);
    assert!(matches!(reply, Reply::Refused { .. }), "one at a time");
    serves(&daemon);
}

/// Its words are the control plane's alone.
#[test]
fn the_region_page_is_read_and_not_written() {
    let daemon = Daemon::start();
    let mut client = Asking::new(&daemon);
    client.allocate(4096).unwrap();
    let (reply, fds) = client.ask_with(&MemoryRequest::RegionPage, &[]);
    assert!(matches!(reply, Reply::Own(_)));
    let page = fds[0].as_raw_fd();
    assert!(SharedMapping::from_fd(page, 4096, Access::Read).is_ok());
    assert!(SharedMapping::from_fd(page, 4096, Access::ReadWrite).is_err());
}
