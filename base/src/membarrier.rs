//! Fences in the threads of other processes, which the kernel makes: membarrier(2).
//!
//! A thread that does something often and one that does something seldom need a full fence each, so
//! that one of both sees the other. By this the seldom one makes both: the often one tells only its
//! compiler (`sync::light_fence`), and `sync::heavy_fence` has every running thread of each process
//! that has registered pass a full fence between the call's begin and its end. A thread that does not
//! run passes one when it is switched.

use crate::sys::{check, raw, Errno, Sysno};

/// Sources: linux/membarrier.h, Linux 4.16.
const GLOBAL_EXPEDITED: usize = 1 << 1;
const REGISTER_GLOBAL_EXPEDITED: usize = 1 << 2;

/// Has the threads of this process, those too that begin later, pass a fence whenever anybody calls
/// [`fence_registered`]. It ends with exec. To register again costs a system call.
///
/// # Errors
/// EINVAL or ENOSYS from a kernel that has no such fences; what a filter answers.
pub fn register() -> Result<(), Errno> {
    command(REGISTER_GLOBAL_EXPEDITED)
}

/// Has all threads of all processes that have registered pass a full fence; so does the caller.
///
/// # Errors
/// As [`register`]; nobody may have passed one then.
pub fn fence_registered() -> Result<(), Errno> {
    command(GLOBAL_EXPEDITED)
}

fn command(number: usize) -> Result<(), Errno> {
    // SAFETY: membarrier takes a command, flags and a processor's number, and no pointer.
    check(unsafe { raw(Sysno::membarrier as usize, [number, 0, 0, 0, 0, 0]) }).map(drop)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::Ordering::Relaxed;
    use crate::sync::{heavy_fence, light_fence, AtomicU32};

    #[test]
    fn one_of_two_sees_the_other_if_one_of_them_makes_both_fences() {
        if register().is_err() {
            return println!("skipped: membarrier(2) is refused here");
        }
        const ROUNDS: u32 = 200;
        let (often, seldom) = (AtomicU32::new(0), AtomicU32::new(0));
        let (seen, done) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    often.store(round, Relaxed);
                    light_fence();
                    seen.store(seldom.load(Relaxed), Relaxed);
                    done.store(round, crate::sync::Ordering::Release);
                    while seldom.load(Relaxed) < round {
                        std::thread::yield_now();
                    }
                }
            });
            for round in 1..=ROUNDS {
                seldom.store(round, Relaxed);
                assert!(heavy_fence());
                let was_seen = often.load(Relaxed) >= round;
                while done.load(crate::sync::Ordering::Acquire) < round {
                    std::thread::yield_now();
                }
                // The next round may have begun; what it has seen is newer.
                assert!(was_seen || seen.load(Relaxed) >= round, "neither saw the other");
            }
        });
    }
}
