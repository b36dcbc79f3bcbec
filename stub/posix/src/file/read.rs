//! Reads and seeks of mapped files, and what happens to those that are not mapped (yet).

use std::io::IoSliceMut;

use heliostat_base::process;
use heliostat_base::sys::Errno;

use super::description::{self, File};
use super::position::OFFSET_MAX;
use super::settle::{self, Ticket};
use super::word::Word;
use super::{lease, life, READS_FIRST};
use crate::thread::{self, Critical};
use crate::{owner, table};

/// Reads longer than this are copied by the kernel about as fast as by us; they count little.
const LONG_READ: usize = 32 << 10;
/// What a short read counts, and a long one: eighths of a read.
const WEIGHTS: (u32, u32) = (8, 1);

/// What is to become of a call.
pub enum Next {
    /// Try again: it is mapped now, or was all along.
    Again,
    /// The kernel does it; the ticket is given back afterwards, if it says so.
    Kernel(Ticket),
}

/// pread(2) of `into.len()` bytes, more than none: how many; `None` when it is not answered here.
#[inline(always)]
pub fn at(fd: i32, offset: u64, into: &mut [u8]) -> Option<usize> {
    let word = Word::of(fd);
    let file = description::at(word.index()?);
    let bytes = file.view.read(offset as usize, into).ok()?;
    (Word::of(fd) == word).then_some(bytes)
}

/// preadv(2).
pub fn at_many(fd: i32, offset: u64, into: &mut [IoSliceMut<'_>]) -> Option<usize> {
    let word = Word::of(fd);
    let file = description::at(word.index()?);
    let bytes = file.view.read_many(offset as usize, into).ok()?;
    (Word::of(fd) == word).then_some(bytes)
}

/// read(2), as `at`.
#[inline(always)]
pub fn next(fd: i32, into: &mut [u8]) -> Option<usize> {
    next_by(fd, |file, offset| file.view.read(offset, into).ok())
}

/// readv(2), as `at`.
pub fn next_many(fd: i32, into: &mut [IoSliceMut<'_>]) -> Option<usize> {
    next_by(fd, |file, offset| file.view.read_many(offset, into).ok())
}

#[inline(always)]
fn next_by(fd: i32, mut read: impl FnMut(&File, usize) -> Option<usize>) -> Option<usize> {
    let word = Word::of(fd);
    let file = description::at(word.index()?);
    loop {
        let seen = file.position.0.ours()?;
        let bytes = read(file, seen.offset() as usize)?;
        if Word::of(fd) != word {
            return None;
        }
        // Another thread may have read meanwhile: then these bytes were its.
        if bytes == 0 || file.position.0.advance(seen, seen.offset() + bytes as u64) {
            return Some(bytes);
        }
    }
}

/// A read of `fd` that is far from the next question: counted, and the kernel's. `None` when there
/// is more to it.
///
/// With one thread only, nobody can take the offset over while the kernel moves it, so that the
/// end of the call need not be seen.
#[inline]
pub fn count_early(fd: i32, bytes: usize, moves: bool) -> Option<Ticket> {
    let weight = if bytes > LONG_READ { WEIGHTS.1 } else { WEIGHTS.0 };
    let is_seen = moves && !process::is_single_threaded();
    let word = Word::of(fd);
    if let Some(index) = word.index() {
        let file = description::at(index);
        let is_far = !is_seen && !file.view.is_mapped() && !file.count_read(weight);
        return is_far.then_some(Ticket::None);
    }
    let next = word.with_reads(weight);
    if next.reads() >= READS_FIRST {
        return None;
    }
    let is_seen = is_seen && !word.is_shared();
    let next = if is_seen { next.take_off()? } else { next };
    let ticket = if is_seen { Ticket::Candidate } else { Ticket::None };
    table::change_file(fd, word.0, next.0).then_some(ticket)
}

/// After a read of `fd`, of `bytes` bytes, was not answered. `moves` when it moves the offset.
/// Asks for a lease when it is time to, so this may take as long as the control plane does.
#[cold]
pub fn missed(fd: i32, bytes: usize, moves: bool, is_again: bool) -> Next {
    let weight = if bytes > LONG_READ { WEIGHTS.1 } else { WEIGHTS.0 };
    let word = Word::of(fd);
    if owner::is_vfork_child() {
        return Next::Kernel(Ticket::None);
    }
    let _critical = Critical::enter();
    match word.index() {
        Some(index) => missed_described(fd, description::at(index), weight, moves, is_again),
        None if word.is_file() && !is_again => missed_candidate(fd, weight, moves),
        None => Next::Kernel(settle::needs_offset_if(fd, moves)),
    }
}

fn missed_candidate(fd: i32, weight: u32, moves: bool) -> Next {
    let is_due = |word: Word| word.reads() + weight >= READS_FIRST && word.in_flight() == 0;
    if is_due(Word::of(fd)) {
        if let Some(index) = life::describe(fd, 1) {
            return ask(fd, description::at(index), moves);
        }
    }
    match life::count_candidate(fd, weight, moves) {
        Some(word) if moves && !word.is_shared() => Next::Kernel(Ticket::Candidate),
        Some(_) => Next::Kernel(Ticket::None),
        // It is a candidate no more: another thread has described it meanwhile.
        None => Next::Kernel(settle::needs_offset_if(fd, moves)),
    }
}

fn missed_described(fd: i32, file: &File, weight: u32, moves: bool, is_again: bool) -> Next {
    if file.view.is_mapped() && lease::check(fd, file) {
        // What was mapped and held could not be read: the kernel says why. Unless it was only
        // that this thread was not ready, or the offset not ours.
        let is_ready = thread::make_guarded();
        let may_retry = !is_again && is_ready && (!moves || lease::adopt(fd, file));
        return match may_retry {
            true => Next::Again,
            false => Next::Kernel(settle::needs_offset_if(fd, moves)),
        };
    }
    match !is_again && file.count_read(weight) {
        true => ask(fd, file, moves),
        false => Next::Kernel(settle::needs_offset_if(fd, moves)),
    }
}

fn ask(fd: i32, file: &File, moves: bool) -> Next {
    let asked = lease::ask(fd, file);
    if asked == Err(true) {
        life::closing(fd);
        return Next::Kernel(Ticket::None);
    }
    let is_direct = asked.is_ok() && thread::make_guarded();
    match is_direct && (!moves || lease::adopt(fd, file)) {
        true => Next::Again,
        false => Next::Kernel(settle::needs_offset_if(fd, moves)),
    }
}

/// What becomes of a seek.
pub enum Seek {
    /// Done, or refused.
    Answer(Result<usize, Errno>),
    /// The kernel does it; the ticket is given back afterwards.
    Kernel(Ticket),
}

/// lseek(2) within a mapped file; everything else is the kernel's.
pub fn seek(fd: i32, offset: i64, whence: i32) -> Seek {
    if let Some(answer) = seek_in_ours(fd, offset, whence) {
        return Seek::Answer(answer);
    }
    let _critical = Critical::enter();
    if let Some(index) = Word::of(fd).index() {
        lease::check(fd, description::at(index));
    }
    Seek::Kernel(settle::needs_offset(fd))
}

fn seek_in_ours(fd: i32, offset: i64, whence: i32) -> Option<Result<usize, Errno>> {
    let word = Word::of(fd);
    let file = description::at(word.index()?);
    // A child of vfork is never ready, and its descriptors may be other files.
    if !thread::is_guarded() && (owner::is_vfork_child() || !thread::make_guarded()) {
        return None;
    }
    loop {
        let seen = file.position.0.ours()?;
        let bytes = file.view.bytes() as u64;
        let from = match whence {
            libc::SEEK_SET => 0,
            libc::SEEK_CUR => seen.offset(),
            libc::SEEK_END => bytes,
            _ => return None,
        };
        let to = (from as i64).checked_add(offset)?;
        if !file.view.holds() || Word::of(fd) != word {
            return None;
        }
        if to < 0 {
            return Some(Err(Errno(libc::EINVAL)));
        }
        // What lies far beyond the end is for the file system to allow.
        if to as u64 > bytes.min(OFFSET_MAX) && to as u64 != seen.offset() {
            return None;
        }
        if file.position.0.advance(seen, to as u64) {
            return Some(Ok(to as usize));
        }
    }
}
