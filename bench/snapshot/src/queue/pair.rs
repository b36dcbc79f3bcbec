//! A producer here, its consumer in a process of its own, and the word by which it answers.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use heliostat_base::mapping::SharedMapping;
use heliostat_base::{affinity, futex};

use crate::memory::{check, sum};
use crate::producer::timed;
use crate::Failure;

/// No element takes as long as this; the other side has ended.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Where the count of elements read lies, and the count at which the producer wants to be woken,
/// 0 while it does not. Each word is written by one side only, so no wake-up is lost.
const DONE: usize = 0;
const WANTED: usize = 64;

/// The producer's side of an arm.
pub trait Sender {
    /// Writes an element of words that follow from `seed`, and hands it over. May wait for room.
    fn send(&mut self, seed: u64) -> Result<(), Failure>;
}

/// The consumer's side.
pub trait Receiver {
    /// Waits for the next element; the sum of its words.
    fn receive(&mut self) -> Result<u64, Failure>;
}

/// Both sides, before there are two processes.
pub struct Arm {
    pub sender: Box<dyn Sender>,
    pub receiver: Box<dyn Receiver>,
    /// Elements that may be on the way; more would be lost.
    pub window: u32,
}

/// An arm with its consumer's process.
pub struct Pair {
    sender: Box<dyn Sender>,
    window: u32,
    words: SharedMapping,
    orders: File,
    pid: i32,
    sent: u32,
    pub consumer_core: usize,
}

impl Pair {
    /// Starts the consumer, which waits for orders.
    pub fn start(len: usize, arm: Arm) -> Result<Self, Failure> {
        let (_, words) = SharedMapping::create(c"bench-queue-words", 4096)?;
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two descriptors into the array.
        check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
        // SAFETY: both were just opened for us.
        let [mut from, to] = ends.map(|fd| unsafe { File::from_raw_fd(fd) });
        let Arm { sender, mut receiver, window } = arm;
        // SAFETY: this process has one thread, so its child may go on like any program.
        let pid = check(unsafe { libc::fork() })?;
        if pid == 0 {
            drop(to);
            // SAFETY: asks that this process end with its parent, whatever that dies of.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let done = consume(len, receiver.as_mut(), &mut from, &words);
            if let Err(error) = &done {
                eprintln!("consumer: {error}");
            }
            // SAFETY: ends the child without running what belongs to its parent.
            unsafe { libc::_exit(i32::from(done.is_err())) }
        }
        Ok(Self { sender, window, words, orders: to, pid, sent: 0, consumer_core: 0 })
    }

    /// Nanoseconds for each of `count` elements that follow each other.
    pub fn stream(&mut self, count: u32) -> Result<f64, Failure> {
        self.order(count)?;
        let (ns, done) = timed(|| {
            (0..count).try_for_each(|_| self.send())?;
            self.wait_for(self.sent)
        });
        done.map(|()| ns / f64::from(count))
    }

    /// Nanoseconds from an element's first word until its consumer's answer.
    pub fn trips(&mut self, count: u32) -> Result<f64, Failure> {
        self.order(count)?;
        let (ns, done) = timed(|| {
            (0..count).try_for_each(|_| {
                self.send()?;
                self.wait_for(self.sent)
            })
        });
        done.map(|()| ns / f64::from(count))
    }

    fn order(&mut self, count: u32) -> Result<(), Failure> {
        let core = self.consumer_core as u32;
        let words = [count.to_le_bytes(), core.to_le_bytes()].concat();
        self.orders.write_all(&words)?;
        Ok(())
    }

    fn send(&mut self) -> Result<(), Failure> {
        if self.sent >= self.window {
            self.wait_for(self.sent - self.window + 1)?;
        }
        self.sender.send(u64::from(self.sent))?;
        self.sent += 1;
        Ok(())
    }

    /// Sleeps until the consumer has read `count` elements.
    fn wait_for(&self, count: u32) -> Result<(), Failure> {
        let (done, wanted) = (self.words.atomic_u32(DONE), self.words.atomic_u32(WANTED));
        wanted.store(count, SeqCst);
        let outcome = loop {
            let seen = done.load(SeqCst);
            if seen >= count {
                break Ok(());
            }
            if futex::wait(done, seen, Some(PATIENCE))? == futex::Wait::TimedOut {
                break Err("the consumer does not answer".into());
            }
        };
        wanted.store(0, SeqCst);
        outcome
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // Later consumers have a copy of the descriptor, so closing it would tell this one nothing.
        let _ = self.order(0);
        // SAFETY: waits for the child made above; no status is asked for.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

/// The consumer: what each order says, until one says nothing.
fn consume(
    len: usize,
    receiver: &mut dyn Receiver,
    orders: &mut File,
    words: &SharedMapping,
) -> Result<(), Failure> {
    let (mut order, mut number) = ([0; 8], 0u32);
    while orders.read_exact(&mut order).is_ok() {
        let (count, core) = order.split_at(4);
        let (count, core) = (count.try_into()?, core.try_into()?);
        if count == [0; 4] {
            break;
        }
        affinity::pin(u32::from_le_bytes(core) as usize)?;
        for _ in 0..u32::from_le_bytes(count) {
            if receiver.receive()? != expected(len, u64::from(number)) {
                return Err(format!("element {number} is not what was written").into());
            }
            number += 1;
            answer(words.atomic_u32(DONE), words.atomic_u32(WANTED), number);
        }
    }
    Ok(())
}

fn answer(done: &AtomicU32, wanted: &AtomicU32, number: u32) {
    done.store(number, SeqCst);
    let wanted = wanted.load(SeqCst);
    if wanted != 0 && number >= wanted {
        futex::wake(done, 1);
    }
}

/// Writes `len` bytes of words, each greater by one than the one before.
///
/// # Safety
/// `into` is aligned to 8 and writable for `len` bytes, which nobody else touches meanwhile.
pub unsafe fn fill(into: *mut u8, len: usize, seed: u64) {
    // SAFETY: the caller's promise; u64 has no invalid bytes.
    let words = unsafe { std::slice::from_raw_parts_mut(into.cast::<u64>(), len / 8) };
    words.iter_mut().enumerate().for_each(|(at, word)| *word = seed.wrapping_add(at as u64));
    std::hint::black_box(words);
}

/// The sum of what `fill` wrote.
fn expected(len: usize, seed: u64) -> u64 {
    let words = (len / 8) as u64;
    words.wrapping_mul(seed).wrapping_add(words * (words - 1) / 2)
}

/// The sum of the words of an element.
pub fn sum_of(bytes: &[u64]) -> u64 {
    // SAFETY: a slice of words is aligned and readable for its length.
    unsafe { sum(bytes.as_ptr().cast(), bytes.len() * 8) }
}
