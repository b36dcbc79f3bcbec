//! What one server loop keeps of files, and how it has a block of the cache read.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use heliostat_abi::file::delegated::OpKind;
use heliostat_abi::name::ObjectId;
use heliostat_backend_uring::{Manner, Range};
use heliostat_base::mapping::SharedMapping;
use heliostat_server_loop::{Engine, Gate, OperationId, Order, Token};

use super::blocks::{Blocks, Waiter};
use super::cache::{BlockKey, BLOCK_BYTES};
use super::copying::Copying;
use super::lease_word::LeaseWord;
use super::lock_waits::LockWaits;
use super::message::{FileOrder, Resume};
use super::open_file::Vouched;
use super::shared_files::SharedFiles;
use super::unlocked::Unlocked;

/// An operation on a file that is served now.
pub type Turn<'a> = heliostat_server_loop::Turn<'a, Files>;

/// Files on one loop.
pub struct Files {
    /// Which blocks lie where, for all loops.
    pub cache: Arc<Blocks>,
    /// Their bytes.
    pub arena: Arc<SharedMapping>,
    /// Files of which a lock was given back, of which those that wait have not been told.
    pub(crate) unlocked: Unlocked,
    pub(crate) shared: Arc<SharedFiles>,
    /// How blocks are read on this loop.
    pub(crate) fill_manner: Manner,
    /// How much of this loop's time copies take.
    pub(crate) copying: Copying,
    gates: Arc<[Gate<Files>]>,
}

/// A block of the cache that the kernel reads.
#[derive(Clone, Copy)]
pub struct Fill {
    pub(crate) place: u32,
    pub(crate) word: LeaseWord,
    pub(crate) manner: Manner,
}

/// What is kept for one session.
#[derive(Default)]
pub struct PerSession {
    /// What openers are asked for, also for operations that were cancelled meanwhile.
    pub asking: usize,
    /// Operations that wait for a lock.
    pub lock_waits: LockWaits,
    /// The version that it last read from the beginning.
    pub last_file: Option<u64>,
}

impl heliostat_server_loop::PerSession for PerSession {
    fn ended(&mut self, kind: OpKind, operation: ObjectId) {
        if kind == OpKind::Lock {
            self.lock_waits.forget(operation);
        }
    }

    fn next_ns(&self) -> Option<u64> {
        self.lock_waits.next_ns()
    }
}

impl Files {
    /// The part of one loop; `gates` are all loops by number.
    pub fn new(shared: Arc<SharedFiles>, gates: Arc<[Gate<Files>]>) -> Files {
        let cache = shared.blocks.clone();
        let arena = cache.arena.clone();
        let fill_manner = Manner::Uncached;
        let (unlocked, copying) = (Unlocked::default(), Copying::default());
        Files { cache, arena, unlocked, shared, gates, fill_manner, copying }
    }

    /// The cache's number for a version of the file that a lease vouches for.
    pub(crate) fn number(&self, lease: &Vouched) -> u64 {
        self.shared.number(lease.version)
    }

    /// Tells the other loops of which files a lock was given back: somebody may wait for it there.
    pub(crate) fn tell_others_unlocked(&self, own: usize, files: &Unlocked) {
        for (number, gate) in self.gates.iter().enumerate() {
            if number != own && self.shared.unlocked.put(number, files) {
                gate.send(Order::Service(FileOrder::Unlocked));
            }
        }
    }

    /// Tells the other loops that a block is there, or cannot be; answers who of this one waits.
    pub(crate) fn tell_loops(
        &self,
        own: usize,
        waiters: Vec<Waiter>,
        resume: Resume,
    ) -> Vec<OperationId> {
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
    let token = Token::Service(Fill { place, word: lease.word, manner });
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
