//! A word of shared memory that tells that this process lives, and that the kernel itself changes
//! when it dies, however that happens.
//!
//! The kernel walks a dying thread's list of robust futexes and marks those that it owned
//! (FUTEX_OWNER_DIED). It does so before the thread gives up its descriptors, and so before any
//! file lease or lock of the process is dropped: who reads the word unchanged *after* having used
//! what such a lease protects has used it in time (source: robust_futex_ABI, exit.c: exit_mm comes
//! before exit_files).
//!
//! A thread of its own owns the word and sleeps for ever, since libc uses the lists of others.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::mpsc;

use crate::mapping::SharedMapping;
use crate::process;
use crate::sys::{check, raw, Errno, Sysno};

/// The kernel's `struct robust_list_head` and one entry (source: linux/futex.h).
#[repr(C)]
struct Robust {
    first: *const Robust,
    futex_offset: isize,
    pending: *const Robust,
    entry: *const Robust,
}

/// Keeps the u32 at `offset` of `page` at a value that is neither zero nor marked while this
/// process lives, and has the kernel change it when the process dies. Blocks until it stands.
///
/// The page stays mapped for ever. Costs a sleeping thread.
///
/// # Errors
/// The kernel's, or EAGAIN when no thread could be started. The word is then left at zero.
pub fn keep(page: &'static SharedMapping, offset: usize) -> Result<(), Errno> {
    let (told, answer) = mpsc::channel();
    let keeper = std::thread::Builder::new().name("life".into()).stack_size(64 << 10);
    let body = move || {
        let stands = own(page.atomic_u32(offset));
        let _ = told.send(stands);
        while stands.is_ok() {
            std::thread::park();
        }
    };
    keeper.spawn(body).map_err(|_| Errno(libc::EAGAIN))?;
    answer.recv().unwrap_or(Err(Errno(libc::EAGAIN)))
}

/// True when `word`, read twice, says that who owned it then lives still.
#[inline]
pub fn holds(word: &AtomicU32, remembered: u32) -> bool {
    word.load(Acquire) == remembered
}

/// True for a word that a living process keeps: it may be remembered.
pub fn is_kept(word: u32) -> bool {
    word != 0 && word & libc::FUTEX_OWNER_DIED == 0
}

/// Makes the calling thread the owner of `word`. It must not end, nor use a robust lock of libc.
fn own(word: &'static AtomicU32) -> Result<(), Errno> {
    // The head points to the entry, the entry back to the head: a ring of one.
    let robust: &mut Robust = Box::leak(Box::new(Robust {
        first: std::ptr::null(),
        futex_offset: 0,
        pending: std::ptr::null(),
        entry: std::ptr::null(),
    }));
    let head: *const Robust = &raw const *robust;
    let entry = (&raw const robust.entry) as usize;
    robust.first = entry as *const Robust;
    robust.entry = head;
    robust.futex_offset = (word.as_ptr() as usize).wrapping_sub(entry) as isize;
    let length = std::mem::size_of::<usize>() * 3;
    let tid = process::tid() as u32;
    // SAFETY: head and entry are leaked and so live as long as the thread; `word` lies in a page
    // that stays mapped. The kernel reads them at the thread's death only.
    check(unsafe { raw(Sysno::set_robust_list as usize, [head as usize, length, 0, 0, 0, 0]) })?;
    word.store(tid, Release);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic_ns;

    #[test]
    fn the_word_changes_when_its_process_is_killed_and_not_before() {
        let (_fd, page) = SharedMapping::create(c"alive", 4096).unwrap();
        let page: &'static SharedMapping = Box::leak(Box::new(page));
        let word = page.atomic_u32(64);
        // SAFETY: the child of a test with threads: it only makes system calls, one thread of its
        // own included, and never returns.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let _ = keep(page, 64);
            loop {
                std::thread::park();
            }
        }
        let deadline = monotonic_ns() + 60_000_000_000;
        while !is_kept(word.load(Acquire)) {
            assert!(monotonic_ns() < deadline, "the child never kept the word");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let remembered = word.load(Acquire);
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(holds(word, remembered));
        // SAFETY: our own child.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        assert!(!holds(word, remembered) && !is_kept(word.load(Acquire)));
    }
}
