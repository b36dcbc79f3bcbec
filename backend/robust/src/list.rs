//! The calling thread's list of robust futexes, and an entry of ours in it.
//!
//! The kernel reads the list only at the death of its thread, so plain stores in program order are
//! enough; fences keep the compiler from moving them. Nothing is read from an entry, since that lies
//! in memory that other processes write.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{compiler_fence, AtomicU32, AtomicUsize};

use super::Taker;
use heliostat_base::process;
use heliostat_base::sys::{check, raw, Sysno};

/// The kernel's `struct robust_list_head` (source: linux/futex.h): the first entry, the distance
/// from an entry to its word, and the entry that is about to come or go.
type Head = [AtomicUsize; 3];
const FIRST: usize = 0;
const OFFSET: usize = 1;
const PENDING: usize = 2;
const HEAD_BYTES: usize = std::mem::size_of::<Head>();
/// Distance of our own lists, as glibc's: the entry lies 32 bytes behind its word.
const OWN_OFFSET: isize = -32;

/// What is known of a thread; zeros until it is asked.
#[derive(Clone, Copy)]
struct Known {
    thread: u32,
    /// Address of the head that libc has registered.
    head: usize,
}

thread_local! {
    static KNOWN: Cell<Known> = const { Cell::new(Known { thread: 0, head: 0 }) };
    static OWN: Head = const { [const { AtomicUsize::new(0) }; 3] };
}

/// The child of a fork is another thread, with another list.
pub fn forget_thread() {
    KNOWN.with(|known| known.set(Known { thread: 0, head: 0 }));
}

/// This thread's number and its list. One of our own is asked for each time, since libc may
/// register another one later.
fn known() -> Option<(u32, &'static Head)> {
    let mut known = KNOWN.with(Cell::get);
    if known.thread == 0 {
        known = Known { thread: process::tid() as u32, head: registered() };
        KNOWN.with(|cell| cell.set(known));
    }
    let head = match known.head {
        0 => registered_or_own()?,
        head => head,
    };
    // SAFETY: the kernel's word for it: the head that was registered for this thread, which lives
    // as long as the thread does; a `&'static` of it never leaves the thread (`Listed` is not Send).
    Some((known.thread, unsafe { &*(head as *const Head) }))
}

/// Address of the list that the kernel has for this thread; 0 for none.
fn registered() -> usize {
    let (mut head, mut length) = (0usize, 0usize);
    let (head_at, length_at) = (&raw mut head as usize, &raw mut length as usize);
    // SAFETY: the kernel writes two words, both live; 0 means the calling thread.
    match check(unsafe { raw(Sysno::get_robust_list as usize, [0, head_at, length_at, 0, 0, 0]) }) {
        Ok(_) if length == HEAD_BYTES => head,
        _ => 0,
    }
}

#[cold]
fn registered_or_own() -> Option<usize> {
    let head = registered();
    if head != 0 {
        return Some(head);
    }
    OWN.with(|own| {
        let head = own.as_ptr() as usize;
        own[FIRST].store(head, Relaxed); // an empty list ends where it begins
        own[OFFSET].store(OWN_OFFSET as usize, Relaxed);
        own[PENDING].store(0, Relaxed);
        // SAFETY: the head lies in this thread's own memory and lives as long as the thread.
        let answer =
            check(unsafe { raw(Sysno::set_robust_list as usize, [head, HEAD_BYTES, 0, 0, 0, 0]) });
        answer.ok().map(|_| head)
    })
}

/// The entry of a word that this thread may take.
pub struct Entry {
    thread: u32,
    head: &'static Head,
    at: usize,
    /// What was about to come or go before: a signal handler may have interrupted libc there.
    before: usize,
    /// The list is this thread's: nothing of it may be sent to another.
    _own: PhantomData<*const ()>,
}

/// The entry of a word that it holds.
pub struct Listed {
    entry: Entry,
    /// What follows it in the list.
    next: usize,
}

impl Entry {
    /// Of `word`, within the `room` bytes from it on; `None` where that cannot be.
    pub fn behind(word: &AtomicU32, room: usize) -> Option<Self> {
        let (thread, head) = known()?;
        let distance = head[OFFSET].load(Relaxed).wrapping_neg();
        if distance < 4 || distance > room - 8 {
            return None;
        }
        let at = word.as_ptr() as usize + distance;
        Some(Self { thread, head, at, before: head[PENDING].load(Relaxed), _own: PhantomData })
    }

    /// The word has been taken.
    pub fn enter(self) -> Listed {
        let next = self.head[FIRST].load(Relaxed);
        // SAFETY: eight bytes within the room behind the word, which is mapped for writing; they are
        // nobody's but the holder's, and may be misaligned.
        unsafe { (self.at as *mut usize).write_unaligned(next) };
        compiler_fence(SeqCst);
        self.head[FIRST].store(self.at, Relaxed);
        self.withdraw();
        Listed { entry: self, next }
    }
}

impl Taker for Entry {
    fn thread(&self) -> u32 {
        self.thread
    }

    fn announce(&self) {
        self.head[PENDING].store(self.at, Relaxed);
        compiler_fence(SeqCst);
    }

    fn withdraw(&self) {
        compiler_fence(SeqCst);
        self.head[PENDING].store(self.before, Relaxed);
    }
}

impl Listed {
    /// The word is about to be given back.
    pub fn leave(&self) {
        self.entry.announce();
        self.entry.head[FIRST].store(self.next, Relaxed);
        compiler_fence(SeqCst);
    }

    /// It has been given back.
    pub fn withdraw(&self) {
        self.entry.withdraw();
    }
}
