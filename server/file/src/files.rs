//! The file service's part on one server loop, and how blocks come into the cache.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use heliostat_abi::delegated::{Kind, OneRead, Way};
use heliostat_abi::name::ObjectId;
use heliostat_backend_uring::{Manner, Range};
use heliostat_base::mapping::SharedMapping;
use heliostat_server_loop::{
    Engine, Gate, OperationId, Order, Server, Service, Session, Step, Turn,
};

use heliostat_service_grant::Meter;

use super::blocks::{Blocks, Waiter};
use super::cache::{BlockKey, BLOCK_BYTES};
use super::lease_word::LeaseWord;
use super::lock_waits::LockWaits;
use super::message::{FileEvent, FileOrder};
use super::open_file::{Opened, Vouched};
use super::serve::{locks, names};
use super::shared::Shared;
use super::{cached, objects, serve};

/// Files on one loop.
pub struct Files {
    /// Which blocks lie where, for all loops.
    pub cache: Arc<Blocks>,
    /// Their bytes.
    pub arena: Arc<SharedMapping>,
    /// A lock was given back, of which those that wait have not been told.
    pub(crate) is_unlocked: bool,
    shared: Arc<Shared>,
    gates: Arc<[Gate<Files>]>,
    fill_manner: Manner,
}

/// A block of the cache that the kernel reads.
#[derive(Clone, Copy)]
pub struct Fill {
    place: u32,
    word: LeaseWord,
    manner: Manner,
}

/// How reads go on that have waited for a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resume {
    /// They look again.
    InCache,
    /// It could not be read: looking again would only have it read again, for ever. The kernel reads,
    /// and what it says is told.
    ByKernel,
}

/// What is kept for one session.
#[derive(Default)]
pub struct PerSession {
    /// What openers are asked for, also for operations that were cancelled meanwhile.
    pub asking: usize,
    /// Operations that wait for a lock.
    pub lock_waits: LockWaits,
}

impl Files {
    /// The part of one loop; `gates` are all loops by number.
    pub fn new(shared: Arc<Shared>, gates: Arc<[Gate<Files>]>) -> Files {
        let cache = shared.blocks.clone();
        let arena = cache.arena.clone();
        let fill_manner = Manner::Uncached;
        Files { cache, arena, is_unlocked: false, shared, gates, fill_manner }
    }

    /// The cache's number for a version of the file that a lease vouches for.
    pub(crate) fn number(&self, lease: &Vouched) -> u64 {
        self.shared.number(lease.version)
    }

    /// Tells the other loops that a lock was given back: somebody may wait for it there.
    pub(crate) fn tell_others_unlocked(&self, own: usize) {
        let gates = self.gates.iter().enumerate().filter(|(number, _)| *number != own);
        gates.for_each(|(_, gate)| gate.send(Order::Service(FileOrder::Unlocked)));
    }

    /// Tells the other loops that a block is there, or cannot be; answers who of this one waits.
    fn tell_loops(&self, own: usize, waiters: Vec<Waiter>, resume: Resume) -> Vec<OperationId> {
        let mut lists = vec![Vec::new(); self.gates.len()];
        for (number, id) in waiters {
            lists.get_mut(number).into_iter().for_each(|list| list.push(id));
        }
        let its = lists.get_mut(own).map(std::mem::take).unwrap_or_default();
        for (gate, list) in self.gates.iter().zip(lists).filter(|(_, list)| !list.is_empty()) {
            gate.send(Order::Service(FileOrder::Filled(list, resume)));
        }
        its
    }
}

/// Begins to read an absent block of a file under a lease; false when there is no room.
pub(crate) fn fill(
    engine: &mut Engine<Files>,
    file: &Arc<OwnedFd>,
    lease: Vouched,
    key: BlockKey,
) -> bool {
    let start = key.block * BLOCK_BYTES;
    if start >= lease.version.size || !engine.requests.has_room() {
        return false;
    }
    let files = &engine.service;
    let Some(place) = files.cache.begin(key) else { return false };
    let len = BLOCK_BYTES.min(lease.version.size - start) as usize;
    let into = [Range { offset: place as usize * BLOCK_BYTES as usize, len }];
    let manner = files.fill_manner;
    let token = heliostat_server_loop::Token::Service(Fill { place, word: lease.word, manner });
    let begun = engine.requests.read(token, file, start, (&files.arena, &into[..]), manner);
    match begun {
        Ok(_) => engine.flying += 1,
        // This loop does not wait for it yet, others may.
        Err(_) => {
            let waiters = files.cache.failed(place);
            drop(files.tell_loops(engine.number, waiters, Resume::ByKernel));
        }
    }
    begun.is_ok()
}

/// A block's read has completed.
///
/// It counts only if the lease still holds: then nobody has changed the file since it began.
fn filled(server: &mut Server<Files>, Fill { place, word, manner }: Fill, result: i32) {
    let number = server.engine.number;
    let files = &mut server.engine.service;
    let (waiters, resume) = match u32::try_from(result) {
        Ok(bytes) if bytes > 0 && word.is_active() => {
            files.shared.count_filled();
            (files.cache.filled(place, bytes), Resume::InCache)
        }
        // It is only this manner that the file system does not have.
        Err(_) if result == -libc::EOPNOTSUPP && manner != Manner::Plain => {
            files.fill_manner = Manner::Plain;
            (files.cache.failed(place), Resume::InCache)
        }
        _ => (files.cache.failed(place), Resume::ByKernel),
    };
    let own = files.tell_loops(number, waiters, resume);
    resume_all(server, own, resume);
}

/// Operations that have waited for a block go on; some may have ended meanwhile.
fn resume_all(server: &mut Server<Files>, waiters: Vec<OperationId>, resume: Resume) {
    for id in waiters {
        let entry = server.session_of(id).and_then(|it| it.operations.get_mut(id.operation));
        if let (Resume::ByKernel, Some(entry)) = (resume, entry) {
            // What it has copied does not count.
            (entry.way, entry.done) = (Way::Kernel, 0);
        }
        server.resume(id);
    }
}

impl Service for Files {
    type Object = Opened;
    type PerSession = PerSession;
    type Request = Fill;
    type Order = FileOrder;
    type Event = FileEvent;

    fn serve(turn: &mut Turn<'_, Files>) -> Step {
        serve::serve(turn)
    }

    fn read_at_once(
        engine: &mut Engine<Files>,
        session: &mut Session<Files>,
        read: &OneRead,
        left: &mut i64,
    ) -> Option<u64> {
        cached::copy_hit(engine, session, read, left)
    }

    /// A file that can be opened for the device but not be read so goes by the kernel from now on,
    /// unless the session has asked for the device.
    fn falls_back(opened: &mut Opened, way: Way, result: i32) -> bool {
        let falls = result == -libc::EINVAL && way == Way::Direct && !opened.file.wants_direct;
        if falls {
            opened.file.direct = None;
        }
        falls
    }

    fn reads_device(opened: &Opened) -> bool {
        opened.file.wants_direct
    }

    fn meter(opened: &Opened) -> Option<&Meter> {
        opened.file.meter.as_ref()
    }

    fn count(opened: &Opened, way: Way, bytes: u64) {
        opened.file.stats.ended(way, bytes);
    }

    fn close(engine: &mut Engine<Files>, session: ObjectId, opened: Opened) {
        locks::unlock(&mut engine.service, &opened);
        engine.tell(FileEvent::Closed(session, opened.file));
    }

    fn ended(its: &mut PerSession, kind: Kind, operation: ObjectId) {
        if kind == Kind::Lock {
            its.lock_waits.forget(operation);
        }
    }

    fn next_ns(its: &PerSession) -> Option<u64> {
        its.lock_waits.next_ns()
    }

    fn clock(server: &mut Server<Files>) {
        locks::ask_due(server);
    }

    fn swept(server: &mut Server<Files>) {
        locks::tell_unlocked(server);
    }

    fn carry_out(server: &mut Server<Files>, order: FileOrder) {
        match order {
            FileOrder::Opened(id, by, file) => match (server.session(id), file) {
                (Some((session, engine)), file) => {
                    objects::take_file(engine, session, by, file);
                    session.ring();
                }
                (None, Ok(file)) => server.engine.tell(FileEvent::Closed(id, file)),
                (None, Err(_)) => {}
            },
            FileOrder::Done(id, operation, bytes) => {
                if let Some((session, engine)) = server.session(id) {
                    names::take_bytes(engine, session, operation, &bytes);
                    session.ring();
                }
            }
            FileOrder::Unlocked => locks::ask_all(server),
            FileOrder::Vouched(id, object, lease) => {
                if let Some((session, engine)) = server.session(id) {
                    objects::take_lease(engine, session, object, lease);
                }
            }
            FileOrder::Filled(waiters, resume) => resume_all(server, waiters, resume),
        }
    }

    fn completed(server: &mut Server<Files>, request: Fill, result: i32) {
        filled(server, request, result);
    }
}
