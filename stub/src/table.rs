//! Which of the program's descriptors are ours: one word each, nothing behind a lock.
//!
//! A word of zero means the kernel's own, and is the one load that every other call pays.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// Descriptors above this are never ours; 4 bytes each, touched only when used.
pub const FDS_MAX: usize = 1 << 20;
const INDEX_BITS: u32 = 28;

/// Highest number ever known, so that walks end early.
static HIGHEST: AtomicU32 = AtomicU32::new(0);
static WORDS: [AtomicU32; FDS_MAX] = [const { AtomicU32::new(0) }; FDS_MAX];

/// What a descriptor is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The kernel's, not looked at yet.
    Unknown,
    /// A connection with a place in `net::socket`'s table, direct or counted native.
    Socket(u32),
    /// An epoll set that holds at least one direct socket.
    Epoll(u32),
    /// A listening socket registered with the control plane.
    Listener(u32),
    /// A native descriptor that is in some epoll set: it must stay native.
    Polled,
}

fn encode(kind: Kind) -> u32 {
    match kind {
        Kind::Unknown => 0,
        Kind::Socket(index) => 1 << INDEX_BITS | index,
        Kind::Epoll(index) => 2 << INDEX_BITS | index,
        Kind::Listener(index) => 3 << INDEX_BITS | index,
        Kind::Polled => 4 << INDEX_BITS,
    }
}

fn decode(word: u32) -> Kind {
    let index = word & ((1 << INDEX_BITS) - 1);
    match word >> INDEX_BITS {
        1 => Kind::Socket(index),
        2 => Kind::Epoll(index),
        3 => Kind::Listener(index),
        4 => Kind::Polled,
        _ => Kind::Unknown,
    }
}

/// What `fd` is.
#[inline(always)]
pub fn kind(fd: i32) -> Kind {
    match WORDS.get(fd as u32 as usize) {
        Some(word) => decode(word.load(Acquire)),
        None => Kind::Unknown,
    }
}

/// True when the stub has nothing to do with `fd`: the first and cheapest question of a call.
#[inline(always)]
pub fn is_unknown(fd: i32) -> bool {
    WORDS.get(fd as u32 as usize).is_none_or(|word| word.load(Acquire) == 0)
}

/// Says what `fd` is from now on; false when its number is beyond the table.
pub fn set(fd: i32, kind: Kind) -> bool {
    match WORDS.get(fd as u32 as usize) {
        Some(word) => {
            HIGHEST.fetch_max(fd as u32, AcqRel);
            word.store(encode(kind), Release);
            true
        }
        None => false,
    }
}

/// Forgets `fd` and says what it was; exactly one of several racing closers gets the answer.
pub fn take(fd: i32) -> Kind {
    match WORDS.get(fd as u32 as usize) {
        Some(word) if word.load(Acquire) != 0 => decode(word.swap(0, AcqRel)),
        _ => Kind::Unknown,
    }
}

/// Every known descriptor from `first` to `last` (fork, exec and close_range walk them).
pub fn walk(first: u32, last: u32) -> impl Iterator<Item = (i32, Kind)> {
    let last = last.min(HIGHEST.load(Acquire)) as usize;
    (first as usize..=last).filter_map(|fd| match kind(fd as i32) {
        Kind::Unknown => None,
        known => Some((fd as i32, known)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_the_table_and_is_taken_once() {
        let kinds =
            [Kind::Socket(5), Kind::Epoll(0), Kind::Listener(77), Kind::Polled, Kind::Unknown];
        for kind_in in kinds {
            assert!(set(1000, kind_in));
            assert_eq!(kind(1000), kind_in);
            assert_eq!(take(1000), kind_in);
            assert_eq!(kind(1000), Kind::Unknown);
        }
    }

    #[test]
    fn numbers_outside_the_table_are_the_kernels() {
        assert_eq!(kind(-1), Kind::Unknown);
        assert!(!set(-1, Kind::Polled));
        assert!(is_unknown(i32::MAX));
    }
}
