//! Reads through the cache: copied where it is there, filled where it is not.
//!
//! ```text
//! block there --> copy, next block --> all copied --> lease still holds --> done
//!   | absent        ^                                   | no
//!   v               | filled                            v
//! fill it and its followers, wait                 the kernel's read from the start
//! ```

use heliostat_abi::file::delegated::{OneRead, Operation, Piece, Way};
use heliostat_base::clock::monotonic_ns;
use heliostat_base::mapping::{OutOfRange, SharedMapping};
use heliostat_server_loop::{copy_part, Engine, Session, Step, COST_MIN};

use super::blocks::Ready;
use super::cache::{BlockKey, Found, BLOCK_BYTES};
use super::copying::TIMED_FROM;
use super::files::{fill, Files, Turn};
use super::flight::fly;
use super::open_file::{Opened, Vouched};
use super::reason::WayReason;

/// Where a read through the cache has got to.
struct Progress {
    lease: Vouched,
    file: u64,
    /// Next byte in the file, and the one behind the last.
    at: u64,
    end: u64,
    /// Where it goes.
    piece: Piece,
}

/// Serves a read of one piece that one block of the cache has, in one step: see `copy_hit`. `None`
/// when it is another case.
pub fn hit(turn: &mut Turn<'_>) -> Option<Step> {
    let entry = turn.entry()?;
    let ([piece], Way::None) = (entry.operation.pieces.as_slice(), entry.way) else {
        return None;
    };
    let Operation { object, offset, tag, .. } = entry.operation;
    let read = OneRead { object, offset, tag, piece: *piece };
    let len = copy_hit(turn.engine, turn.session, &read, turn.left)?;
    turn.entry_mut()?.way = Way::Cached;
    Some(turn.end(len as i64))
}

/// Copies a piece that lies in one block that is there, with one look into the cache; answers its
/// length, fewer bytes than asked for only at the file's end.
pub fn copy_hit(
    engine: &mut Engine<Files>,
    session: &mut Session<Files>,
    read: &OneRead,
    left: &mut i64,
) -> Option<u64> {
    let (piece, offset) = (read.piece, read.offset);
    let opened = session.objects.get_mut(read.object)?;
    let lease = opened.vouched().filter(|_| !opened.file.wants_direct)?;
    let (block, within) = (offset / BLOCK_BYTES, offset % BLOCK_BYTES);
    let len = u64::from(piece.bytes).min(lease.version.size.checked_sub(offset)?);
    let key = BlockKey { file: opened.number, block };
    let files = &engine.service;
    let there = files.cache.ready(key)?;
    if len == 0 || len as i64 > *left || within + len > u64::from(there.bytes) {
        return None;
    }
    let from = u64::from(there.place) * BLOCK_BYTES + within;
    let to = piece.offset as usize;
    let (from, into) = ((&*files.arena, from as usize), (&*session.window, to));
    let spent_ns = copy_timed(from, into, len as usize, len).ok()?;
    if !files.cache.holds(there) || !lease.word.is_active() {
        return None;
    }
    *left -= COST_MIN.max(len as i64);
    opened.file.stats.chose(WayReason::Hit, true);
    note_copy(engine, spent_ns);
    fetch_ahead(engine, opened, lease, (offset, len), Some(there.place));
    Some(len)
}

/// Goes on with a read through the cache.
pub fn read(turn: &mut Turn<'_>) -> Step {
    begin(turn);
    loop {
        let Some(progress) = progress(turn) else { return fly(turn, Way::Kernel) };
        if progress.at >= progress.end {
            return end(turn, progress.lease);
        }
        if *turn.left <= 0 {
            return Step::GoesOn;
        }
        let key = BlockKey { file: progress.file, block: progress.at / BLOCK_BYTES };
        match turn.engine.service.cache.ready(key) {
            Some(there) => {
                if !copy(turn, &progress, there) {
                    return fly(turn, Way::Kernel);
                }
            }
            None if await_block(turn, &progress, key) => return Step::Over,
            // Another loop has filled it meanwhile.
            None if matches!(turn.engine.service.cache.peek(key), Found::Ready { .. }) => {}
            // No room in the cache: the kernel has its own.
            None => return fly(turn, Way::Kernel),
        }
    }
}

/// Counts a read at its first turn, and fetches what it is likely to go on with.
fn begin(turn: &mut Turn<'_>) {
    let session = &mut *turn.session;
    let Some(entry) = session.operations.get_mut(turn.id.operation) else { return };
    if entry.way != Way::None {
        return;
    }
    entry.way = Way::Cached;
    let (offset, bytes) = (entry.operation.offset, entry.operation.pieces.bytes());
    // Its bytes are counted as they are copied.
    *turn.left -= COST_MIN.saturating_sub(bytes as i64).max(0);
    let Some(opened) = session.objects.get_mut(entry.operation.object) else { return };
    if let Some(lease) = opened.vouched() {
        fetch_ahead(turn.engine, opened, lease, (offset, bytes), None);
    }
}

/// `None` when the lease is over or the file is closed.
fn progress(turn: &Turn<'_>) -> Option<Progress> {
    let entry = turn.entry()?;
    let opened = turn.object(&entry.operation)?;
    let lease = opened.vouched()?;
    let start = entry.operation.offset;
    let end = start.saturating_add(entry.operation.pieces.bytes()).min(lease.version.size);
    let piece = entry.operation.pieces.at(entry.done).unwrap_or_default();
    Some(Progress { lease, file: opened.number, at: start + entry.done, end, piece })
}

/// Copies as much as lies in the block, in the piece and in the turn. False when the block is
/// shorter than the file is said to be. What does not count is copied again: the block's place was
/// given to another.
fn copy(turn: &mut Turn<'_>, progress: &Progress, block: Ready) -> bool {
    let within = progress.at % BLOCK_BYTES;
    let there = u64::from(block.bytes).saturating_sub(within).min(progress.end - progress.at);
    let len = there.min(u64::from(progress.piece.bytes)).min(turn.left.unsigned_abs().max(1));
    let from = (u64::from(block.place) * BLOCK_BYTES + within) as usize;
    let to = progress.piece.offset as usize;
    let files = &turn.engine.service;
    let whole = turn.entry().map_or(len, |entry| entry.operation.pieces.bytes());
    let (from, into) = ((&*files.arena, from), (&*turn.session.window, to));
    let copied = copy_timed(from, into, len as usize, whole);
    let Some(spent_ns) = copied.ok().filter(|_| len > 0) else { return false };
    *turn.left -= len as i64;
    let holds = files.cache.holds(block);
    note_copy(turn.engine, spent_ns);
    if !holds {
        return true;
    }
    if let Some(entry) = turn.entry_mut() {
        entry.done += len;
    }
    true
}

/// Copies a part of a read; answers its time, 0 of what is too short to be timed. What takes longer than
/// a nanosecond for a byte was no copy: somebody else had the core.
#[inline]
fn copy_timed(
    from: (&SharedMapping, usize),
    into: (&SharedMapping, usize),
    len: usize,
    whole: u64,
) -> Result<u64, OutOfRange> {
    if (len as u64) < TIMED_FROM {
        return copy_part(from, into, len, whole).map(|()| 0);
    }
    let began_ns = monotonic_ns();
    copy_part(from, into, len, whole)?;
    Ok(monotonic_ns().saturating_sub(began_ns).min(len as u64))
}

/// Notes how long a copy took, for the rule about large reads.
#[inline]
fn note_copy(engine: &mut Engine<Files>, spent_ns: u64) {
    if spent_ns > 0 {
        engine.service.copying.note(spent_ns, engine.now_ns);
    }
}

/// Waits for a block, and has it and the rest of the read's blocks filled.
fn await_block(turn: &mut Turn<'_>, progress: &Progress, first: BlockKey) -> bool {
    let session = &mut *turn.session;
    let Some(entry) = session.operations.get_mut(turn.id.operation) else { return false };
    entry.way = Way::Filled;
    let Some(opened) = session.objects.get(entry.operation.object) else { return false };
    let behind = progress.end.div_ceil(BLOCK_BYTES);
    for block in first.block..behind {
        let key = BlockKey { block, ..first };
        if turn.engine.service.cache.peek(key) == Found::Absent
            && !fill(turn.engine, &opened.file.buffered, progress.lease, key)
        {
            break;
        }
    }
    turn.engine.service.cache.wait(first, (turn.engine.number, turn.id))
}

/// Ends a read. What was copied counts only if nobody has changed the file meanwhile.
fn end(turn: &mut Turn<'_>, lease: Vouched) -> Step {
    if !lease.word.is_active() {
        return fly(turn, Way::Kernel);
    }
    let done = turn.entry().map_or(0, |entry| entry.done);
    turn.end(done as i64)
}

/// A read of so many bytes at an offset begins: it counts as a use of its block, unless it only goes
/// on from the last one, and what is likely to be read next is fetched.
fn fetch_ahead(
    engine: &mut Engine<Files>,
    opened: &mut Opened,
    lease: Vouched,
    (offset, bytes): (u64, u64),
    place: Option<u32>,
) {
    match place {
        _ if opened.ahead.goes_on(offset) => {}
        Some(place) => engine.service.cache.used(place),
        None => {
            let key = BlockKey { file: opened.number, block: offset / BLOCK_BYTES };
            engine.service.cache.look(key);
        }
    }
    for block in opened.ahead.begin(offset, bytes, BLOCK_BYTES) {
        let key = BlockKey { file: opened.number, block };
        fill(engine, &opened.file.buffered, lease, key);
    }
}
