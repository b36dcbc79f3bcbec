//! What users of other nodes hold of this node's regions, and their operations, on the node's thread.
//!
//! ```text
//! control plane --hold, drop, place, lose--> table <--node, handle-- message of another node
//!                                              |
//!                                              v word, rights, bounds, copy, answer
//! ```
//!
//! The table has one lock, which both sides have in turns. An operation holds it to its end, which is a
//! part of 1 MiB at most, so that when the control plane has taken a handle out nobody touches its region
//! by it any more: it needs no second word about that, as it does from the server loops.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heliostat_abi::memory::peer::{
    PeerAction, PeerAnswer, PeerHandle, PeerOperation, PeerRefusal, Range, ANSWER_BYTES,
    CHANGE_BYTES_MAX, OPERATION_BYTES,
};
use heliostat_abi::memory::Rights;
use heliostat_abi::name::ObjectId;
use heliostat_base::clock::monotonic_ns;
use heliostat_base::mapping::SharedMapping;
use heliostat_server_loop::{Area, RegionPage};
use heliostat_server_node::{Asker, PeerNode, Peers, Served};
use heliostat_service_grant::Meter;

use super::held::{HeldTable, Refusal};
use super::message::Hold;
use super::work::{beyond, Change, Find, Payload, Way, Work};

/// The handles of all users of other nodes.
pub struct PeerHolds {
    page: RegionPage,
    /// Held while the table is waited for, never longer. The kernel's locks are not fair: the node's
    /// thread, which does one operation after the other, would have the table again before the control
    /// plane is awake.
    next: Mutex<()>,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    users: HashMap<ObjectId, OfUser>,
    operations: u64,
    refusals: u64,
    /// Operations that were put off, since a rate was used up.
    put_off: u64,
}

/// What a user of another node holds, as long as that is joined.
struct OfUser {
    peer: PeerNode,
    table: HeldTable,
    /// How much it may do, where a rate is about it.
    meter: Option<Meter>,
    /// How much may be done by a handle, where its region's name has a rate.
    meters: HashMap<ObjectId, Meter>,
}

/// The same as the node's thread sees it: requests that are no operations the control plane answers.
pub struct PeerMemory(pub Arc<PeerHolds>);

impl PeerHolds {
    /// Nobody holds anything. The page is the control plane's own.
    pub fn new(page: Arc<SharedMapping>) -> Self {
        Self { page: RegionPage::new(page), next: Mutex::default(), table: Mutex::default() }
    }

    /// A user of a node is known from now on, by this session.
    pub fn begin(&self, session: ObjectId, peer: PeerNode) {
        let (table, meter, meters) = (HeldTable::default(), None, HashMap::new());
        self.lock().users.insert(session, OfUser { peer, table, meter, meters });
    }

    /// A user may do so much.
    pub fn limit_user(&self, session: ObjectId, meter: Meter) {
        if let Some(user) = self.lock().users.get_mut(&session) {
            user.meter = Some(meter);
        }
    }

    /// So much may be done by a handle, by all who share it.
    pub fn limit(&self, session: ObjectId, handle: ObjectId, meter: Meter) {
        if let Some(user) = self.lock().users.get_mut(&session) {
            user.meters.insert(handle, meter);
        }
    }

    /// It holds nothing any more.
    pub fn end(&self, session: ObjectId) {
        self.lock().users.remove(&session);
    }

    /// A session has a handle from now on; whether it is known.
    pub fn hold(&self, hold: Hold) -> bool {
        self.with(hold.session, |table| {
            table.insert(hold, None);
        })
    }

    /// It has none any more, and nobody is using it.
    pub fn drop_handle(&self, session: ObjectId, handle: ObjectId) {
        if let Some(user) = self.lock().users.get_mut(&session) {
            user.meters.remove(&handle);
            user.table.remove(handle);
        }
    }

    /// A region's bytes lie here from now on, for a session.
    pub fn place(&self, session: ObjectId, region: ObjectId, area: &Arc<Area>, epoch: u32) {
        self.with(session, |table| table.place(region, area, epoch));
    }

    /// A region's bytes lie where nobody can reach them: the handles of a session are no more.
    pub fn lose(&self, session: ObjectId, region: ObjectId) {
        self.with(session, |table| table.lose(region));
    }

    /// Operations that were done, and those that were refused.
    pub fn counted(&self) -> (u64, u64) {
        let table = self.lock();
        (table.operations, table.refusals)
    }

    /// Operations that were put off, since a rate was used up.
    pub fn put_off(&self) -> u64 {
        self.lock().put_off
    }

    /// Waits until no operation is on the bytes of a region whose word says that it is gone: those that
    /// begin from now on see that.
    pub fn settle(&self) {
        drop(self.lock());
    }

    /// Carries out an operation of a node: header and payload of the answer. Foreign bytes.
    pub fn serve(
        &self,
        peer: PeerNode,
        header: &[u8],
        payload: &[u8],
    ) -> ([u8; ANSWER_BYTES], Vec<u8>) {
        let mut read = Vec::new();
        let mut table = self.lock();
        let answer = match PeerOperation::decode(header, payload.len()) {
            Ok(operation) => match pay(&table.users, peer, &operation) {
                Ok(()) => self.perform((&table.users, peer), &operation, payload, &mut read),
                Err(wait_ns) => PeerAnswer::busy(wait_ns),
            },
            Err(_) => PeerAnswer::refused(PeerRefusal::Malformed),
        };
        match answer.result {
            Ok(_) => table.operations += 1,
            Err(PeerRefusal::Busy) => table.put_off += 1,
            Err(_) => table.refusals += 1,
        }
        drop(table);
        if answer.result.is_err() {
            read.clear();
        }
        (answer.encode(), read)
    }

    fn perform(
        &self,
        (users, peer): (&HashMap<ObjectId, OfUser>, PeerNode),
        operation: &PeerOperation,
        payload: &[u8],
        read: &mut Vec<u8>,
    ) -> PeerAnswer {
        let of_peer = OfPeer { users, page: &self.page, peer };
        let work = Work { handles: &of_peer };
        let handle = operation.handle;
        let done = match operation.action {
            PeerAction::Read { part, of } => {
                let mut bytes = Bytes { read, written: &[] };
                work.transfer(Way::Read, (handle, of.offset), within(&part, &of), &mut bytes)
            }
            PeerAction::Write { part, of } => {
                let mut bytes = Bytes { read, written: payload };
                work.transfer(Way::Write, (handle, of.offset), within(&part, &of), &mut bytes)
            }
            PeerAction::Set { part, of, value } => {
                work.set((handle, of.offset), within(&part, &of), value)
            }
            PeerAction::Copy { to, source, from, bytes, done } => {
                work.copy((source, from), (handle, to), (bytes, done), CHANGE_BYTES_MAX)
            }
            PeerAction::FetchAdd { offset, more } => {
                return word(&work, (handle, offset), Change::Add(more))
            }
            PeerAction::CompareSwap { offset, expected, new } => {
                return word(&work, (handle, offset), Change::CompareSwap(expected, new))
            }
            PeerAction::Swap { offset, new } => {
                return word(&work, (handle, offset), Change::Swap(new))
            }
        };
        done.map_or_else(|refusal| PeerAnswer::refused(told(refusal)), PeerAnswer::done)
    }

    fn with(&self, session: ObjectId, act: impl FnOnce(&mut HeldTable)) -> bool {
        match self.lock().users.get_mut(&session) {
            Some(found) => act(&mut found.table),
            None => return false,
        }
        true
    }

    /// Waits for the table: for one operation at most.
    fn lock(&self) -> MutexGuard<'_, Table> {
        let _next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Peers for PeerMemory {
    type Order = ();

    fn request(&mut self, from: Asker, header: &[u8], payload: &[u8]) -> Served {
        // The others are not so long, or longer.
        if header.len() != OPERATION_BYTES {
            return Served::Forward;
        }
        let (header, payload) = self.0.serve(from.peer, header, payload);
        Served::Reply { header: header.to_vec(), payload }
    }

    fn order(&mut self, (): ()) {}

    /// The control plane hears it too, and ends the sessions of that node.
    fn lost(&mut self, _: PeerNode) {}
}

/// Takes what an operation costs from the rates that are about it, or says how long to wait. What then
/// comes to nothing is paid for all the same.
fn pay(
    users: &HashMap<ObjectId, OfUser>,
    peer: PeerNode,
    operation: &PeerOperation,
) -> Result<(), u64> {
    let find = |handle: PeerHandle| users.get(&handle.session).filter(|user| user.peer == peer);
    let Some(user) = find(operation.handle) else { return Ok(()) };
    let (bytes, source) = match operation.action {
        PeerAction::Read { part, .. } | PeerAction::Write { part, .. } => (part.bytes, None),
        PeerAction::Set { part, .. } => (part.bytes, None),
        PeerAction::Copy { source, bytes, done, .. } => {
            (bytes.saturating_sub(done).min(CHANGE_BYTES_MAX), Some(source))
        }
        _ => (8, None),
    };
    let of = |handle: PeerHandle| find(handle).and_then(|user| user.meters.get(&handle.handle));
    // Also for where a copy comes from, unless that is the same.
    let source = source.filter(|source| *source != operation.handle).and_then(of);
    let meters = [user.meter.as_ref(), of(operation.handle), source];
    if meters.iter().all(Option::is_none) {
        return Ok(());
    }
    let now_ns = monotonic_ns();
    let meters: Vec<&Meter> = meters.into_iter().flatten().collect();
    for (count, meter) in meters.iter().enumerate() {
        if let Err(until_ns) = meter.take(bytes, now_ns) {
            meters.iter().take(count).for_each(|taken| taken.give_back(bytes));
            return Err(until_ns.saturating_sub(now_ns).max(1));
        }
    }
    Ok(())
}

/// The handles that a message of one node may name.
struct OfPeer<'a> {
    users: &'a HashMap<ObjectId, OfUser>,
    page: &'a RegionPage,
    peer: PeerNode,
}

impl Find for OfPeer<'_> {
    type Handle = PeerHandle;

    fn find(&self, handle: PeerHandle, wanted: Rights) -> Result<&Area, Refusal> {
        let found = self.users.get(&handle.session).filter(|it| it.peer == self.peer);
        found.ok_or(Refusal::Unknown)?.table.find(self.page, handle.handle, wanted)
    }
}

/// What a message brings, and what goes back.
struct Bytes<'a> {
    read: &'a mut Vec<u8>,
    written: &'a [u8],
}

impl Payload for Bytes<'_> {
    fn read(
        &mut self,
        from: &Area,
        offset: u64,
        range: std::ops::Range<u64>,
        _: u64,
    ) -> Result<(), Refusal> {
        self.read.resize((range.end - range.start) as usize, 0);
        from.read(offset + range.start, self.read).map_err(beyond)
    }

    fn write(
        &mut self,
        into: &Area,
        offset: u64,
        range: std::ops::Range<u64>,
        _: u64,
    ) -> Result<(), Refusal> {
        into.write(offset + range.start, self.written).map_err(beyond)
    }
}

/// Where a part lies in its transfer, and how long that is. The message was checked for it.
fn within(part: &Range, of: &Range) -> (std::ops::Range<u64>, u64) {
    let start = part.offset.saturating_sub(of.offset);
    (start..start.saturating_add(part.bytes), of.bytes)
}

fn word<F: Find>(work: &Work<'_, F>, place: (F::Handle, u64), change: Change) -> PeerAnswer {
    match work.change_word(place, change) {
        Ok(old) => PeerAnswer { result: Ok(change.result(old)), word: old },
        Err(refusal) => PeerAnswer::refused(told(refusal)),
    }
}

fn told(refusal: Refusal) -> PeerRefusal {
    match refusal {
        Refusal::Unknown => PeerRefusal::NoHandle,
        Refusal::Moves(_) => PeerRefusal::Again,
        Refusal::Errno(libc::ESTALE) => PeerRefusal::Stale,
        Refusal::Errno(libc::EACCES) => PeerRefusal::Denied,
        Refusal::Errno(libc::EINVAL) => PeerRefusal::Misaligned,
        Refusal::Errno(_) => PeerRefusal::Range,
    }
}

#[cfg(test)]
#[path = "peer_holds_tests.rs"]
mod tests;
