//! Executors: threads on kernel cores that make the calls which the program's threads ask for.
//!
//! ```text
//! request queue   lines with something asked, swept in one go
//! wait queue      calls that would wait, tried again for some 20 us, then given back to their thread
//! ```
//! Nothing here allocates, locks, panics or uses thread-local memory: an executor has none of libc's
//! (`heliostat_base::executor`). It sleeps when nothing came for a while, and ends when it is told to.

use std::time::Duration;

use heliostat_abi::code::Unoffloaded;
use heliostat_base::affinity::{self, CpuSet, CPUS_MAX};
use heliostat_base::clock::cycles;
use heliostat_base::spin::Spin;
use heliostat_base::sync::AtomicBool;
use heliostat_base::sync::Ordering::{Acquire, Relaxed, Release};
use heliostat_ring::request::{Answer, Asked, Requests, Stamp, LINES_MAX};

use super::{Made, Program};

/// Orders to an executor, in its queue's order word. Zero in a child of a fork: it has none yet.
const NONE: u32 = 0;
const STARTING: u32 = 1;
const RUNNING: u32 = 2;
const FAILED: u32 = 3;
const STOP: u32 = 4;

/// How long one looks on after the last call, some 50 us: as long as waking it would take.
const LOOK_CYCLES: u64 = 125_000;
/// How long a call that would wait is kept, some 20 us.
const WAIT_CYCLES: u64 = 50_000;
/// Calls kept at once; more are given back at once.
const WAITING_MAX: usize = 64;
/// How long an end is waited for: an executor may be in a call that waits for a disk.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// Moments are noted (`stages`).
pub static IS_STAMPED: AtomicBool = AtomicBool::new(false);

/// Makes sure that an executor runs. One that another thread starts just now is waited for, so many
/// cycles at most.
///
/// # Errors
/// Why there is none: it could not be made, or has been ended, or is still being started.
#[inline]
pub fn ensure(program: &Program, executor: usize, patience: u64) -> Result<(), Unoffloaded> {
    match program.requests.order(executor).load(Acquire) {
        RUNNING => Ok(()),
        NONE | STARTING => start(program, executor, patience),
        _ => Err(Unoffloaded::Ended),
    }
}

#[cold]
fn start(program: &Program, executor: usize, patience: u64) -> Result<(), Unoffloaded> {
    let order = program.requests.order(executor);
    if order.compare_exchange(NONE, STARTING, Acquire, Relaxed).is_ok() {
        let next = if (program.start)(executor) { RUNNING } else { FAILED };
        // Told to stop meanwhile, it stays so.
        let _ = order.compare_exchange(STARTING, next, Release, Relaxed);
    }
    // In vain for a handler that has interrupted the very start; then its call is late.
    let (began, mut spin) = (cycles(), Spin::new());
    while order.load(Relaxed) == STARTING && cycles().saturating_sub(began) < patience {
        spin.turn();
    }
    match order.load(Acquire) {
        RUNNING => Ok(()),
        STARTING => Err(Unoffloaded::Late),
        _ => Err(Unoffloaded::Ended),
    }
}

/// Whether an executor could not be made, or has been ended.
pub fn is_ended(program: &Program, executor: usize) -> bool {
    matches!(program.requests.order(executor).load(Relaxed), FAILED | STOP)
}

/// Ends all executors of this process, and waits until they have ended, for a while.
pub fn end(program: &Program) {
    let executors = 0..program.cores.len();
    for executor in executors.clone() {
        program.requests.order(executor).store(STOP, Release);
        program.requests.wake(executor);
    }
    let began = heliostat_base::clock::monotonic_ns();
    for executor in executors {
        loop {
            let thread = program.requests.thread(executor);
            let passed = heliostat_base::clock::monotonic_ns().saturating_sub(began);
            let left = END_PATIENCE.saturating_sub(Duration::from_nanos(passed));
            if thread == 0 || left.is_zero() {
                break;
            }
            program.requests.sleep_until_ended(executor, thread, left);
        }
    }
}

/// What an executor does, until it is told to stop.
pub fn run(program: &Program, executor: usize) {
    let requests = &program.requests;
    if let Some(core) = program.cores.get(executor) {
        settle(*core, executor);
    }
    let mut waiting = Waiting::new();
    let mut spin = Spin::new();
    let mut last = cycles();
    let is_stopped = || requests.order(executor).load(Acquire) == STOP;
    while !is_stopped() {
        let found = requests.sweep(executor, LINES_MAX, |line| {
            if let Some(asked) = requests.take(line) {
                begin(program, line, asked, &mut waiting);
            }
        });
        waiting.try_again(program);
        if found > 0 {
            last = cycles();
        } else if waiting.is_empty() && cycles().wrapping_sub(last) > LOOK_CYCLES {
            requests.sleep(executor, LINES_MAX, None, is_stopped);
            last = cycles();
        } else {
            spin.turn();
        }
    }
    waiting.give_back(requests);
}

/// Puts the calling thread on its core; where a cpuset has no such core, on one that it has, the last
/// ones first, so that executors do not meet before all have one. `heliostat explain` tells of it.
fn settle(core: usize, executor: usize) {
    if affinity::pin(core).is_ok() {
        return;
    }
    super::spare::displaced();
    // The kernel cuts it down to the cpuset: more than the mask that the program's thread has left.
    let _ = affinity::restrict(0, &(0..CPUS_MAX).collect::<CpuSet>());
    let Ok(allowed) = affinity::allowed(0) else { return };
    let count = allowed.count().max(1);
    let last_first = count - 1 - executor % count;
    let core = allowed.iter().nth(last_first);
    core.into_iter().for_each(|core| _ = affinity::pin(core));
}

/// Makes a call for the first time.
fn begin(program: &Program, line: usize, asked: Asked, waiting: &mut Waiting) {
    let is_stamped = IS_STAMPED.load(Relaxed);
    if is_stamped {
        program.requests.stamp(line, Stamp::Taken, cycles());
    }
    let made = (program.make)(&asked);
    if is_stamped {
        program.requests.stamp(line, Stamp::Made, cycles());
    }
    match made {
        Made::Waits if waiting.keep(line, asked) => {}
        made => program.requests.answer(line, made.answer()),
    }
}

/// Calls in progress that would wait.
struct Waiting {
    calls: [(u16, u64, Asked); WAITING_MAX],
    count: usize,
}

impl Waiting {
    const fn new() -> Waiting {
        let none = Asked { number: 0, args: [0; 6] };
        Waiting { calls: [(0, 0, none); WAITING_MAX], count: 0 }
    }

    const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Keeps a call; false where there is no room.
    fn keep(&mut self, line: usize, asked: Asked) -> bool {
        let Some(place) = self.calls.get_mut(self.count) else { return false };
        *place = (line as u16, cycles(), asked);
        self.count += 1;
        true
    }

    /// Tries all once more, and gives back those that have been tried for long enough.
    fn try_again(&mut self, program: &Program) {
        let mut at = 0;
        while at < self.count {
            let (line, since, asked) = self.calls[at];
            let made = (program.make)(&asked);
            if made == Made::Waits && cycles().wrapping_sub(since) < WAIT_CYCLES {
                at += 1;
                continue;
            }
            program.requests.answer(usize::from(line), made.answer());
            self.count -= 1;
            self.calls[at] = self.calls[self.count];
        }
    }

    /// Gives all back to their threads.
    fn give_back(&mut self, requests: &Requests) {
        for (line, ..) in &self.calls[..self.count] {
            requests.answer(usize::from(*line), Made::Waits.answer());
        }
        self.count = 0;
    }
}

impl Made {
    fn answer(self) -> Answer {
        match self {
            Made::Result(result) => Answer::Result(result),
            Made::Waits => Answer::Refused(super::WAITS),
            // Made again by its own thread it fails in the same way, and the kernel signals that one.
            Made::Plain | Made::Signals(_) => Answer::Refused(super::PLAIN),
            Made::Part(bytes) => Answer::Refused(super::PART | bytes.min(super::PART - 1)),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use heliostat_abi::offload::Request;
    use heliostat_base::unforked::Unforked;
    use heliostat_ring::request::WORDS;

    use super::*;

    #[test]
    fn an_executor_that_another_thread_starts_is_waited_for() {
        let memory: &'static Unforked = Box::leak(Box::new(Unforked::with_words(WORDS).unwrap()));
        let program = Program {
            request: Request::default(),
            cores: vec![0],
            requests: Requests::new(memory),
            start: |_| true,
            make: |_| Made::Waits,
            make_timed: |_| (Made::Waits, 0),
        };
        let order = program.requests.order(0);
        order.store(STARTING, Release);
        assert_eq!(ensure(&program, 0, 0), Err(Unoffloaded::Late));
        std::thread::scope(|scope| {
            scope.spawn(|| order.store(RUNNING, Release));
            assert_eq!(ensure(&program, 0, u64::MAX), Ok(()));
        });
        order.store(FAILED, Release);
        assert_eq!(ensure(&program, 0, u64::MAX), Err(Unoffloaded::Ended));
        order.store(NONE, Release);
        assert_eq!(ensure(&program, 0, 0), Ok(()));
    }

    /// Where a thread runs after it was given that core.
    fn settled(core: usize, executor: usize) -> Vec<usize> {
        let thread = std::thread::spawn(move || {
            settle(core, executor);
            affinity::allowed(0).expect("the kernel says").iter().collect()
        });
        thread.join().expect("no panic")
    }

    #[test]
    fn a_core_that_is_not_allowed_is_replaced_by_one_that_is() {
        let all: Vec<usize> = affinity::allowed(0).expect("the kernel says").iter().collect();
        let [first, .., last] = all[..] else { return };
        assert_eq!(settled(first, 0), [first]);
        assert_eq!(settled(CPUS_MAX - 1, 0), [last]);
        assert_eq!(settled(CPUS_MAX - 1, all.len()), [last]);
        assert_ne!(settled(CPUS_MAX - 1, 1), [last]);
    }
}
