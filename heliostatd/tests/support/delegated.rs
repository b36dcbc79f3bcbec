//! A client of delegated operations that speaks the rings' protocol itself, well or badly.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;

use heliostat_abi::file::delegated::*;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::SharedMapping;
use heliostat_ring::doorbell::Patience;
use heliostat_ring::probe::Immortal;
use heliostat_ring::{Refresh, RingMemory, SpscConsumer, SpscProducer};

use super::{write_file, Client, Daemon, Welcome, WATCHDOG};

pub const WINDOW: usize = 4 << 20;

/// A session with rings and a window.
pub struct Delegate {
    pub client: Client,
    pub welcome: Welcome,
    pub window: SharedMapping,
    pub rings: OwnedFd,
    pub submissions: SpscProducer,
    pub completions: SpscConsumer,
}

impl Delegate {
    pub fn new(daemon: &Daemon) -> Delegate {
        Delegate::of(daemon.visit())
    }

    /// Greets on a connection, and delegates.
    pub fn of(mut client: Client) -> Delegate {
        let welcome = client.hello();
        Delegate::with(client, welcome)
    }

    /// Delegates on a connection that has greeted.
    pub fn with(mut client: Client, welcome: Welcome) -> Delegate {
        let (fd, window) = SharedMapping::create(c"window", WINDOW).unwrap();
        let (reply, mut fds) =
            client.ask_with(&Request::Delegate { members: 0 }, &[fd.as_raw_fd()]);
        let Reply::Delegated { depth, objects, .. } = reply else { panic!("{reply:?}") };
        assert_eq!((depth as usize, objects as usize, fds.len()), (DEPTH_MAX, OBJECTS_MAX, 1));
        let rings = fds.pop().unwrap();
        let attach = |at| RingMemory::attach(rings.as_raw_fd(), at).unwrap();
        let submissions = attach(0).spsc_producer(Refresh::Lazy).unwrap();
        let completions = attach(COMPLETION_AT).spsc_consumer(Refresh::Lazy).unwrap();
        Delegate { client, welcome, window, rings, submissions, completions }
    }

    /// Puts bytes into the ring, whatever they are.
    pub fn push(&mut self, record: &[u8]) {
        self.submissions.push(record).unwrap();
    }

    pub fn submit(&mut self, operation: &Operation) {
        let mut record = [0; OPERATION_BYTES_MAX];
        let length = operation.encode(&mut record);
        self.push(&record[..length]);
    }

    /// The next completion, whichever it is.
    pub fn next(&mut self) -> Completion {
        self.completions.wait(&Patience::up_to(WATCHDOG), &Immortal).expect("a completion");
        let mut record = [0; COMPLETION_RECORD_BYTES];
        assert_eq!(self.completions.pop(&mut record), Ok(COMPLETION_RECORD_BYTES));
        Completion::decode(&record).expect("a completion")
    }

    /// Submits one operation and takes its completion.
    pub fn run(&mut self, operation: &Operation) -> Completion {
        self.submit(operation);
        let completion = self.next();
        assert_eq!(completion.tag, operation.tag);
        completion
    }

    /// Shows a file; its id, or minus an errno.
    pub fn show(&mut self, file: &impl AsFd, direct: bool) -> Result<ObjectId, i64> {
        let request = Request::ShowFile { tag: 1234, direct, buffered: false };
        let reply = self.client.ask_with(&request, &[file.as_fd().as_raw_fd()]).0;
        assert_eq!(reply, Reply::Done);
        let completion = self.next();
        assert_eq!(completion.tag, 1234);
        id_of(completion)
    }

    /// Opens by name.
    pub fn open(&mut self, name: &str, argument: u64) -> Result<ObjectId, i64> {
        self.window.copy_in(0, name.as_bytes()).unwrap();
        let pieces = pieces(&[(0, name.len() as u32)]);
        let open = Operation { kind: OpKind::Open, argument, pieces, ..blank(5) };
        let completion = self.run(&open);
        id_of(completion)
    }

    /// An operation on names, one behind the other in the window: its result.
    pub fn names(&mut self, kind: OpKind, names: &[&[u8]], argument: u64) -> i64 {
        let pieces = self.put_names(names);
        self.run(&Operation { kind, argument, pieces, ..blank(8) }).result
    }

    /// Puts names into the window.
    pub fn put_names(&mut self, names: &[&[u8]]) -> Pieces {
        let mut at = 0;
        let places = names.iter().map(|name| {
            self.window.copy_in(at as usize, name).unwrap();
            let place = (at, name.len() as u32);
            at += name.len() as u64;
            place
        });
        pieces(&places.collect::<Vec<_>>())
    }

    /// Entries of a directory from a cookie on, by pieces of so many bytes together: name, cookie
    /// and type of each, or minus an errno.
    pub fn readdir(
        &mut self,
        object: ObjectId,
        cookie: u64,
        bytes: u32,
    ) -> Result<Vec<(String, u64, u8)>, i64> {
        let pieces = pieces(&[(64, bytes / 2), (8192 + 64, bytes - bytes / 2)]);
        let asked = Operation { kind: OpKind::Readdir, object, offset: cookie, pieces, ..blank(9) };
        let result = self.run(&asked).result;
        let length = usize::try_from(result).map_err(|_| result)?;
        let mut packed = vec![0; bytes as usize];
        let (first, second) = packed.split_at_mut(bytes as usize / 2);
        self.window.copy_out(64, first).unwrap();
        self.window.copy_out(8192 + 64, second).unwrap();
        let entry = |entry: DirectoryEntry<'_>| {
            (String::from_utf8(entry.name.to_vec()).unwrap(), entry.cookie, entry.kind)
        };
        Ok(DirectoryEntries(&packed[..length]).map(entry).collect())
    }

    /// An operation on an open file that moves nothing: its result.
    pub fn on(&mut self, kind: OpKind, object: ObjectId, argument: u64) -> i64 {
        self.run(&Operation { kind, object, argument, ..blank(10) }).result
    }

    /// Reads into the window's start: the result, the way, and the bytes.
    pub fn read(&mut self, object: ObjectId, offset: u64, bytes: u32) -> (i64, Way, Vec<u8>) {
        let Completion { result, way, .. } = self.run(&read(object, offset, bytes, 6));
        let mut found = vec![0; result.max(0) as usize];
        self.window.copy_out(0, &mut found).unwrap();
        (result, way, found)
    }

    /// Writes bytes from the window's second half.
    pub fn write(&mut self, kind: OpKind, object: ObjectId, offset: u64, bytes: &[u8]) -> i64 {
        self.window.copy_in(WINDOW / 2, bytes).unwrap();
        let pieces = pieces(&[(WINDOW as u64 / 2, bytes.len() as u32)]);
        self.run(&Operation { kind, object, offset, pieces, ..blank(7) }).result
    }
}

pub fn id_of(completion: Completion) -> Result<ObjectId, i64> {
    let Completion { result, generation, .. } = completion;
    u32::try_from(result).map(|index| ObjectId { index, generation }).map_err(|_| -result)
}

pub fn pieces(list: &[(u64, u32)]) -> Pieces {
    let piece = |place: &(u64, u32)| Piece { offset: place.0, bytes: place.1 };
    Pieces::new(&list.iter().map(piece).collect::<Vec<_>>()).unwrap()
}

/// An operation of no meaning yet.
pub fn blank(tag: u64) -> Operation {
    let (object, pieces) = (ObjectId::default(), Pieces::default());
    Operation { kind: OpKind::Close, object, offset: 0, tag, timeout_us: 0, argument: 0, pieces }
}

pub fn read(object: ObjectId, offset: u64, bytes: u32, tag: u64) -> Operation {
    let pieces = pieces(&[(0, bytes)]);
    Operation { kind: OpKind::Read, object, offset, pieces, ..blank(tag) }
}

/// A file of so many fives.
pub fn sample(daemon: &Daemon, bytes: usize) -> PathBuf {
    let path = daemon.folder().join("sample");
    write_file(&path, &vec![5; bytes]);
    path
}

/// Still serves an honest client.
pub fn serves(daemon: &Daemon) {
    let path = daemon.folder().join("honest");
    std::fs::write(&path, b"honest").unwrap();
    let mut session = Delegate::new(daemon);
    let file = session.show(&File::open(&path).unwrap(), false).unwrap();
    assert_eq!(session.read(file, 0, 10).2, b"honest");
}
