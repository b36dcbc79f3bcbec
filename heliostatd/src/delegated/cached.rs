//! Reads through the cache: copied where it is there, filled where it is not.
//!
//! ```text
//! block there --> copy, next block --> all copied --> lease still holds --> done
//!   | absent        ^                                   | no
//!   v               | filled                            v
//! fill it and its followers, wait                 the kernel's read from the start
//! ```

use heliostat_abi::delegated::{Completion, Kind, OneRead, Operation, Piece, Way};
use heliostat_service_file::delegated::{BlockKey, Found, BLOCK_BYTES, COST_MIN};

use super::blocks::Ready;
use super::engine::{Engine, Who};
use super::file::{Opened, Vouched};
use super::serve::Step;
use super::session::Session;

/// Where a read through the cache has got to.
struct Place {
    lease: Vouched,
    file: u64,
    /// Next byte in the file, and the one behind the last.
    at: u64,
    end: u64,
    /// Where it goes.
    piece: Piece,
}

impl Session {
    /// A read of one piece that the cache has, served before it becomes an operation of the table:
    /// nobody can cancel or outlive what is over at once. False when it is another case; then
    /// nothing was done. `left` is what the session may still spend in this sweep.
    pub fn hit_at_once(
        &mut self,
        engine: &mut Engine,
        read: &OneRead,
        left: &mut i64,
        now_ns: u64,
    ) -> bool {
        let Some(result) = self.hit_now(engine, read, left, now_ns) else { return false };
        let (tag, generation, way) = (read.tag, 0, Way::Cached);
        self.complete(Completion { tag, result, generation, way });
        true
    }

    /// The same without telling the session: its result.
    pub fn hit_now(
        &mut self,
        engine: &mut Engine,
        read: &OneRead,
        left: &mut i64,
        now_ns: u64,
    ) -> Option<i64> {
        let bytes = u64::from(read.piece.bytes);
        if self.held_until_ns.is_some() || self.take_tokens(read.object, bytes, now_ns).is_err() {
            return None;
        }
        let Some(len) = self.copy_hit(engine, read, left) else {
            self.give_back_tokens(read.object, bytes);
            return None;
        };
        let result = len as i64;
        self.count(engine, Kind::Read, read.object, (Way::Cached, result));
        Some(result)
    }

    /// The usual case in one step: see `copy_hit`. `None` when it is another case.
    pub fn hit(&mut self, engine: &mut Engine, who: Who, left: &mut i64) -> Option<Step> {
        let entry = self.operations.get(who.operation)?;
        let ([piece], Way::None) = (entry.operation.pieces.as_slice(), entry.way) else {
            return None;
        };
        let Operation { object, offset, tag, .. } = entry.operation;
        let read = OneRead { object, offset, tag, piece: *piece };
        let len = self.copy_hit(engine, &read, left)?;
        self.operations.get_mut(who.operation)?.way = Way::Cached;
        self.end(engine, who.operation, len as i64);
        Some(Step::Over)
    }

    /// Copies a piece that lies in one block that is there, with one look into the cache; answers
    /// its length, fewer bytes than asked for only at the file's end.
    fn copy_hit(&mut self, engine: &mut Engine, read: &OneRead, left: &mut i64) -> Option<u64> {
        let (piece, offset) = (read.piece, read.offset);
        let opened = self.objects.get_mut(read.object)?;
        let lease = opened.vouched().filter(|_| !opened.file.wants_direct)?;
        let (block, within) = (offset / BLOCK_BYTES, offset % BLOCK_BYTES);
        let len = u64::from(piece.bytes).min(lease.version.size.checked_sub(offset)?);
        let key = BlockKey { file: opened.number, block };
        let there = engine.cache.ready(key)?;
        if len == 0 || len as i64 > *left || within + len > u64::from(there.bytes) {
            return None;
        }
        let from = u64::from(there.place) * BLOCK_BYTES + within;
        let into = (&*self.window, piece.offset as usize);
        engine.arena.copy_to(from as usize, into.0, into.1, len as usize).ok()?;
        if !engine.cache.holds(there) || !lease.word.is_active() {
            return None;
        }
        *left -= COST_MIN.max(len as i64);
        fetch_ahead(engine, opened, lease, (offset, len), Some(there.place));
        Some(len)
    }

    /// Goes on with a read through the cache.
    pub fn cached(&mut self, engine: &mut Engine, who: Who, left: &mut i64) -> Step {
        self.begin_cached(engine, who, left);
        loop {
            let Some(place) = self.place(who) else {
                return self.fly(engine, who, Way::Kernel, left);
            };
            if place.at >= place.end {
                return self.end_cached(engine, who, place.lease, left);
            }
            if *left <= 0 {
                return Step::GoesOn;
            }
            let key = BlockKey { file: place.file, block: place.at / BLOCK_BYTES };
            match engine.cache.ready(key) {
                Some(there) => {
                    if !self.copy(engine, who, &place, there, left) {
                        return self.fly(engine, who, Way::Kernel, left);
                    }
                }
                None if self.await_block(engine, who, &place, key) => return Step::Over,
                // Another loop has filled it meanwhile.
                None if matches!(engine.cache.peek(key), Found::Ready { .. }) => {}
                // No room in the cache: the kernel has its own.
                None => return self.fly(engine, who, Way::Kernel, left),
            }
        }
    }

    /// At the first turn of a read.
    fn begin_cached(&mut self, engine: &mut Engine, who: Who, left: &mut i64) {
        let Some(entry) = self.operations.get_mut(who.operation) else { return };
        if entry.way != Way::None {
            return;
        }
        entry.way = Way::Cached;
        let (offset, bytes) = (entry.operation.offset, entry.operation.pieces.bytes());
        // Its bytes are counted as they are copied.
        *left -= COST_MIN.saturating_sub(bytes as i64).max(0);
        let Some(opened) = self.objects.get_mut(entry.operation.object) else { return };
        if let Some(lease) = opened.vouched() {
            fetch_ahead(engine, opened, lease, (offset, bytes), None);
        }
    }

    /// `None` when the lease is over or the file is closed.
    fn place(&self, who: Who) -> Option<Place> {
        let entry = self.operations.get(who.operation)?;
        let opened = self.objects.get(entry.operation.object)?;
        let lease = opened.vouched()?;
        let start = entry.operation.offset;
        let end = start.saturating_add(entry.operation.pieces.bytes()).min(lease.version.size);
        let piece = entry.operation.pieces.at(entry.done).unwrap_or_default();
        Some(Place { lease, file: opened.number, at: start + entry.done, end, piece })
    }

    /// Copies as much as lies in the block, in the piece and in the turn. False when the block is
    /// shorter than the file is said to be. What does not count is copied again: the block's place
    /// was given to another.
    fn copy(
        &mut self,
        engine: &Engine,
        who: Who,
        place: &Place,
        block: Ready,
        left: &mut i64,
    ) -> bool {
        let within = place.at % BLOCK_BYTES;
        let there = u64::from(block.bytes).saturating_sub(within).min(place.end - place.at);
        let len = there.min(u64::from(place.piece.bytes)).min(left.unsigned_abs().max(1));
        let from = (u64::from(block.place) * BLOCK_BYTES + within) as usize;
        let to = place.piece.offset as usize;
        if len == 0 || engine.arena.copy_to(from, &self.window, to, len as usize).is_err() {
            return false;
        }
        *left -= len as i64;
        if !engine.cache.holds(block) {
            return true;
        }
        if let Some(entry) = self.operations.get_mut(who.operation) {
            entry.done += len;
        }
        true
    }

    /// Waits for a block, and has it and the rest of the read's blocks filled.
    fn await_block(
        &mut self,
        engine: &mut Engine,
        who: Who,
        place: &Place,
        first: BlockKey,
    ) -> bool {
        let Some(entry) = self.operations.get_mut(who.operation) else { return false };
        entry.way = Way::Filled;
        let Some(opened) = self.objects.get(entry.operation.object) else { return false };
        let behind = place.end.div_ceil(BLOCK_BYTES);
        for block in first.block..behind {
            let key = BlockKey { block, ..first };
            if engine.cache.peek(key) == Found::Absent
                && !engine.fill(&opened.file, place.lease, key)
            {
                break;
            }
        }
        engine.cache.wait(first, (engine.number, who))
    }

    /// What was copied counts only if nobody has changed the file meanwhile.
    fn end_cached(
        &mut self,
        engine: &mut Engine,
        who: Who,
        lease: Vouched,
        left: &mut i64,
    ) -> Step {
        if !lease.word.is_active() {
            return self.fly(engine, who, Way::Kernel, left);
        }
        let done = self.operations.get(who.operation).map_or(0, |entry| entry.done);
        self.end(engine, who.operation, done as i64);
        Step::Over
    }
}

/// A read of so many bytes at an offset begins: it counts as a use of its block, unless it only goes
/// on from the last one, and what is likely to be read next is fetched.
fn fetch_ahead(
    engine: &mut Engine,
    opened: &mut Opened,
    lease: Vouched,
    (offset, bytes): (u64, u64),
    place: Option<u32>,
) {
    match place {
        _ if opened.ahead.goes_on(offset) => {}
        Some(place) => engine.cache.used(place),
        None => {
            let key = BlockKey { file: opened.number, block: offset / BLOCK_BYTES };
            engine.cache.look(key);
        }
    }
    for block in opened.ahead.begin(offset, bytes, BLOCK_BYTES) {
        engine.fill(&opened.file, lease, BlockKey { file: opened.number, block });
    }
}
