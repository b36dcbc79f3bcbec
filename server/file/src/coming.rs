//! Reads ahead the files that a session is about to come to, as `sets` tells.
//!
//! For the session that begins a file: the heads of those behind it are filled where they are not in
//! the cache, some blocks in all. The session pays for them as if it had asked, and while the loop has
//! much under way nothing is. The blocks come to the cache as those of any first use do, through its
//! small queue, so that they push out nothing that is used again.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use heliostat_abi::name::ObjectId;
use heliostat_server_loop::{Engine, Session};

use super::cache::{BlockKey, Found, BLOCK_BYTES};
use super::files::{fill, Files};
use super::open_file::Vouched;
use super::sets::HEAD_BLOCKS;

/// Blocks that are read ahead for a session that begins a file, over all files behind it.
const BLOCKS_MAX: u64 = HEAD_BLOCKS;
/// Part of the cache that they may be: a small one has fewer of them.
const CACHE_SHARE: u64 = 16;
/// Requests of a loop under way beyond which nothing is read ahead: whoever asks comes first.
const UNDER_WAY_MAX: usize = 64;

/// What a file that sessions read is read ahead by. It keeps none open.
#[derive(Clone)]
pub struct Source {
    file: Weak<OwnedFd>,
    lease: Vouched,
    /// Its name has a rate, which whoever comes there pays and nobody else.
    has_rate: bool,
}

/// A session reads from a file's beginning: notes it, and reads ahead what comes next. Nothing happens
/// when it was the last one that it began.
pub fn begin(engine: &mut Engine<Files>, session: &mut Session<Files>, object: ObjectId) {
    let Some(opened) = session.objects.get(object) else { return };
    let Some(lease) = opened.vouched() else { return };
    let (file, holder, stats) = (opened.number, opened.file.holder, opened.file.stats.clone());
    if session.service.last_file == Some(file) {
        return;
    }
    let has_rate = opened.file.meter.is_some();
    let source = Source { file: Arc::downgrade(&opened.file.buffered), lease, has_rate };
    let before = session.service.last_file.replace(file);
    let shared = engine.service.shared.clone();
    let now_ns = engine.now_ns;
    let (ahead, next) = {
        let mut sets = shared.sets();
        let ahead = sets.begin(holder, (before, file), (source, lease.version.size), now_ns);
        (ahead, sets.next(holder, file))
    };
    let is_there = |block: &u64| {
        let key = BlockKey { file, block: *block };
        ahead & (1 << block) != 0 && engine.service.cache.peek(key) != Found::Absent
    };
    let found = (0..HEAD_BLOCKS).filter(is_there).count() as u64;
    shared.count_found(found);
    stats.count_found(found);
    let mut room = BLOCKS_MAX.min(shared.blocks.arena.len() as u64 / BLOCK_BYTES / CACHE_SHARE);
    for (file, source, bytes) in next {
        let head = bytes.div_ceil(BLOCK_BYTES).min(HEAD_BLOCKS).min(room);
        let asked = (0..head).filter(|block| {
            let key = BlockKey { file, block: *block };
            let is_begun = fetch(engine, session, object, &source, key);
            if is_begun {
                shared.sets().mark(holder, file, *block);
            }
            is_begun
        });
        shared.count_ahead(asked.count() as u64);
        room -= head;
    }
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
        && !source.has_rate
        && source.lease.word.is_active()
        && engine.service.cache.peek(key) == Found::Absent;
    let Some(file) = source.file.upgrade().filter(|_| is_wanted) else { return false };
    if !session.take_ahead(object, BLOCK_BYTES, engine.now_ns) {
        return false;
    }
    let is_begun = fill(engine, &file, source.lease, key);
    if !is_begun {
        session.give_back_ahead(object, BLOCK_BYTES);
    }
    is_begun
}
