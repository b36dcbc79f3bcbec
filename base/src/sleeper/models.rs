//! Loom: work that is published beside a thread that falls asleep, over all interleavings.
//!
//! In `play` a bell that nobody rings is a sleep without end, which loom reports as a deadlock. In `once`
//! the sleeper lies down once and is judged afterwards: so the variants that lack a step fail by an
//! assertion, since a deadlock under a mutex ends the whole test program.

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::*;

struct Post {
    sleeper: Sleeper,
    works: AtomicU32,
    bell: (Mutex<bool>, Condvar),
}

impl Post {
    fn new() -> Arc<Post> {
        let (sleeper, works) = (Sleeper::awake(), AtomicU32::new(0));
        Arc::new(Post { sleeper, works, bell: (Mutex::new(false), Condvar::new()) })
    }

    fn send(&self) {
        self.works.fetch_add(1, Ordering::Relaxed);
        if self.sleeper.must_ring() {
            *self.bell.0.lock().unwrap() = true;
            self.bell.1.notify_one();
        }
    }

    fn sleep(&self) {
        let mut rung = self.bell.0.lock().unwrap();
        while !std::mem::take(&mut *rung) {
            rung = self.bell.1.wait(rung).unwrap();
        }
    }

    fn has_all(&self, senders: u32) -> bool {
        self.works.load(Ordering::Relaxed) == senders
    }
}

fn play(senders: u32) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let post = Post::new();
        let threads: Vec<_> = (0..senders)
            .map(|_| {
                let post = post.clone();
                thread::spawn(move || post.send())
            })
            .collect();
        while !post.has_all(senders) {
            post.sleeper.lie_down();
            if !post.has_all(senders) {
                post.sleep();
            }
            post.sleeper.rise();
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn loom_no_work_is_slept_over() {
    play(1);
}

#[test]
fn loom_no_work_of_two_senders_is_slept_over() {
    play(2);
}

/// The steps that a variant may lack.
#[derive(Clone, Copy)]
struct Steps {
    looks_again: bool,
    sender_fences: bool,
    sleeper_fences: bool,
}

const ALL: Steps = Steps { looks_again: true, sender_fences: true, sleeper_fences: true };

fn once(steps: Steps) {
    loom::model(move || {
        let post = Post::new();
        let other = post.clone();
        let sender = thread::spawn(move || {
            other.works.store(1, Ordering::Relaxed);
            let word = &other.sleeper.word;
            if steps.sender_fences {
                other.sleeper.must_ring()
            } else {
                word.load(Ordering::Relaxed) != AWAKE
            }
        });
        if steps.sleeper_fences {
            post.sleeper.lie_down();
        } else {
            post.sleeper.word.store(ASLEEP, Ordering::Relaxed);
        }
        let sleeps = !(steps.looks_again && post.has_all(1));
        let is_rung = sender.join().unwrap();
        assert!(is_rung || !sleeps, "slept over");
    });
}

#[test]
fn loom_who_sleeps_is_rung_for() {
    once(ALL);
}

#[test]
#[should_panic(expected = "slept over")]
fn loom_finds_a_sleeper_that_does_not_look_again() {
    once(Steps { looks_again: false, ..ALL });
}

#[test]
#[should_panic(expected = "slept over")]
fn loom_finds_a_sender_without_a_fence() {
    once(Steps { sender_fences: false, ..ALL });
}

#[test]
#[should_panic(expected = "slept over")]
fn loom_finds_a_sleeper_without_a_fence() {
    once(Steps { sleeper_fences: false, ..ALL });
}
