//! Begins operations on files: each takes its way, and none makes the loop wait.

pub mod locks;
pub mod names;

use heliostat_abi::file::delegated::{Facts, OpKind, Operation, Way, DIRECT_GRAIN};
use heliostat_server_loop::{Engine, Step, COST_MIN};
use rustix::fs::fstat;

use super::cache::{BlockKey, Found, BLOCK_BYTES};
use super::files::{Files, Turn};
use super::flight::fly;
use super::message::FileEvent;
use super::open_file::Opened;
use super::way::{choose, Choice, Question};
use super::{cached, coming, objects};

/// Begins an operation or goes on with it.
pub fn serve(turn: &mut Turn<'_>) -> Step {
    let Some(entry) = turn.entry() else { return Step::Over };
    // Those that there are most of do without a copy.
    if matches!(entry.operation.kind, OpKind::Read | OpKind::Write | OpKind::Append) {
        return transfer(turn);
    }
    let asked = entry.operation;
    match asked.kind {
        OpKind::Fsync | OpKind::Truncate => change_whole(turn, &asked),
        OpKind::Lock => locks::lock(turn, &asked),
        OpKind::Stat => stat(turn, &asked),
        OpKind::Close => close(turn, &asked),
        // The one was ended when it was taken, the others have gone already.
        OpKind::Cancel | OpKind::Read | OpKind::Write | OpKind::Append => turn.fail(libc::EINVAL),
        // Of memory regions, functions, areas and sockets, which are no files.
        OpKind::Set
        | OpKind::Copy
        | OpKind::FetchAdd
        | OpKind::CompareSwap
        | OpKind::Swap
        | OpKind::Call
        | OpKind::Send
        | OpKind::Receive
        | OpKind::Reply
        | OpKind::WriteDurable
        | OpKind::Zero
        | OpKind::Discard
        | OpKind::Connect
        | OpKind::Listen
        | OpKind::Accept
        | OpKind::Poll
        | OpKind::Shutdown
        | OpKind::Address => turn.fail(libc::EINVAL),
        OpKind::Open
        | OpKind::Mkdir
        | OpKind::Rmdir
        | OpKind::Unlink
        | OpKind::Rename
        | OpKind::Symlink
        | OpKind::Readlink
        | OpKind::Fetch
        | OpKind::Readdir => names::ask_opener(turn, &asked),
    }
}

fn transfer(turn: &mut Turn<'_>) -> Step {
    let Some(entry) = turn.entry() else { return Step::Over };
    let is_read = entry.operation.kind == OpKind::Read;
    let object = entry.operation.object;
    if is_read && entry.operation.offset == 0 && entry.way == Way::None {
        coming::begin(turn.engine, turn.session, object);
    }
    if let Some(step) = is_read.then(|| cached::hit(turn)).flatten() {
        return step;
    }
    let Some(entry) = turn.entry() else { return Step::Over };
    let Some(opened) = turn.object(&entry.operation) else { return turn.fail(libc::EBADF) };
    let may = if is_read { opened.file.can_read } else { opened.file.can_write };
    if !may {
        let is_directory = opened.file.directory.is_some();
        return turn.fail(if is_directory { libc::EISDIR } else { libc::EBADF });
    }
    let choice = match entry.way {
        Way::Cached | Way::Filled => Choice::Cached,
        // Sent back from the cache: what it has copied does not count.
        Way::Kernel => Choice::Kernel,
        _ => decide(turn),
    };
    match choice {
        Choice::Cached => cached::read(turn),
        Choice::Direct => fly(turn, Way::Direct),
        Choice::Kernel => {
            if is_read {
                objects::ask_lease(turn.engine, turn.session, object);
            }
            fly(turn, Way::Kernel)
        }
        Choice::Misaligned => turn.fail(libc::EINVAL),
    }
}

/// Brings a file to the disk, or to another length.
fn change_whole(turn: &mut Turn<'_>, asked: &Operation) -> Step {
    let truncates = asked.kind == OpKind::Truncate;
    let opened = turn.object(asked).filter(|opened| opened.file.can_write || !truncates);
    let Some(opened) = opened else { return turn.fail(libc::EBADF) };
    let file = opened.file.buffered.clone();
    *turn.left -= COST_MIN;
    match truncates {
        true => turn.truncate(&file, asked.argument),
        false => turn.fsync(&file),
    }
}

/// Asks the file's own kernel: only files of local file systems are ever opened here.
fn stat(turn: &mut Turn<'_>, asked: &Operation) -> Step {
    *turn.left -= COST_MIN;
    let Some(opened) = turn.object(asked) else { return turn.fail(libc::EBADF) };
    let status = match fstat(&opened.file.buffered) {
        Ok(status) => status,
        Err(errno) => return turn.fail(errno.raw_os_error()),
    };
    let facts = Facts {
        size: status.st_size as u64,
        inode: status.st_ino,
        device: status.st_dev,
        modified: (status.st_mtime, status.st_mtime_nsec as u32),
        mode: status.st_mode,
        uid: status.st_uid,
        gid: status.st_gid,
    };
    let place = asked.pieces.at(0).map_or(0, |piece| piece.offset as usize);
    match turn.session.window.copy_in(place, &facts.encode()) {
        Ok(()) => turn.end(0),
        Err(_) => turn.fail(libc::EFAULT),
    }
}

fn close(turn: &mut Turn<'_>, asked: &Operation) -> Step {
    *turn.left -= COST_MIN;
    match turn.session.objects.remove(asked.object) {
        Some(mut opened) => {
            locks::unlock(&mut turn.engine.service, &mut opened);
            turn.engine.tell(FileEvent::Closed(turn.session.id, opened.file));
            turn.end(0)
        }
        None => turn.fail(libc::EBADF),
    }
}

/// Chooses the way of a transfer that begins, and counts why.
fn decide(turn: &mut Turn<'_>) -> Choice {
    let now_ns = turn.engine.now_ns;
    let copying = &mut turn.engine.service.copying;
    let is_copying = copying.is_much(now_ns);
    let percent = copying.percent();
    turn.engine.service.shared.tell_copying(turn.engine.number, percent);
    let Some(entry) = turn.entry() else { return Choice::Kernel };
    let Some(opened) = turn.object(&entry.operation) else { return Choice::Kernel };
    let (choice, reason) = choose(question(turn, opened, &entry.operation, is_copying));
    opened.file.stats.chose(reason, entry.operation.kind == OpKind::Read);
    choice
}

/// What the rule about ways has to know.
fn question(turn: &Turn<'_>, opened: &Opened, operation: &Operation, is_copying: bool) -> Question {
    let engine: &Engine<Files> = turn.engine;
    let vouched = opened.vouched();
    let block = operation.offset / BLOCK_BYTES;
    let key = BlockKey { file: opened.number, block };
    let is_aligned = |at: u64, bytes: u32| (at | u64::from(bytes)) % DIRECT_GRAIN == 0;
    let mut pieces = operation.pieces.as_slice().iter();
    let cache = &engine.service.cache;
    let bytes = operation.pieces.bytes();
    let direct_from = opened.at_device.direct_from(is_copying);
    // What lies in one block is found there by whoever comes behind, and leaves no trace.
    let is_traced = operation.kind == OpKind::Read && bytes > BLOCK_BYTES && vouched.is_some();
    let is_large = bytes >= direct_from;
    let is_followed = is_traced && {
        let reader = (opened.file.holder, turn.session.id);
        let (range, now_ns) = ((operation.offset, bytes), engine.now_ns);
        engine.service.shared.is_followed(opened.number, reader, range, now_ns) && is_large
    };
    if is_followed {
        opened.file.stats.count_followed();
    }
    Question {
        is_read: operation.kind == OpKind::Read,
        is_append: operation.kind == OpKind::Append,
        offset: operation.offset,
        bytes,
        is_aligned: pieces.all(|piece| is_aligned(piece.offset, piece.bytes)),
        wants_direct: opened.file.wants_direct,
        wants_buffered: opened.file.wants_buffered,
        has_direct: opened.file.direct.is_some(),
        is_leased: vouched.is_some(),
        is_followed,
        direct_from,
        is_hit: vouched.is_some() && matches!(cache.peek(key), Found::Ready { .. }),
    }
}
