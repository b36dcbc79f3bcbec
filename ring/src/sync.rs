//! The only door to atomics: std's in production, loom's where orderings are explored.
//!
//! Nothing else in this crate names `std::sync::atomic`. Under `cfg(loom)` the futex becomes a
//! mutex and a condition variable, so that loom sees a lost wake-up as a deadlock.

pub(crate) use imp::*;

/// `AtomicU64::from_ptr` of shared memory, which always holds std's atomics.
///
/// # Safety
/// As for `AtomicU64::from_ptr`: aligned, valid for `'a`, and accessed by us only atomically.
#[inline(always)]
pub(crate) unsafe fn from_ptr_u64<'a>(at: *mut u64) -> &'a std::sync::atomic::AtomicU64 {
    // SAFETY: the caller's promise is exactly what `from_ptr` asks for.
    unsafe { std::sync::atomic::AtomicU64::from_ptr(at) }
}

/// `AtomicU32::from_ptr` of shared memory.
///
/// # Safety
/// As for `from_ptr_u64`.
#[inline(always)]
pub(crate) unsafe fn from_ptr_u32<'a>(at: *mut u32) -> &'a std::sync::atomic::AtomicU32 {
    // SAFETY: the caller's promise is exactly what `from_ptr` asks for.
    unsafe { std::sync::atomic::AtomicU32::from_ptr(at) }
}

#[cfg(not(loom))]
mod imp {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
    use std::time::Duration;

    use heliostat_base::futex;

    /// `std::cell::UnsafeCell` with loom's interface.
    #[derive(Debug, Default)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> UnsafeCell<T> {
            UnsafeCell(std::cell::UnsafeCell::new(value))
        }

        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }

        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner()
        }
    }

    /// A full fence: no access after it is seen before an access in front of it.
    ///
    /// A locked no-op on the stack is a full fence on x86-64 and, unlike `mfence`, does not also
    /// drain the core's load buffers; measured here it costs half.
    #[inline(always)]
    pub(crate) fn full_fence() {
        // SAFETY: adds zero to this function's own stack word; the default clobbers tell the
        // compiler that memory may have changed.
        unsafe { core::arch::asm!("lock or dword ptr [rsp], 0") };
    }

    /// A full fence right behind a locked instruction, which on x86-64 is one already: only the
    /// compiler has to be told. The C11 model, and so loom, wants it spelled out.
    #[inline(always)]
    pub(crate) fn fence_after_locked() {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    }

    /// Sleeps while the word holds `expected`. Errors of the kernel end the sleep: the caller
    /// rechecks its condition and its deadline anyway.
    pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
        let _ = futex::wait(word, expected, timeout);
    }

    pub(crate) fn futex_wake_all(word: &AtomicU32) {
        futex::wake(word, u32::MAX);
    }

    /// Wakes the sleepers of a word that may be gone by now; the address is only a key.
    pub(crate) fn futex_wake_key(word: *const AtomicU32) {
        futex::wake_key(word.cast(), 1);
    }

    /// A word of shared memory, as the facade's type.
    #[inline(always)]
    pub(crate) fn shared_u32(word: &std::sync::atomic::AtomicU32) -> &AtomicU32 {
        word
    }

    /// A word of shared memory, as the facade's type.
    #[inline(always)]
    pub(crate) fn shared_u64(word: &std::sync::atomic::AtomicU64) -> &AtomicU64 {
        word
    }

    /// One turn of a spin loop.
    #[inline(always)]
    pub(crate) fn pause() {
        heliostat_base::spin::pause();
    }

    pub(crate) fn yield_now() {
        heliostat_base::spin::yield_now();
    }

    pub(crate) fn now_ns() -> u64 {
        heliostat_base::clock::monotonic_ns()
    }
}

#[cfg(loom)]
mod imp {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::{
        fence, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering,
    };
    use loom::sync::{Condvar, Mutex};
    use std::time::Duration;

    loom::lazy_static! {
        static ref QUEUE: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    pub(crate) fn full_fence() {
        fence(Ordering::SeqCst);
    }

    pub(crate) fn fence_after_locked() {
        fence(Ordering::SeqCst);
    }

    pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, _timeout: Option<Duration>) {
        // As in the kernel, comparing and going to sleep are one step for every waker.
        let guard = QUEUE.0.lock().unwrap();
        if word.load(Ordering::Relaxed) == expected {
            drop(QUEUE.1.wait(guard).unwrap());
        }
    }

    pub(crate) fn futex_wake_all(_word: &AtomicU32) {
        let _guard = QUEUE.0.lock().unwrap();
        QUEUE.1.notify_all();
    }

    pub(crate) fn futex_wake_key(_word: *const AtomicU32) {
        let _guard = QUEUE.0.lock().unwrap();
        QUEUE.1.notify_all();
    }

    pub(crate) fn shared_u32(_word: &std::sync::atomic::AtomicU32) -> &AtomicU32 {
        panic!("mapped memory is not modelled: loom cannot see its atomics")
    }

    pub(crate) fn shared_u64(_word: &std::sync::atomic::AtomicU64) -> &AtomicU64 {
        panic!("mapped memory is not modelled: loom cannot see its atomics")
    }

    pub(crate) fn pause() {
        loom::thread::yield_now();
    }

    pub(crate) fn yield_now() {
        loom::thread::yield_now();
    }

    /// Time does not pass under loom: no deadline is ever over, and a spin phase is one turn.
    pub(crate) fn now_ns() -> u64 {
        0
    }
}
