//! The door to atomics: std's in production, loom's where orderings are explored.
//!
//! It stands here because its futex is a system call, and because every crate that has words to
//! share is above this one. Code behind it is built with `--cfg loom` by `make test-loom`, and runs
//! there over loom's atomics as it is. Under loom the futex becomes a mutex and a condition
//! variable, so that loom sees a lost wake-up as a deadlock. Which files may name
//! `std::sync::atomic` nonetheless is in `verify/lint/atomics.txt`.

pub use crate::spin::{pause, yield_now};
pub use imp::*;

/// `AtomicU64::from_ptr` of shared memory, which always holds std's atomics.
///
/// # Safety
/// As for `AtomicU64::from_ptr`: aligned, valid for `'a`, and accessed by us only atomically.
#[inline(always)]
pub unsafe fn from_ptr_u64<'a>(at: *mut u64) -> &'a std::sync::atomic::AtomicU64 {
    // SAFETY: the caller's promise is exactly what `from_ptr` asks for.
    unsafe { std::sync::atomic::AtomicU64::from_ptr(at) }
}

/// `AtomicU32::from_ptr` of shared memory.
///
/// # Safety
/// As for `from_ptr_u64`.
#[inline(always)]
pub unsafe fn from_ptr_u32<'a>(at: *mut u32) -> &'a std::sync::atomic::AtomicU32 {
    // SAFETY: the caller's promise is exactly what `from_ptr` asks for.
    unsafe { std::sync::atomic::AtomicU32::from_ptr(at) }
}

#[cfg(not(loom))]
mod imp {
    pub use std::sync::atomic::{
        fence, AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    };
    pub use std::sync::{Condvar, Mutex, MutexGuard};
    use std::time::Duration;

    use crate::futex;

    /// `std::cell::UnsafeCell` with loom's interface.
    #[derive(Debug, Default)]
    pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        /// A cell.
        pub const fn new(value: T) -> UnsafeCell<T> {
            UnsafeCell(std::cell::UnsafeCell::new(value))
        }

        /// Runs `f` on the value's address.
        #[inline(always)]
        pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }

        /// The value.
        pub fn into_inner(self) -> T {
            self.0.into_inner()
        }
    }

    /// A full fence: no access after it is seen before an access in front of it.
    ///
    /// A locked no-op on the stack is a full fence on x86-64 and, unlike `mfence`, does not also
    /// drain the core's load buffers; measured here it costs half.
    #[inline(always)]
    pub fn full_fence() {
        // SAFETY: adds zero to this function's own stack word; the default clobbers tell the
        // compiler that memory may have changed.
        unsafe { core::arch::asm!("lock or dword ptr [rsp], 0") };
    }

    /// A full fence right behind a locked instruction, which on x86-64 is one already: only the
    /// compiler has to be told. The C11 model, and so loom, wants it spelled out.
    #[inline(always)]
    pub fn fence_after_locked() {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    }

    /// A full fence for those that make [`heavy_fence`], and none for anybody else: no instruction.
    #[inline(always)]
    pub fn light_fence() {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    }

    /// A full fence here, and in each thread of every process that has registered for it, somewhere
    /// between this call's begin and its end (`membarrier`). False: the kernel did not make those.
    pub fn heavy_fence() -> bool {
        full_fence();
        crate::membarrier::fence_registered().is_ok()
    }

    /// Sleeps while the word holds `expected`. Errors of the kernel end the sleep: the caller
    /// rechecks its condition and its deadline anyway.
    pub fn futex_wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
        let _ = futex::wait(word, expected, timeout);
    }

    /// Wakes all sleepers of the word.
    #[inline]
    pub fn futex_wake_all(word: &AtomicU32) {
        futex::wake(word, u32::MAX);
    }

    /// Wakes one sleeper of the word.
    #[inline]
    pub fn futex_wake_one(word: &AtomicU32) {
        futex::wake(word, 1);
    }

    /// Wakes the sleepers of a word that may be gone by now; the address is only a key.
    pub fn futex_wake_key(word: *const AtomicU32) {
        futex::wake_key(word.cast(), 1);
    }

    /// A word of shared memory, as the facade's type.
    #[inline(always)]
    pub fn shared_u32(word: &std::sync::atomic::AtomicU32) -> &AtomicU32 {
        word
    }

    /// A word of shared memory, as the facade's type.
    #[inline(always)]
    pub fn shared_u64(word: &std::sync::atomic::AtomicU64) -> &AtomicU64 {
        word
    }

    /// Monotonic nanoseconds.
    pub fn now_ns() -> u64 {
        crate::clock::monotonic_ns()
    }
}

#[cfg(loom)]
#[allow(missing_docs)] // each is what its twin above is
mod imp {
    pub use loom::cell::UnsafeCell;
    pub use loom::sync::atomic::{
        fence, AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    };
    pub use loom::sync::{Condvar, Mutex, MutexGuard};
    use std::time::Duration;

    /// A value for models: two uses that nothing orders are reported as a data race.
    pub struct Watched<T>(UnsafeCell<T>);

    // SAFETY: loom runs one thread at a time and checks every access for an ordering.
    unsafe impl<T: Send> Send for Watched<T> {}
    // SAFETY: as above.
    unsafe impl<T: Send> Sync for Watched<T> {}

    impl<T: Copy> Watched<T> {
        pub fn new(value: T) -> Self {
            Self(UnsafeCell::new(value))
        }

        pub fn get(&self) -> T {
            // SAFETY: loom checks that nobody writes the value meanwhile.
            self.0.with(|value| unsafe { *value })
        }

        pub fn set(&self, value: T) {
            // SAFETY: loom checks that nobody else uses the value meanwhile.
            self.0.with_mut(|place| unsafe { *place = value });
        }
    }

    loom::lazy_static! {
        static ref QUEUE: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    pub fn full_fence() {
        fence(Ordering::SeqCst);
    }

    pub fn fence_after_locked() {
        fence(Ordering::SeqCst);
    }

    /// Nothing: a model says where a thread is while another one makes the heavy fence.
    pub fn light_fence() {}

    pub fn heavy_fence() -> bool {
        panic!("the kernel's fences are modelled by who uses them: loom has none")
    }

    pub fn futex_wait(word: &AtomicU32, expected: u32, _timeout: Option<Duration>) {
        // As in the kernel, comparing and going to sleep are one step for every waker.
        let guard = QUEUE.0.lock().unwrap();
        if word.load(Ordering::Relaxed) == expected {
            drop(QUEUE.1.wait(guard).unwrap());
        }
    }

    pub fn futex_wake_all(_word: &AtomicU32) {
        let _guard = QUEUE.0.lock().unwrap();
        QUEUE.1.notify_all();
    }

    /// One sleeper, of whatever word: for models that have one word to sleep on.
    pub fn futex_wake_one(_word: &AtomicU32) {
        let _guard = QUEUE.0.lock().unwrap();
        QUEUE.1.notify_one();
    }

    pub fn futex_wake_key(_word: *const AtomicU32) {
        let _guard = QUEUE.0.lock().unwrap();
        QUEUE.1.notify_all();
    }

    pub fn shared_u32(_word: &std::sync::atomic::AtomicU32) -> &AtomicU32 {
        panic!("mapped memory is not modelled: loom cannot see its atomics")
    }

    pub fn shared_u64(_word: &std::sync::atomic::AtomicU64) -> &AtomicU64 {
        panic!("mapped memory is not modelled: loom cannot see its atomics")
    }

    /// Time does not pass under loom: no deadline is ever over, and a spin phase is one turn.
    pub fn now_ns() -> u64 {
        0
    }
}
