//! Requests between threads of one process: a line for each asker, a queue for each executor.
//!
//! ```text
//! queue of an executor, 40 words        half 0 bell, half 1 its thread, half 2 its order
//!                                       word 8.. one bit for each line that has something for it
//! line of a thread, 16 words            half 0 state, half 1 number of the call
//!                                       word 1-6 arguments, word 7 result
//!                                       half 16 owner, half 17 free, word 9-15 stamps
//!
//!            ask             take              answer
//!   IDLE ---------> ASKED ---------> TAKEN ------------> ANSWERED --look--> IDLE
//!     ^               |                |  sleep   answer     ^  (REFUSED likewise)
//!     +---withdraw----+                +--> AWAITED ---------+  and wakes
//! ```
//!
//! Taking and withdrawing are one exchange each from the same state, so a call is made by the executor
//! or by its own thread, and never by both. The words of a line are the asker's while it is IDLE or
//! answered, the executor's from TAKEN on.
//!
//! Orders (labels beside each release and its acquire; `models` shows them under loom):
//! - `R1` what is asked before ASKED;
//! - `R2` the result, and the bytes that the call wrote, before ANSWERED;
//! - `R3` a line that is ASKED before its bit in the queue;
//! - `R4` full fences on both sides of bell and bits: the executor says that it sleeps and then looks,
//!   the asker sets its bit and then looks whether the executor sleeps.
//!
//! The memory is the process's own, and a child of its fork finds zeros: no line is asked there, none
//! has an owner, and there is no executor.

use std::time::Duration;

use heliostat_base::unforked::Unforked;

use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{fence_after_locked, full_fence, futex_wait, futex_wake_all};
use crate::sync::{AtomicU32, AtomicU64};

const IDLE: u32 = 0;
const ASKED: u32 = 1;
const TAKEN: u32 = 2;
const AWAITED: u32 = 3;
const ANSWERED: u32 = 4;
const REFUSED: u32 = 5;

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// Lines at most: threads that have calls made by executors at once.
pub const LINES_MAX: usize = 2048;
/// Executors at most: kernel cores of one process.
pub const EXECUTORS_MAX: usize = 16;

const QUEUE_WORDS: usize = 8 + LINES_MAX / 64;
const LINE_WORDS: usize = 16;
const LINES_AT: usize = (EXECUTORS_MAX * QUEUE_WORDS).next_multiple_of(LINE_WORDS);
/// Words of memory that [`Requests`] needs.
pub const WORDS: usize = LINES_AT + LINES_MAX * LINE_WORDS;

/// Where the memory of requests is.
pub trait RequestMemory {
    /// One half of a word that is never used whole.
    fn half(&self, number: usize) -> &AtomicU32;
    /// A whole word.
    fn word(&self, number: usize) -> &AtomicU64;
}

impl RequestMemory for &'static Unforked {
    #[inline(always)]
    fn half(&self, number: usize) -> &AtomicU32 {
        Unforked::half(self, number)
    }

    #[inline(always)]
    fn word(&self, number: usize) -> &AtomicU64 {
        Unforked::word(self, number)
    }
}

/// A system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Its number.
    pub number: u32,
    /// Its arguments.
    pub args: [u64; 6],
}

/// What becomes of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is made, with the kernel's own answer.
    Result(i64),
    /// It is not made, and why, by a number.
    Refused(u32),
}

/// Moments of a call that are noted where somebody measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Stamp {
    /// The program's call was caught.
    Entered = 0,
    /// The line is ASKED.
    Asked = 1,
    /// The executor has it.
    Taken = 2,
    /// The kernel has answered.
    Made = 3,
    /// The asker sees the answer.
    Seen = 4,
}

/// Number of stamps.
pub const STAMPS: usize = 5;

/// All lines and queues of a process.
#[derive(Debug)]
pub struct Requests<M: RequestMemory = &'static Unforked> {
    memory: M,
}

impl<M: RequestMemory> Requests<M> {
    /// Of memory that is zero, [`WORDS`] words.
    pub const fn new(memory: M) -> Self {
        Self { memory }
    }

    fn state(&self, line: usize) -> &AtomicU32 {
        self.memory.half((LINES_AT + line * LINE_WORDS) * 2)
    }

    fn number(&self, line: usize) -> &AtomicU32 {
        self.memory.half((LINES_AT + line * LINE_WORDS) * 2 + 1)
    }

    /// Word 1 to 7 of a line.
    fn word(&self, line: usize, at: usize) -> &AtomicU64 {
        self.memory.word(LINES_AT + line * LINE_WORDS + at)
    }

    fn owner_word(&self, line: usize) -> &AtomicU32 {
        self.memory.half((LINES_AT + line * LINE_WORDS + 8) * 2)
    }

    /// The thread that a line belongs to, 0 for nobody's.
    #[inline]
    pub fn owner(&self, line: usize) -> u32 {
        self.owner_word(line).load(Relaxed)
    }

    /// Gives a line that is `from`'s to `to`; of several who try one succeeds. From 0 is taking, to 0 is
    /// giving back. What the last owner left is seen (the exchange is a release of his and an acquire).
    pub fn pass(&self, line: usize, from: u32, to: u32) -> bool {
        self.owner_word(line).compare_exchange(from, to, AcqRel, Relaxed).is_ok()
    }

    /// Whether nothing is asked in a line.
    #[inline]
    pub fn is_idle(&self, line: usize) -> bool {
        self.state(line).load(Relaxed) == IDLE
    }

    /// Asks. Only in an own line that is idle.
    #[inline]
    pub fn ask(&self, line: usize, asked: &Asked) {
        self.number(line).store(asked.number, Relaxed);
        for (place, argument) in asked.args.iter().enumerate() {
            self.word(line, 1 + place).store(*argument, Relaxed);
        }
        self.state(line).store(ASKED, Release); // R1
    }

    /// Takes the answer, once; `None` while there is none.
    #[inline]
    pub fn look(&self, line: usize) -> Option<Answer> {
        let state = self.state(line).load(Acquire); // R2
        let result = || self.word(line, 7).load(Relaxed);
        let answer = match state {
            ANSWERED => Answer::Result(result() as i64),
            REFUSED => Answer::Refused(result() as u32),
            _ => return None,
        };
        self.state(line).store(IDLE, Relaxed);
        Some(answer)
    }

    /// Takes back what was asked, unless an executor has it.
    pub fn withdraw(&self, line: usize) -> bool {
        self.state(line).compare_exchange(ASKED, IDLE, Relaxed, Relaxed).is_ok()
    }

    /// Sleeps until an executor that has the call answers it, or the time is over.
    pub fn sleep_for_answer(&self, line: usize, timeout: Option<Duration>) {
        let state = self.state(line);
        match state.compare_exchange(TAKEN, AWAITED, Relaxed, Relaxed) {
            Ok(_) | Err(AWAITED) => futex_wait(state, AWAITED, timeout),
            Err(_) => {}
        }
    }

    /// Takes what is asked in a line, if anything is; the caller then answers it.
    #[inline]
    pub fn take(&self, line: usize) -> Option<Asked> {
        let state = self.state(line);
        state.compare_exchange(ASKED, TAKEN, Acquire, Relaxed).ok()?; // R1
        let args = std::array::from_fn(|place| self.word(line, 1 + place).load(Relaxed));
        Some(Asked { number: self.number(line).load(Relaxed), args })
    }

    /// Answers what was taken, once.
    #[inline]
    pub fn answer(&self, line: usize, answer: Answer) {
        let (state, word) = match answer {
            Answer::Result(result) => (ANSWERED, result as u64),
            Answer::Refused(why) => (REFUSED, u64::from(why)),
        };
        self.word(line, 7).store(word, Relaxed);
        if self.state(line).swap(state, AcqRel) == AWAITED {
            // R2
            futex_wake_all(self.state(line));
        }
    }

    /// Notes a moment, by the processor's counter.
    pub fn stamp(&self, line: usize, stamp: Stamp, cycles: u64) {
        self.word(line, 9 + stamp as usize).store(cycles, Relaxed);
    }

    /// The moments of a line's last call.
    pub fn stamps(&self, line: usize) -> [u64; STAMPS] {
        std::array::from_fn(|place| self.word(line, 9 + place).load(Relaxed))
    }

    fn bell(&self, executor: usize) -> &AtomicU32 {
        self.memory.half(executor * QUEUE_WORDS * 2)
    }

    /// The half word that holds an executor's thread number while it lives.
    pub const fn thread_half(executor: usize) -> usize {
        executor * QUEUE_WORDS * 2 + 1
    }

    /// The thread that an executor is, 0 for none.
    pub fn thread(&self, executor: usize) -> u32 {
        self.memory.half(Self::thread_half(executor)).load(Acquire)
    }

    /// Sleeps while an executor is a certain thread: until it has ended, or the time is over.
    pub fn sleep_until_ended(&self, executor: usize, thread: u32, timeout: Duration) {
        futex_wait(self.memory.half(Self::thread_half(executor)), thread, Some(timeout));
    }

    /// The half word by which an executor is told things that this module knows nothing of.
    pub fn order(&self, executor: usize) -> &AtomicU32 {
        self.memory.half(executor * QUEUE_WORDS * 2 + 2)
    }

    fn bits(&self, executor: usize, group: usize) -> &AtomicU64 {
        self.memory.word(executor * QUEUE_WORDS + 8 + group)
    }

    /// Puts a line that is asked into an executor's queue, and wakes the executor if it sleeps.
    #[inline]
    pub fn submit(&self, executor: usize, line: usize) {
        self.bits(executor, line / 64).fetch_or(1 << (line % 64), Release); // R3
        fence_after_locked(); // R4
        self.ring_if_asleep(executor);
    }

    /// Wakes an executor if it sleeps.
    pub fn wake(&self, executor: usize) {
        full_fence(); // R4
        self.ring_if_asleep(executor);
    }

    #[inline]
    fn ring_if_asleep(&self, executor: usize) {
        let bell = self.bell(executor);
        if bell.load(Relaxed) != AWAKE && bell.swap(AWAKE, Relaxed) != AWAKE {
            futex_wake_all(bell);
        }
    }

    /// Shows each line that was put into an executor's queue since the last sweep, of the first `lines`;
    /// says how many there were.
    #[inline]
    pub fn sweep(&self, executor: usize, lines: usize, mut each: impl FnMut(usize)) -> usize {
        let mut found = 0;
        for group in 0..lines.div_ceil(64).min(LINES_MAX / 64) {
            let bits = self.bits(executor, group);
            if bits.load(Relaxed) == 0 {
                continue;
            }
            let mut set = bits.swap(0, Acquire); // R3
            while set != 0 {
                each(group * 64 + set.trailing_zeros() as usize);
                set &= set - 1;
                found += 1;
            }
        }
        found
    }

    /// Sleeps until something is put into an executor's queue, or it is woken, or the time is over.
    /// `is_told` says whether there is something besides; it is asked after the word is set.
    pub fn sleep(
        &self,
        executor: usize,
        lines: usize,
        timeout: Option<Duration>,
        is_told: impl FnOnce() -> bool,
    ) {
        let bell = self.bell(executor);
        bell.store(ASLEEP, Relaxed);
        full_fence(); // R4
        let groups = 0..lines.div_ceil(64).min(LINES_MAX / 64);
        let is_empty = groups.into_iter().all(|at| self.bits(executor, at).load(Relaxed) == 0);
        if is_empty && !is_told() {
            futex_wait(bell, ASLEEP, timeout);
        }
        bell.store(AWAKE, Relaxed);
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn requests() -> Requests {
        let memory = Unforked::with_words(WORDS).expect("Linux 4.14");
        Requests::new(Box::leak(Box::new(memory)))
    }

    fn asked(number: u32) -> Asked {
        Asked { number, args: [1, 2, 3, 4, 5, u64::MAX] }
    }

    #[test]
    fn a_call_is_taken_once_and_answered_once() {
        let requests = requests();
        requests.ask(70, &asked(9));
        requests.submit(3, 70);
        let mut seen = Vec::new();
        assert_eq!(requests.sweep(3, LINES_MAX, |line| seen.push(line)), 1);
        assert_eq!((seen, requests.take(70), requests.take(70)), (vec![70], Some(asked(9)), None));
        assert!(!requests.withdraw(70));
        requests.answer(70, Answer::Result(-11));
        assert_eq!(requests.look(70), Some(Answer::Result(-11)));
        assert_eq!((requests.look(70), requests.is_idle(70)), (None, true));
        assert_eq!(requests.sweep(3, LINES_MAX, |_| panic!("swept before")), 0);
    }

    #[test]
    fn what_was_withdrawn_is_not_taken_and_may_be_refused_the_next_time() {
        let requests = requests();
        requests.ask(LINES_MAX - 1, &asked(1));
        assert!(requests.withdraw(LINES_MAX - 1));
        assert_eq!(requests.take(LINES_MAX - 1), None);
        requests.ask(LINES_MAX - 1, &asked(2));
        assert_eq!(requests.take(LINES_MAX - 1), Some(asked(2)));
        requests.answer(LINES_MAX - 1, Answer::Refused(101));
        assert_eq!(requests.look(LINES_MAX - 1), Some(Answer::Refused(101)));
    }

    #[test]
    fn a_line_has_one_owner_and_queues_and_lines_share_no_word() {
        let requests = requests();
        assert!(requests.pass(0, 0, 7) && !requests.pass(0, 0, 8) && requests.pass(0, 7, 0));
        for executor in 0..EXECUTORS_MAX {
            requests.submit(executor, LINES_MAX - 1);
            requests.order(executor).store(executor as u32, Relaxed);
        }
        requests.stamp(0, Stamp::Seen, 5);
        assert_eq!((requests.owner(0), requests.stamps(0)), (0, [0, 0, 0, 0, 5]));
        assert!((0..LINES_MAX).all(|line| requests.is_idle(line)));
        assert!((0..EXECUTORS_MAX).all(|executor| requests.thread(executor) == 0));
        for executor in 0..EXECUTORS_MAX {
            assert_eq!(requests.sweep(executor, LINES_MAX, |_| ()), 1);
            assert_eq!(requests.order(executor).load(Relaxed), executor as u32);
        }
    }

    #[test]
    fn who_has_something_to_do_does_not_sleep() {
        let requests = requests();
        requests.submit(0, 1);
        requests.sleep(0, LINES_MAX, None, || false);
        requests.sleep(1, LINES_MAX, None, || true);
        requests.sleep(1, LINES_MAX, Some(Duration::from_millis(1)), || false);
    }
}
