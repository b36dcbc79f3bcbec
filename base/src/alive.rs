//! A word of shared memory that tells that this process lives, and that the kernel itself changes
//! when it dies, however that happens.
//!
//! The kernel walks a dying thread's list of robust futexes and marks those that it owned
//! (FUTEX_OWNER_DIED). It does so before the thread gives up its descriptors, and so before any
//! file lease or lock of the process is dropped: who reads the word unchanged *after* having used
//! what such a lease protects has used it in time (source: robust_futex_ABI, exit.c: exit_mm comes
//! before exit_files).
//!
//! A thread of its own owns the word and sleeps, since libc uses the lists of others.

use std::ops::Deref;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::mpsc::{channel, Sender};
use std::thread::JoinHandle;

use crate::mapping::SharedMapping;
use crate::process;
use crate::sys::{check, raw, Errno, Sysno};

/// The kernel's `struct robust_list_head` and one entry (source: linux/futex.h): the address of the
/// first entry, the distance from an entry to its word, the address of the entry that is about to
/// come or go; then the entry.
type Robust = [usize; 4];
const ENTRY: usize = 3;
const HEAD_BYTES: usize = 3 * std::mem::size_of::<usize>();

/// A word that tells that this process lives, until this value is dropped.
pub struct Life<P> {
    pid: i32,
    keeper: Option<(Sender<()>, JoinHandle<()>)>,
    /// The kernel reads it and writes to the page when the keeper ends.
    list: Option<(Box<Robust>, P)>,
}

impl<P> Life<P>
where
    P: Deref<Target = SharedMapping> + Clone + Send + 'static,
{
    /// Keeps the u32 at `offset` of `page` at a value that is neither zero nor marked, and has the
    /// kernel change it when the process dies. Blocks until it stands. Costs a sleeping thread.
    ///
    /// # Errors
    /// The kernel's, or EAGAIN when no thread could be started. The word is then left at zero.
    pub fn begin(page: P, offset: usize) -> Result<Self, Errno> {
        let store = move |page: &SharedMapping, value| {
            page.atomic_u32(offset).store(value, Release);
            true
        };
        let begun = Life::begin_unless_taken(page, offset, store)?;
        begun.ok_or(Errno(libc::EAGAIN))
    }

    /// The same for a word that others may want too: `take` gives it a value, in one step with the
    /// look whether it is still free, or answers false; then there is none.
    ///
    /// # Errors
    /// As [`Life::begin`].
    pub fn begin_unless_taken(
        page: P,
        offset: usize,
        take: impl FnOnce(&SharedMapping, u32) -> bool + Send + 'static,
    ) -> Result<Option<Self>, Errno> {
        let mut list: Box<Robust> = Box::new([0; 4]);
        let head = (&raw mut *list) as usize;
        let entry = head + ENTRY * std::mem::size_of::<usize>();
        // The head points to the entry, the entry back to the head: a ring of one.
        let word = page.atomic_u32(offset).as_ptr() as usize;
        *list = [entry, word.wrapping_sub(entry), 0, head];
        let ((told, answer), (end, ended)) = (channel(), channel::<()>());
        let its = page.clone();
        let body = move || {
            let stands = own(head, |value| take(&its, value));
            let _ = told.send(stands);
            if stands == Ok(true) {
                // Nothing is ever sent: this ends with the other end.
                let _ = ended.recv();
            }
        };
        let keeper = std::thread::Builder::new().name("life".into()).stack_size(64 << 10);
        let thread = keeper.spawn(body).map_err(|_| Errno(libc::EAGAIN))?;
        let life =
            Self { pid: process::pid(), keeper: Some((end, thread)), list: Some((list, page)) };
        let is_own = answer.recv().unwrap_or(Err(Errno(libc::EAGAIN)))?;
        Ok(is_own.then_some(life))
    }
}

impl<P> Drop for Life<P> {
    /// Ends the keeper, and with it what the word says. In the child of a fork there is no keeper:
    /// the word is the parent's.
    fn drop(&mut self) {
        let (keeper, list) = (self.keeper.take(), self.list.take());
        if self.pid != process::pid() {
            std::mem::forget((keeper, list));
        } else if let Some((end, thread)) = keeper {
            drop(end);
            // The kernel has walked the list when the thread can be joined (kernel/fork.c:
            // futex_exit_release comes before clear_child_tid).
            let _ = thread.join();
        }
    }
}

/// Keeps the word as [`Life::begin`] does, for as long as this process lives. The page stays mapped.
///
/// # Errors
/// As [`Life::begin`].
pub fn keep(page: &'static SharedMapping, offset: usize) -> Result<(), Errno> {
    Life::begin(page, offset).map(std::mem::forget)
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

/// Makes the calling thread the owner of the word that the list at an address names, if `take` gives
/// it this thread's number. The thread must use no robust lock of libc.
fn own(list: usize, take: impl FnOnce(u32) -> bool) -> Result<bool, Errno> {
    // SAFETY: head and entry live, and the page of the word stays mapped, until the thread has been
    // joined (`Life`). The kernel reads them at the thread's death only.
    check(unsafe { raw(Sysno::set_robust_list as usize, [list, HEAD_BYTES, 0, 0, 0, 0]) })?;
    // The list comes first: who dies between the two owns nothing, and the kernel lets a word be that
    // has another thread's number.
    let is_own = take(process::tid() as u32);
    if !is_own {
        // Threads of other PID namespaces may have this one's number.
        // SAFETY: no list is what a thread begins with; nothing is read.
        check(unsafe { raw(Sysno::set_robust_list as usize, [0, HEAD_BYTES, 0, 0, 0, 0]) })?;
    }
    Ok(is_own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic_ns;

    #[test]
    fn a_life_that_is_dropped_leaves_its_word_marked_and_another_one_stands() {
        let (_fd, page) = SharedMapping::create(c"alive", 4096).unwrap();
        let page = std::sync::Arc::new(page);
        let lives = [64, 128].map(|at| Life::begin(page.clone(), at).unwrap());
        let word = |at| page.atomic_u32(at).load(Acquire);
        assert!(is_kept(word(64)) && is_kept(word(128)));
        let [first, second] = lives;
        drop(first);
        assert!(!is_kept(word(64)) && is_kept(word(128)));
        drop(second);
        assert!(!is_kept(word(128)));
        assert_eq!(std::sync::Arc::strong_count(&page), 1, "nobody has the page any more");
    }

    #[test]
    fn a_word_that_is_another_ones_stays_so_when_who_has_not_got_it_ends() {
        let (_fd, page) = SharedMapping::create(c"alive", 4096).unwrap();
        let page = std::sync::Arc::new(page);
        let take_free = |page: &SharedMapping, value| {
            page.atomic_u32(64).compare_exchange(0, value, Release, Acquire).is_ok()
        };
        let first = Life::begin_unless_taken(page.clone(), 64, take_free).unwrap();
        let word = page.atomic_u32(64).load(Acquire);
        assert!(first.is_some() && is_kept(word));
        assert!(Life::begin_unless_taken(page.clone(), 64, take_free).unwrap().is_none());
        assert_eq!(page.atomic_u32(64).load(Acquire), word);
        // The kernel marks what has the number of a thread that ends, if that was not taken back.
        let take_none = |page: &SharedMapping, value| {
            page.atomic_u32(64).store(value, Release);
            false
        };
        assert!(Life::begin_unless_taken(page.clone(), 64, take_none).unwrap().is_none());
        assert!(is_kept(page.atomic_u32(64).load(Acquire)));
    }

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
