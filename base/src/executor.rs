//! A thread that only the kernel knows: made by clone(2) inside a program, beside libc's own.
//!
//! It shares all with the program's threads (memory, descriptors, folder, umask, signal actions), so
//! that a system call means the same in it. libc has no record of it: it has no thread-local memory of
//! libc's, runs no destructor, is not counted by `pthread_exit`, and a set*id call of libc does not reach
//! it. All signals are blocked in it; it ends with the process, or when its function returns.
//!
//! ```text
//! one mapping, which children of a fork do not have
//! | no access | stack, downwards        | zeros | thread control block |
//!                                               ^ fs: points to itself, so that code which asks for
//!                                                 "this thread" finds something, and no other thread's
//! ```

use std::arch::asm;
use std::ptr::NonNull;

use crate::sys::{check, raw, Errno, Sysno};
use crate::unforked::Unforked;

const PAGE_BYTES: usize = 4096;
/// Room for the calls' frames, debug builds included; nothing recursive runs there.
const STACK_BYTES: usize = 16 * PAGE_BYTES;
/// Thread-local memory lies below the thread pointer; what reads it by mistake reads zeros.
const LOCAL_BYTES: usize = PAGE_BYTES;
const BYTES: usize = PAGE_BYTES + STACK_BYTES + LOCAL_BYTES + PAGE_BYTES;
/// Where glibc keeps the block's own address (source: tcbhead_t, nptl/tls.h: `tcb` and `self`).
const SELF_AT: [usize; 2] = [0, 0x10];

/// What a thread does: it gets the number that [`start`] got.
pub type Work = extern "C" fn(usize);

/// Starts a thread. The half word `place` of `words` holds its number while it lives; the kernel sets it
/// to zero, and wakes its sleepers, when the thread has ended. The mapping stays until then, and after:
/// nobody can tell when a thread has left its own stack, and there are few.
///
/// # Safety
/// `work` and what it calls use no thread-local memory, do not allocate, do not panic, and make no call
/// of libc's but by raw instructions.
///
/// # Errors
/// The kernel's: EAGAIN and ENOMEM for a limit, EPERM behind a filter.
pub unsafe fn start(
    work: Work,
    argument: usize,
    words: &'static Unforked,
    place: usize,
) -> Result<i32, Errno> {
    let memory = map()?;
    let thread_pointer = prepare(memory);
    let stack = thread_pointer - LOCAL_BYTES;
    let tid_at = words.half_at(place) as usize;
    let before = crate::call::signal_mask(libc::SIG_BLOCK, Some(u64::MAX));
    // SAFETY: the stack is fresh memory of this thread's own; the caller vouches for `work`.
    let answer = unsafe { clone_thread(stack, tid_at, thread_pointer, work, argument) };
    crate::call::signal_mask(libc::SIG_SETMASK, Some(before));
    let made = check(answer);
    if made.is_err() {
        let args = [memory.as_ptr() as usize, BYTES, 0, 0, 0, 0];
        // SAFETY: mapped above, and no thread has it.
        let _ = unsafe { raw(Sysno::munmap as usize, args) };
    }
    made.map(|tid| tid as i32)
}

/// The memory of one thread, with a page in front that nobody may touch.
fn map() -> Result<NonNull<u8>, Errno> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    let args = [0, BYTES, protection, flags, usize::MAX, 0];
    // SAFETY: without MAP_FIXED the kernel maps only where nothing is mapped.
    let at = check(unsafe { raw(Sysno::mmap as usize, args) })?;
    let args = [at, BYTES, libc::MADV_DONTFORK as usize, 0, 0, 0];
    // SAFETY: this function's own mapping; a kernel that refuses leaves a copy in children.
    let _ = unsafe { raw(Sysno::madvise as usize, args) };
    // SAFETY: the first page of that mapping, which nobody has used.
    let _ = unsafe { raw(Sysno::mprotect as usize, [at, PAGE_BYTES, 0, 0, 0, 0]) };
    NonNull::new(at as *mut u8).ok_or(Errno(libc::ENOMEM))
}

/// Writes the control block and returns its address, the thread pointer.
fn prepare(memory: NonNull<u8>) -> usize {
    let block = memory.as_ptr() as usize + PAGE_BYTES + STACK_BYTES + LOCAL_BYTES;
    for at in SELF_AT {
        // SAFETY: in the mapping's last page, which is this thread's alone.
        unsafe { ((block + at) as *mut usize).write(block) };
    }
    block
}

/// All that glibc's own threads share, so that a call means the same here.
const SHARED: i32 = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_SETTLS
    | libc::CLONE_PARENT_SETTID
    | libc::CLONE_CHILD_CLEARTID;

/// # Safety
/// `stack` is the end of fresh memory, 16-byte aligned; the other addresses are live; `work` as
/// [`start`] has it.
unsafe fn clone_thread(
    stack: usize,
    tid_at: usize,
    thread_pointer: usize,
    work: Work,
    argument: usize,
) -> isize {
    let top = (stack - 16) as *mut usize;
    // SAFETY: two words of the fresh stack, which the new thread takes first.
    unsafe {
        top.write(argument);
        top.add(1).write(work as usize);
    }
    let answer: isize;
    // SAFETY: the parent returns as from any system call. The child has rax zero and its own stack,
    // never returns into this function, and ends itself.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "pop rdi",
            "pop rax",
            "call rax",
            "mov eax, {exit}",
            "xor edi, edi",
            "syscall",
            "ud2",
            "2:",
            exit = const Sysno::exit as i32,
            inlateout("rax") Sysno::clone as isize => answer,
            in("rdi") SHARED, in("rsi") top, in("rdx") tid_at, in("r10") tid_at,
            in("r8") thread_pointer,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    answer
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::futex;
    use crate::sync::AtomicU32;
    use crate::sync::Ordering::{Acquire, Relaxed, Release};

    static RESULT: AtomicU32 = AtomicU32::new(0);

    extern "C" fn tell_number(argument: usize) {
        // SAFETY: gettid takes nothing.
        let tid = unsafe { raw(Sysno::gettid as usize, [0; 6]) } as u32;
        RESULT.store(tid + argument as u32, Release);
    }

    #[test]
    fn a_thread_of_the_kernels_runs_with_its_number_and_is_seen_to_end() {
        let words: &'static Unforked = Box::leak(Box::new(Unforked::new().expect("Linux 4.14")));
        // SAFETY: the function makes one raw call and stores a word.
        let tid = unsafe { start(tell_number, 1_000_000, words, 5) }.expect("one thread more");
        let alive = words.half(5);
        loop {
            match alive.load(Acquire) {
                0 => break,
                number => _ = futex::wait(alive, number, Some(Duration::from_millis(50))),
            }
        }
        assert_eq!(RESULT.load(Acquire), 1_000_000 + tid as u32);
        assert!(!crate::call::thread_exists(tid) || words.half(5).load(Relaxed) == 0);
        assert_ne!(tid, crate::process::tid());
    }
}
