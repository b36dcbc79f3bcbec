//! Which of the program's descriptors are ours: one word each, nothing behind a lock.
//!
//! A word of zero means the kernel's own, and is the one load that every other call pays. Open
//! files have words of their own kind, which only `file` reads: for all others such a descriptor is
//! the kernel's.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};

/// Descriptors above this are never ours; 4 bytes each, touched only when used.
pub const FDS_MAX: usize = 1 << 20;
const INDEX_BITS: u32 = 28;

/// Words from here on are open files'.
pub const FILES_FROM: u32 = 5 << INDEX_BITS;

/// Highest number ever known, so that walks end early.
static HIGHEST: AtomicU32 = AtomicU32::new(0);
/// Some descriptor has been known, other than as a file.
static IS_USED: AtomicBool = AtomicBool::new(false);
static WORDS: [AtomicU32; FDS_MAX] = [const { AtomicU32::new(0) }; FDS_MAX];

/// What a descriptor is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DescriptorKind {
    /// The kernel's, not looked at yet.
    Unknown,
    /// A connection with a place in `net::socket`'s table, direct or counted native.
    Socket(u32),
    /// An epoll set.
    Epoll(u32),
    /// A listening socket registered with the control plane.
    Listener(u32),
    /// A native descriptor that is in some epoll set: it must stay native.
    Polled,
    /// A TCP socket that was put into epoll sets before it is connected (`net::watch::early`).
    Early,
    /// One of ours, of which the program does not know (`net::delegated`).
    Hidden,
}

fn encode(kind: DescriptorKind) -> u32 {
    match kind {
        DescriptorKind::Unknown => 0,
        DescriptorKind::Socket(index) => 1 << INDEX_BITS | index,
        DescriptorKind::Epoll(index) => 2 << INDEX_BITS | index,
        DescriptorKind::Listener(index) => 3 << INDEX_BITS | index,
        DescriptorKind::Polled => 4 << INDEX_BITS,
        DescriptorKind::Early => 4 << INDEX_BITS | 1,
        DescriptorKind::Hidden => 4 << INDEX_BITS | 2,
    }
}

fn decode(word: u32) -> DescriptorKind {
    let index = word & ((1 << INDEX_BITS) - 1);
    match word >> INDEX_BITS {
        1 => DescriptorKind::Socket(index),
        2 => DescriptorKind::Epoll(index),
        3 => DescriptorKind::Listener(index),
        4 if index == 1 => DescriptorKind::Early,
        4 if index == 2 => DescriptorKind::Hidden,
        4 => DescriptorKind::Polled,
        _ => DescriptorKind::Unknown,
    }
}

/// What `fd` is.
#[inline(always)]
pub fn kind(fd: i32) -> DescriptorKind {
    match WORDS.get(fd as u32 as usize) {
        Some(word) => decode(word.load(Acquire)),
        None => DescriptorKind::Unknown,
    }
}

/// True when the stub has nothing to do with `fd`: the first and cheapest question of a call.
#[inline(always)]
pub fn is_unknown(fd: i32) -> bool {
    // Zero becomes the highest number, so that one comparison is enough.
    let is_no_other = |word: u32| word.wrapping_sub(1) >= FILES_FROM - 1;
    WORDS.get(fd as u32 as usize).is_none_or(|word| is_no_other(word.load(Acquire)))
}

/// False as long as no descriptor has been known, files aside: waits for readiness are then the
/// kernel's, whatever they name.
#[inline(always)]
pub fn is_used() -> bool {
    IS_USED.load(Relaxed)
}

/// The word of an open file; zero when `fd` is none.
#[inline(always)]
pub fn file(fd: i32) -> u32 {
    let word = WORDS.get(fd as u32 as usize).map_or(0, |word| word.load(Acquire));
    if word >= FILES_FROM {
        word
    } else {
        0
    }
}

/// Says what open file `fd` is; false when its number is beyond the table.
pub fn set_file(fd: i32, file: u32) -> bool {
    let Some(word) = WORDS.get(fd as u32 as usize) else { return false };
    if HIGHEST.load(Relaxed) < fd as u32 {
        HIGHEST.fetch_max(fd as u32, AcqRel);
    }
    word.store(file, Release);
    true
}

/// Changes the word of an open file from what it was seen to be; false when it is that no more.
pub fn change_file(fd: i32, seen: u32, file: u32) -> bool {
    let word = WORDS.get(fd as u32 as usize);
    word.is_some_and(|word| word.compare_exchange(seen, file, AcqRel, Relaxed).is_ok())
}

/// Forgets the open file `fd` and says what its word was, zero for none; as `take` for others.
pub fn take_file(fd: i32) -> u32 {
    let mut seen = file(fd);
    while seen != 0 && !change_file(fd, seen, 0) {
        seen = file(fd);
    }
    seen
}

/// Every open file among the descriptors from `first` to `last`, with its word.
pub fn walk_files(first: u32, last: u32) -> impl Iterator<Item = (i32, u32)> {
    let last = last.min(HIGHEST.load(Acquire)) as usize;
    (first as usize..=last).map(|fd| (fd as i32, file(fd as i32))).filter(|(_, word)| *word != 0)
}

/// Says what `fd` is from now on; false when its number is beyond the table.
pub fn set(fd: i32, kind: DescriptorKind) -> bool {
    match WORDS.get(fd as u32 as usize) {
        Some(word) => {
            HIGHEST.fetch_max(fd as u32, AcqRel);
            IS_USED.store(true, Release);
            word.store(encode(kind), Release);
            true
        }
        None => false,
    }
}

/// Forgets `fd` and says what it was; exactly one of several racing closers gets the answer.
pub fn take(fd: i32) -> DescriptorKind {
    match WORDS.get(fd as u32 as usize) {
        Some(word) if !is_unknown(fd) => decode(word.swap(0, AcqRel)),
        _ => DescriptorKind::Unknown,
    }
}

/// Every known descriptor from `first` to `last` (fork, exec and close_range walk them).
pub fn walk(first: u32, last: u32) -> impl Iterator<Item = (i32, DescriptorKind)> {
    let last = last.min(HIGHEST.load(Acquire)) as usize;
    (first as usize..=last).filter_map(|fd| match kind(fd as i32) {
        DescriptorKind::Unknown => None,
        known => Some((fd as i32, known)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_the_table_and_is_taken_once() {
        let indexed =
            [DescriptorKind::Socket(5), DescriptorKind::Epoll(0), DescriptorKind::Listener(77)];
        for kind_in in indexed.into_iter().chain([
            DescriptorKind::Polled,
            DescriptorKind::Early,
            DescriptorKind::Hidden,
            DescriptorKind::Unknown,
        ]) {
            assert!(set(1000, kind_in));
            assert_eq!(kind(1000), kind_in);
            assert_eq!(take(1000), kind_in);
            assert_eq!(kind(1000), DescriptorKind::Unknown);
        }
    }

    #[test]
    fn files_are_nobodys_else_and_are_taken_once() {
        assert!(set_file(1001, FILES_FROM | 9) && file(1001) == FILES_FROM | 9);
        assert!(is_unknown(1001) && kind(1001) == DescriptorKind::Unknown);
        assert!(walk_files(1000, 1002).eq([(1001, FILES_FROM | 9)]));
        assert!(!change_file(1001, FILES_FROM, FILES_FROM | 1));
        assert!(change_file(1001, FILES_FROM | 9, FILES_FROM | 1));
        assert_eq!((take_file(1001), take_file(1001), file(1001)), (FILES_FROM | 1, 0, 0));
        set(1001, DescriptorKind::Polled);
        assert_eq!((take_file(1001), take(1001)), (0, DescriptorKind::Polled));
    }

    #[test]
    fn numbers_outside_the_table_are_the_kernels() {
        assert_eq!(kind(-1), DescriptorKind::Unknown);
        assert!(!set(-1, DescriptorKind::Polled));
        assert!(is_unknown(i32::MAX));
    }
}
