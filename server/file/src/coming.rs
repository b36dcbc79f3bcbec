//! Reads ahead the files that a session is about to come to, as `sets` tells.
//!
//! For the session that begins a file: the heads of those behind it are filled where they are not in
//! the cache, some blocks in all. The session pays for them as if it had asked, and while the loop has
//! much under way nothing is. The blocks come to the cache as those of any first use do, through its
//! small queue, so that they push out nothing that is used again.

use heliostat_abi::name::ObjectId;
use heliostat_server_loop::{Engine, Session};

use super::blocks::Blocks;
use super::cache::{BlockKey, Found, BLOCK_BYTES};
use super::files::{fill, Files};
use super::sets::HEAD_BLOCKS;
use super::source::Source;

/// Blocks that are read ahead for a session that begins a file, over all files behind it.
const BLOCKS_MAX: u64 = HEAD_BLOCKS;
/// Part of the cache that they may be: a small one has fewer of them.
const CACHE_SHARE: u64 = 16;
/// Requests of a loop under way beyond which nothing is read ahead: whoever asks comes first.
const UNDER_WAY_MAX: usize = 64;

/// A session reads from a file's beginning: notes it, and reads ahead what comes next. Nothing happens
/// when it was the last one that it began.
pub fn begin(engine: &mut Engine<Files>, session: &mut Session<Files>, object: ObjectId) {
    let Some(opened) = session.objects.get(object) else { return };
    let Some(lease) = opened.vouched() else { return };
    let (file, holder) = (opened.number, opened.file.holder);
    if session.service.last_file == Some(file) {
        return;
    }
    let before = session.service.last_file.replace(file);
    let source = Source::of(&opened.file, lease);
    let shared = engine.service.shared.clone();
    let (ahead, next) = {
        let mut sets = shared.sets();
        let known = (source, lease.version.size);
        let ahead = sets.begin(holder, (before, file), known, engine.now_ns);
        (ahead, sets.next(holder, file))
    };
    let found = count_found(&shared.blocks, file, ahead);
    shared.count_found(found);
    opened.file.stats.count_found(found);
    for (file, block) in fetch_next(engine, session, object, next) {
        shared.count_ahead(1);
        shared.sets().mark(holder, file, block);
    }
}

/// How many of a file's blocks that were read ahead are there, or on their way.
fn count_found(blocks: &Blocks, file: u64, ahead: u16) -> u64 {
    let is_there = |block: &u64| {
        let key = BlockKey { file, block: *block };
        ahead & (1 << block) != 0 && blocks.peek(key) != Found::Absent
    };
    (0..HEAD_BLOCKS).filter(is_there).count() as u64
}

/// Begins to read the heads of files that come next, some blocks in all; which ones it has begun.
fn fetch_next(
    engine: &mut Engine<Files>,
    session: &Session<Files>,
    object: ObjectId,
    next: Vec<(u64, Source, u64)>,
) -> Vec<(u64, u64)> {
    let cache_blocks = engine.service.arena.len() as u64 / BLOCK_BYTES;
    let mut room = BLOCKS_MAX.min(cache_blocks / CACHE_SHARE);
    let mut begun = Vec::new();
    for (file, source, bytes) in next {
        let head = bytes.div_ceil(BLOCK_BYTES).min(HEAD_BLOCKS).min(room);
        for block in 0..head {
            if fetch(engine, session, object, &source, BlockKey { file, block }) {
                begun.push((file, block));
            }
        }
        room -= head;
    }
    begun
}

/// Begins to read a block that is not there; whether it has.
fn fetch(
    engine: &mut Engine<Files>,
    session: &Session<Files>,
    object: ObjectId,
    source: &Source,
    key: BlockKey,
) -> bool {
    let is_wanted = engine.flying < UNDER_WAY_MAX
        && source.lease.word.is_active()
        && engine.service.cache.peek(key) == Found::Absent;
    let Some(file) = source.file().filter(|_| is_wanted) else { return false };
    if !session.take_ahead(object, BLOCK_BYTES, engine.now_ns) {
        return false;
    }
    let is_begun = fill(engine, &file, source.lease, key);
    if !is_begun {
        session.give_back_ahead(object, BLOCK_BYTES);
    }
    is_begun
}
