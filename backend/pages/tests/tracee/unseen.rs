//! A program does not notice that it was stopped: calls, signals, threads, parent.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use heliostat_backend_pages::tracee::Tracee;

use crate::child::{goes_on, until, words, Child};

const STOPS: usize = 200;

/// Calls that wait: each answers what the call said, negative for an error.
fn waits(pipes: &[[i32; 2]]) -> Vec<Box<dyn FnOnce() -> i64 + Send>> {
    let [read, poll, epoll, select, pwait, recv] = [0, 1, 2, 3, 4, 5].map(|i| pipes[i][0]);
    // SAFETY: plain waiting calls on descriptors and words that live as long as the child.
    unsafe {
        vec![
            Box::new(move || libc::read(read, [0u8; 1].as_mut_ptr().cast(), 1) as i64),
            Box::new(move || {
                let mut entry = libc::pollfd { fd: poll, events: libc::POLLIN, revents: 0 };
                i64::from(libc::poll(&mut entry, 1, 60_000))
            }),
            Box::new(move || wait_epoll(epoll, |at, into| libc::epoll_wait(at, into, 1, -1))),
            Box::new(move || {
                let mut set: libc::fd_set = std::mem::zeroed();
                libc::FD_SET(select, &mut set);
                let none = std::ptr::null_mut();
                i64::from(libc::select(select + 1, &mut set, none, none, std::ptr::null_mut()))
            }),
            Box::new(move || {
                let mut mask: libc::sigset_t = std::mem::zeroed();
                libc::sigaddset(&mut mask, libc::SIGUSR2);
                wait_epoll(pwait, |at, into| libc::epoll_pwait(at, into, 1, -1, &mask))
            }),
            Box::new(move || libc::recv(recv, [0u8; 1].as_mut_ptr().cast(), 1, 0) as i64),
            Box::new(|| {
                let span = libc::timespec { tv_sec: 0, tv_nsec: 300_000_000 };
                1 + i64::from(libc::nanosleep(&span, std::ptr::null_mut()))
            }),
            Box::new(|| {
                let (lock, bell) = (Mutex::new(()), Condvar::new());
                let held = lock.lock().expect("nobody panics");
                let waited = bell.wait_timeout(held, Duration::from_millis(300));
                let is_over = waited.expect("nobody panics").1.timed_out();
                i64::from(is_over)
            }),
        ]
    }
}

fn wait_epoll(fd: i32, wait: impl Fn(i32, *mut libc::epoll_event) -> i32) -> i64 {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
    // SAFETY: one live event.
    unsafe {
        let set = libc::epoll_create1(0);
        libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &mut event);
        i64::from(wait(set, &mut event))
    }
}

fn pair() -> [i32; 2] {
    let mut pair = [0; 2];
    // SAFETY: room for two descriptors.
    assert_eq!(unsafe { libc::socketpair(1, libc::SOCK_STREAM, 0, pair.as_mut_ptr()) }, 0);
    pair
}

#[test]
fn calls_that_wait_give_their_own_answer_after_many_stops() {
    const CALLS: usize = 8;
    let shared = words();
    let pipes: Vec<_> = (0..6).map(|_| pair()).collect();
    let child = Child::run(|| {
        std::thread::scope(|scope| {
            for (word, wait) in shared.iter().zip(waits(&pipes)) {
                scope.spawn(move || word.store(wait() as u64, SeqCst));
            }
            shared[CALLS].store(1, SeqCst);
        });
        shared[CALLS].store(2, SeqCst);
    });
    until("started", || shared[CALLS].load(SeqCst) == 1);
    let tracee = Tracee::open(child.0).unwrap();
    for _ in 0..STOPS {
        tracee.stop().unwrap().resume();
        std::thread::sleep(Duration::from_millis(1));
    }
    for pipe in &pipes {
        // SAFETY: one byte to write.
        assert_eq!(unsafe { libc::write(pipe[1], [1u8].as_ptr().cast(), 1) }, 1);
    }
    until("all calls return", || shared[CALLS].load(SeqCst) == 2);
    let answers: Vec<_> = shared[..CALLS].iter().map(|word| word.load(SeqCst) as i64).collect();
    assert_eq!(answers, [1; CALLS]);
}

static ARRIVED: std::sync::OnceLock<&'static AtomicU64> = std::sync::OnceLock::new();

extern "C" fn count(_: i32) {
    if let Some(word) = ARRIVED.get() {
        word.fetch_add(1, SeqCst);
    }
}

#[test]
fn no_signal_is_lost_or_doubled_by_stops() {
    const SENT: u64 = 2000;
    let shared = words();
    let child = Child::run(|| {
        let _ = ARRIVED.set(&shared[0]);
        // SAFETY: the handler adds to an atomic.
        unsafe { libc::signal(libc::SIGRTMIN(), count as *const () as usize) };
        shared[1].store(1, SeqCst);
        loop {
            shared[2].fetch_add(1, SeqCst);
        }
    });
    until("ready", || shared[1].load(SeqCst) == 1);
    let tracee = Tracee::open(child.0).unwrap();
    for sent in 0..SENT {
        child.kill(libc::SIGRTMIN());
        if sent % 10 == 0 {
            let stopped = tracee.stop().unwrap();
            child.kill(libc::SIGRTMIN());
            stopped.resume();
        }
    }
    until("all arrive", || shared[0].load(SeqCst) >= SENT + SENT / 10);
    goes_on(&shared[2], 1000);
    assert_eq!(shared[0].load(SeqCst), SENT + SENT / 10);
}

#[test]
fn threads_that_come_and_go_all_stand() {
    let shared = words();
    let child = Child::run(|| {
        std::thread::scope(|scope| {
            for word in &shared[..4] {
                scope.spawn(move || loop {
                    std::thread::spawn(move || word.fetch_add(1, SeqCst)).join().expect("joins");
                });
            }
        });
    });
    let tracee = Tracee::open(child.0).unwrap();
    until("started", || shared[3].load(SeqCst) > 0);
    for _ in 0..STOPS {
        let all = || shared[..4].iter().map(|word| word.load(SeqCst)).collect::<Vec<_>>();
        let stopped = tracee.stop().unwrap();
        let before = all();
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(all(), before, "somebody went on");
        assert!(stopped.threads() >= 5);
        stopped.resume();
    }
    shared[..4].iter().for_each(|word| goes_on(word, 10));
}

#[test]
fn the_parent_learns_nothing_and_job_control_goes_on_as_before() {
    let shared = words();
    let parent = Child::run(|| {
        let child = Child::run(|| loop {
            shared[1].fetch_add(1, SeqCst);
        });
        shared[0].store(child.0 as u64, SeqCst);
        loop {
            let (mut status, flags) = (0, libc::WUNTRACED | libc::WCONTINUED);
            // SAFETY: a live word for the status.
            unsafe { libc::waitpid(child.0, &mut status, flags) };
            shared[2].fetch_add(1, SeqCst);
        }
    });
    until("started", || shared[0].load(SeqCst) > 0 && shared[1].load(SeqCst) > 0);
    let child = std::mem::ManuallyDrop::new(Child(shared[0].load(SeqCst) as i32));
    let tracee = Tracee::open(child.0).unwrap();
    (0..STOPS).for_each(|_| drop(tracee.stop().unwrap()));
    assert_eq!(shared[2].load(SeqCst), 0, "the parent saw a stop");

    child.kill(libc::SIGSTOP);
    until("stopped", || child.state().0 == 'T');
    until("the parent knows", || shared[2].load(SeqCst) == 1);
    (0..20).for_each(|_| drop(tracee.stop().unwrap()));
    until("stopped still", || child.state() == ('T', 0));
    let seen = shared[1].load(SeqCst);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(shared[1].load(SeqCst), seen, "a stop of ours ended somebody else's");
    child.kill(libc::SIGCONT);
    goes_on(&shared[1], 1000);
    child.kill(libc::SIGKILL);
    drop(parent);
}
