//! A heap for processes that are forked without libc's knowledge.
//!
//! libc puts its heap's locks in order in fork(2)'s child. A process that was copied by clone(2) alone
//! has them as they were, and one that another thread held then is never given back: the first
//! allocation would wait without end. Such a process leaves that heap, by [`leave`], for a small one
//! here, and gives back nothing of what it has from before.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;

use crate::sync::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use crate::sys::{check, raw, Sysno};

/// Bytes of the small heap, of which only what is used costs memory.
const HEAP_BYTES: usize = 16 << 20;
/// Blocks have sizes of a power of two, from 16 bytes on.
const CLASS_MIN: usize = 4;
const CLASSES: usize = HEAP_BYTES.ilog2() as usize;

/// libc's heap, until the process leaves it: the global allocator of a library that forks such processes.
///
/// One that has left has one thread; an allocation is then null where the small heap is full.
pub struct Heap;

static HAS_LEFT: AtomicBool = AtomicBool::new(false);
/// Where the small heap begins, and how much of it has been handed out once.
static START: AtomicUsize = AtomicUsize::new(0);
static USED: AtomicUsize = AtomicUsize::new(0);
/// Free blocks of each size: the first one's address, which begins with the next one's.
static FREE: [AtomicUsize; CLASSES] = [const { AtomicUsize::new(0) }; CLASSES];

/// Leaves libc's heap, in a process with one thread that was just forked.
pub fn leave() {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    // SAFETY: a fresh mapping of no file, at a place that the kernel chooses.
    let mapped =
        unsafe { raw(Sysno::mmap as usize, [0, HEAP_BYTES, protection, flags, usize::MAX, 0]) };
    // Without memory each allocation is null: that ends the process, but does not hang it.
    START.store(check(mapped).unwrap_or(0), Relaxed);
    USED.store(if START.load(Relaxed) == 0 { HEAP_BYTES } else { 0 }, Relaxed);
    FREE.iter().for_each(|first| first.store(0, Relaxed));
    HAS_LEFT.store(true, Relaxed);
}

/// The logarithm of the size of the block that such memory gets.
fn class(layout: Layout) -> usize {
    let bytes = layout.size().max(layout.align()).max(1 << CLASS_MIN);
    bytes.checked_next_power_of_two().map_or(usize::BITS as usize, |bytes| bytes.ilog2() as usize)
}

fn take(layout: Layout) -> *mut u8 {
    let class = class(layout);
    let Some(free) = FREE.get(class) else { return null_mut() };
    let first = free.load(Relaxed);
    if first != 0 {
        // SAFETY: a free block of this heap is ours alone, aligned to its size, and begins with the
        // next one's address.
        free.store(unsafe { *(first as *const usize) }, Relaxed);
        return first as *mut u8;
    }
    // The heap begins at a page only: blocks of more are as far from it as they are aligned.
    let start = START.load(Relaxed);
    let at = (start + USED.load(Relaxed)).next_multiple_of(1 << class);
    let end = at - start + (1 << class);
    if end > HEAP_BYTES {
        return null_mut();
    }
    USED.store(end, Relaxed);
    at as *mut u8
}

/// Puts a block among the free ones; one from before the process left stays as it is.
///
/// # Safety
/// `pointer` is memory of this layout that nobody uses any more.
unsafe fn put(pointer: *mut u8, layout: Layout) {
    let start = START.load(Relaxed);
    if (start..start + HEAP_BYTES).contains(&(pointer as usize)) {
        let free = &FREE[class(layout)];
        // SAFETY: a block of this heap has room for an address, is aligned to its size, and is free by
        // the caller's promise.
        unsafe { *pointer.cast::<usize>() = free.load(Relaxed) };
        free.store(pointer as usize, Relaxed);
    }
}

// SAFETY: memory is libc's, or a block that is on no list and was handed out once: large enough and
// aligned, because its size is a power of two that both fit in. It never unwinds. What libc's heap gave
// goes back to it as long as the process has not left, and nowhere afterwards.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match HAS_LEFT.load(Relaxed) {
            // SAFETY: the caller's promises are those that libc's heap asks for.
            false => unsafe { System.alloc(layout) },
            true => take(layout),
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !HAS_LEFT.load(Relaxed) {
            // SAFETY: the caller's promises are those that libc's heap asks for.
            return unsafe { System.alloc_zeroed(layout) };
        }
        let memory = take(layout);
        if !memory.is_null() {
            // SAFETY: a block of at least so many bytes that is ours alone.
            unsafe { memory.write_bytes(0, layout.size()) };
        }
        memory
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        match HAS_LEFT.load(Relaxed) {
            // SAFETY: the caller's promises, about memory that libc's heap gave.
            false => unsafe { System.dealloc(pointer, layout) },
            // SAFETY: the caller's promises.
            true => unsafe { put(pointer, layout) },
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if !HAS_LEFT.load(Relaxed) {
            // SAFETY: the caller's promises are those that libc's heap asks for.
            return unsafe { System.realloc(pointer, layout, bytes) };
        }
        // SAFETY: the caller promises that so many bytes, rounded up to the alignment, are a layout.
        let memory = take(unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) });
        if !memory.is_null() {
            // SAFETY: the old memory has as many bytes as its layout says, the new one at least as many
            // as are asked for, and they are two: the new one was free.
            unsafe { memory.copy_from_nonoverlapping(pointer, layout.size().min(bytes)) };
            // SAFETY: the caller has given the old memory away.
            unsafe { put(pointer, layout) };
        }
        memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{exit_now, fork_detached, Detached};

    #[global_allocator]
    static HEAP: Heap = Heap;

    /// What the detached process does with its heap, in which `old` is from before.
    fn use_heap(mut old: Vec<u8>) -> bool {
        let mut is_right = true;
        old.extend(std::iter::repeat_n(7, 100_000));
        is_right &= old[..3] == [1, 2, 3] && old[100_002] == 7;
        // More than the heap has, piece by piece; each is given back.
        for round in 0..1_000 {
            let piece = vec![0u8; 64 * 1024 - round];
            is_right &= piece.iter().all(|byte| *byte == 0);
            let text = format!("{round}");
            is_right &= text.parse() == Ok(round);
        }
        is_right && Vec::<u8>::new().try_reserve_exact(HEAP_BYTES + 1).is_err()
    }

    /// One as the child's answer, if all was right there; none where it does not answer.
    fn told_by_child() -> Option<u8> {
        let (near, far) = crate::call::local_pair().unwrap();
        let old = vec![1, 2, 3];
        if fork_detached() == Ok(Detached::Child) {
            let _ = crate::packet::send(far, &[u8::from(use_heap(old))], &[]);
            exit_now(0);
        }
        let _ = crate::call::close(far);
        let mut told = [0];
        crate::packet::set_timeouts(near, 5_000).unwrap();
        let answer = crate::packet::receive(near, &mut told);
        let _ = crate::call::close(near);
        answer.is_ok_and(|(count, _)| count == 1).then_some(told[0])
    }

    #[test]
    fn a_detached_process_allocates_while_its_parents_threads_held_the_heap() {
        // SAFETY: it takes no pointer. All threads share one arena.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
        let is_over = AtomicBool::new(false);
        let told = std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_over.load(Relaxed) {
                        // Too large for a cache of the thread's: each takes the lock of its arena.
                        std::hint::black_box(vec![1u8; 40_000]);
                    }
                });
            }
            let told = (0..50).map(|_| told_by_child()).collect::<Vec<_>>();
            is_over.store(true, Relaxed);
            told
        });
        assert_eq!(told, vec![Some(1); 50]);
    }
}
