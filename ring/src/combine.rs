//! Many threads, one piece of state: whoever comes first works for those who come meanwhile.
//!
//! A queue lock hands the lock, and the state's cache lines, from core to core for every single
//! operation; and with more threads than cores it hands them to threads that do not run. Here a
//! thread queues its *request*. The first in the queue serves the others' requests as well, with
//! the state in its own cache, finishes the batch once (publishing costs one store instead of
//! many), and leaves when the queue is empty or after [`BATCH_MAX`].
//!
//! ```text
//! last ---> node C          node: request, status, next        (on the waiting thread's stack)
//!             ^ next
//! node A -> node B          status: WAITING -> DONE                     served by a combiner
//!  (combiner)                       WAITING -> COMBINER                 serves from here on
//!                                   WAITING -> ASLEEP -> DONE|COMBINER  after a long wait
//! ```
//! A node may be left by its owner only once nobody will touch it again: the combiner reads `next`
//! (or removes the node as the last one) before it says DONE.

use crate::sync::{futex_wait, futex_wake_key, pause, yield_now};
use crate::sync::{AtomicPtr, AtomicU32, Ordering, UnsafeCell};

/// Requests that one thread serves before it hands the role on, so that no thread works for
/// others without bound (Solros uses the same number).
pub const BATCH_MAX: u32 = 128;

const WAITING: u32 = 0;
const DONE: u32 = 1;
const COMBINER: u32 = 2;
const ASLEEP: u32 = 3;

/// Turns of looking before a waiting thread sleeps; every eighth gives up its core. A combiner
/// that was preempted is back after a time slice, and a sleep and a wake-up cost 20 us.
#[cfg(not(loom))]
const TURNS_MAX: u32 = 2000;
#[cfg(loom)]
const TURNS_MAX: u32 = 1;

/// State that serves requests, one at a time.
pub trait Serve {
    /// What a thread asks for; the answer is written into it.
    type Request;
    /// Serves one request.
    fn serve(&mut self, request: &mut Self::Request);
    /// Ends a batch: publishes what its requests changed.
    fn finish(&mut self);
}

struct Node<R> {
    next: AtomicPtr<Node<R>>,
    status: AtomicU32,
    request: UnsafeCell<R>,
}

/// The queue of requests and the state behind it.
pub struct Combiner<S: Serve> {
    last: AtomicPtr<Node<S::Request>>,
    state: Padded<UnsafeCell<S>>,
}

/// Keeps the state off the line that every thread swaps on.
#[repr(align(128))]
struct Padded<T>(T);

// SAFETY: requests travel between threads (R: Send) and the state is used by one thread at a
// time, whichever it is (S: Send).
unsafe impl<S: Serve + Send> Sync for Combiner<S> where S::Request: Send {}
// SAFETY: as above; the queue is empty whenever nobody is inside `run`.
unsafe impl<S: Serve + Send> Send for Combiner<S> where S::Request: Send {}

impl<S: Serve> Combiner<S> {
    /// Puts a state behind an empty queue.
    pub fn new(state: S) -> Combiner<S> {
        let last = AtomicPtr::new(std::ptr::null_mut());
        Combiner { last, state: Padded(UnsafeCell::new(state)) }
    }

    /// Has the request served, by this thread or by another, and returns it with its answer.
    #[inline]
    pub fn run(&self, request: S::Request) -> S::Request {
        let node = Node {
            next: AtomicPtr::new(std::ptr::null_mut()),
            status: AtomicU32::new(WAITING),
            request: UnsafeCell::new(request),
        };
        let own = std::ptr::from_ref(&node).cast_mut();
        // [queue] Our request is visible to whoever finds the node; an empty queue brings us all
        // that the last combiner did to the state.
        let before = self.last.swap(own, Ordering::AcqRel);
        if before.is_null() || enqueue_behind(before, own) == COMBINER {
            self.combine(own);
        }
        node.request.into_inner()
    }

    /// Serves the queue from `at`, this thread's own node, on.
    fn combine(&self, mut at: *mut Node<S::Request>) {
        let mut served = 0;
        loop {
            // SAFETY: `at` is our own node or one whose owner waits until `tell` below. We are
            // the only combiner: the role came from an empty queue or was handed to us, so the
            // state and the requests of waiting nodes are ours.
            unsafe {
                self.state.0.with_mut(|state| {
                    (*at).request.with_mut(|request| (*state).serve(&mut *request))
                });
            }
            served += 1;
            let next = match self.successor(at) {
                Some(next) => next,
                None => return,
            };
            if served >= BATCH_MAX {
                self.finish();
                tell(at, DONE);
                // [role] The next combiner sees the state as we leave it.
                tell(next, COMBINER);
                return;
            }
            tell(at, DONE);
            at = next;
        }
    }

    /// The node behind `at`; or ends the batch, removes `at` as the last one, and tells its owner.
    #[inline]
    fn successor(&self, at: *mut Node<S::Request>) -> Option<*mut Node<S::Request>> {
        // SAFETY: the owner of `at` waits until it is told (below, or in `combine`).
        let link = unsafe { &(*at).next };
        // [link]
        let next = link.load(Ordering::Acquire);
        if !next.is_null() {
            return Some(next);
        }
        self.finish();
        let null = std::ptr::null_mut();
        // [queue] Whoever finds the queue empty sees the state as we leave it.
        if self.last.compare_exchange(at, null, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            tell(at, DONE);
            return None;
        }
        // Somebody has swapped itself in and is about to link; that is two instructions away,
        // unless it was preempted between them.
        let mut turns = 0;
        loop {
            let next = link.load(Ordering::Acquire); // [link]
            if !next.is_null() {
                return Some(next);
            }
            turn(&mut turns);
        }
    }

    #[inline]
    fn finish(&self) {
        // SAFETY: called by the combiner only, which owns the state.
        self.state.0.with_mut(|state| unsafe { (*state).finish() });
    }
}

/// Links our node behind `before` and waits; returns DONE or COMBINER.
#[cold]
fn enqueue_behind<R>(before: *mut Node<R>, own: *mut Node<R>) -> u32 {
    // SAFETY: `before` was last in the queue, and a combiner does not let its owner go before it
    // has read this link; `own` is the caller's live node.
    let status = unsafe {
        (*before).next.store(own, Ordering::Release); // [link]
        &(*own).status
    };
    let mut turns = 0;
    while turns < TURNS_MAX {
        let now = status.load(Ordering::Acquire); // [answer], [role]
        if now != WAITING {
            return now;
        }
        turn(&mut turns);
    }
    sleep(status)
}

fn sleep(status: &AtomicU32) -> u32 {
    let asleep = status.compare_exchange(WAITING, ASLEEP, Ordering::Acquire, Ordering::Acquire);
    if let Err(now) = asleep {
        return now;
    }
    loop {
        futex_wait(status, ASLEEP, None);
        let now = status.load(Ordering::Acquire); // [answer], [role]
        if now != ASLEEP {
            return now;
        }
    }
}

/// Gives a waiting thread its answer or the role. Its node may be gone when this returns.
#[inline]
fn tell<R>(node: *mut Node<R>, status: u32) {
    // SAFETY: the owner waits for this very store; afterwards only the address is used, as a key.
    let word = unsafe { &raw const (*node).status };
    // SAFETY: as above.
    let before = unsafe { (*word).swap(status, Ordering::AcqRel) }; // [answer], [role]
    if before == ASLEEP {
        futex_wake_key(word);
    }
}

/// One turn of looking; every eighth gives up the core.
#[inline]
fn turn(turns: &mut u32) {
    *turns += 1;
    if *turns % heliostat_base::spin::PAUSES_PER_YIELD == 0 {
        yield_now();
    } else {
        pause();
    }
}
