//! Open files coming and going: open, dup, close.

use heliostat_abi::code::Unmapped;
use heliostat_base::sync::Ordering::Relaxed;

use super::word::{change_candidate, Word};
use super::{description, is_enabled, lease, settle, ENABLED};
use crate::thread::Critical;
use crate::{owner, report, table};

/// Flags of open(2) that make a file none of ours.
const NOT_OURS: i32 = libc::O_ACCMODE | libc::O_PATH | libc::O_DIRECTORY | libc::O_DIRECT;

/// After open(2) gave `fd`.
#[inline]
pub fn opened(fd: i32, flags: i32) {
    if table::file(fd) != 0 {
        // It was closed where we could not see it; unless this is a child of vfork, which closes
        // descriptors of its own. What the table says is its parent's, and nothing it reads.
        if owner::is_vfork_child() {
            return;
        }
        closing(fd);
    }
    if flags & NOT_OURS == 0 && is_enabled() && table::is_unknown(fd) {
        table::set_file(fd, Word::candidate(flags & libc::O_CLOEXEC == 0).0);
    }
}

/// Before the kernel closes `fd`.
pub fn closing(fd: i32) {
    let word = Word::of(fd);
    if word.index().is_some() && owner::is_vfork_child() {
        return;
    }
    let Some(index) = Word(table::take_file(fd)).index() else { return };
    let _critical = Critical::enter();
    let file = description::at(index);
    if file.release() {
        lease::end(file);
        description::free(index);
    }
}

/// After `new` was made from `old` by one of the dup calls. `is_kept` unless the new one is closed
/// by exec(2).
pub fn duplicated(old: i32, new: i32, is_kept: bool) {
    let word = Word::of(old);
    if old == new || !word.is_file() {
        return;
    }
    let _critical = Critical::enter();
    if owner::is_vfork_child() {
        // The child of a vfork may take it over an exec, and then two processes move the offset.
        settle::share(old, word);
        return;
    }
    let index = match word.index() {
        Some(index) => Some(index),
        None => describe(old, 2),
    };
    let Some(index) = index else {
        table::take_file(old);
        return;
    };
    if word.index().is_some() {
        description::at(index).retain();
    }
    if !table::set_file(new, Word::described(index, is_kept).0) {
        // The number is beyond our table: what it moves there we would not see.
        description::at(index).release();
        settle::share(old, Word::of(old));
    }
}

/// Reads of `fd` follow other rules from now on (O_DIRECT, a lease of the program's own): they, and
/// those of all descriptors that share its offset, are the kernel's for good.
pub fn stop(fd: i32) {
    let word = Word::of(fd);
    if owner::is_vfork_child() {
        return;
    }
    let _critical = Critical::enter();
    settle::share(fd, word);
    let Some(index) = word.index() else {
        table::take_file(fd);
        return;
    };
    let shares = |other: u32| Word(other).index() == Some(index);
    let sharing = table::walk_files(0, u32::MAX).filter(|(_, other)| shares(*other));
    sharing.for_each(|(other, _)| closing(other));
}

/// Calls on descriptors will come from where nobody sees them (io_uring): no file is ours any
/// more, for good.
pub fn give_up() {
    ENABLED.store(false, Relaxed);
    let _critical = Critical::enter();
    for (fd, word) in table::walk_files(0, u32::MAX) {
        settle::share(fd, Word(word));
        report::count_unmapped(Unmapped::Call);
        closing(fd);
    }
}

/// Gives the candidate `fd` a description with so many descriptors; `None` leaves it as it is: it
/// is none any more, calls are moving its offset, or the table is full. In a critical section.
pub(super) fn describe(fd: i32, descriptors: u32) -> Option<u32> {
    let word = Word::of(fd);
    if !word.is_file() || word.index().is_some() || word.in_flight() != 0 {
        return None;
    }
    let Some(index) = description::allocate(descriptors, word.is_shared()) else {
        report::count_unmapped(Unmapped::TableFull);
        table::take_file(fd);
        return None;
    };
    if table::change_file(fd, word.0, Word::described(index, word.is_kept()).0) {
        return Some(index);
    }
    description::free(index);
    None
}

/// After fcntl(2) said whether exec(2) closes `fd`.
pub fn kept_changed(fd: i32, is_kept: bool) {
    if owner::is_vfork_child() {
        if is_kept {
            settle::share(fd, Word::of(fd));
        }
        return;
    }
    let mut seen = Word::of(fd);
    while seen.is_file() && !table::change_file(fd, seen.0, seen.with_kept(is_kept).0) {
        seen = Word::of(fd);
    }
}

/// Counts a read by the kernel of a candidate, and a call that moves its offset if `moves`: the
/// word after that.
pub(super) fn count_candidate(fd: i32, weight: u32, moves: bool) -> Option<Word> {
    change_candidate(fd, |word| {
        let counted = word.with_reads(weight);
        match moves && !word.is_shared() {
            true => counted.take_off(),
            false => Some(counted),
        }
    })
}
