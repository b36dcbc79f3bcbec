//! Signal handlers that come while a thread waits: they find no lock of the stub held beneath them.

mod support;

use std::io::IoSliceMut;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::{Duration, Instant};

use heliostat_abi::session::report::Counter;
use heliostat_base::sys::Errno;
use heliostat_stub_posix::event::poll;
use heliostat_stub_posix::net::receive::{self, Received};
use heliostat_stub_posix::net::socket;
use heliostat_stub_posix::{report, thread};
use support::pair::direct;

static INDEX: AtomicU32 = AtomicU32::new(0);
static HANDLED: AtomicU32 = AtomicU32::new(0);

/// What a program's handler may come to by a send or a receive, unless it has to wait.
extern "C" fn handle(signal: i32) {
    if thread::must_defer(signal) {
        return;
    }
    report::count(Counter::Bells);
    drop(socket::at(INDEX.load(Relaxed)).armed.lock());
    HANDLED.fetch_add(1, Relaxed);
}

/// Signals one thread until it has waited for a second; false when it does not get on.
fn waits_under_signals(mut wait: impl FnMut() + Send) -> bool {
    let (thread, turns, is_over) = (AtomicU32::new(0), AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            thread.store(heliostat_base::process::tid() as u32, Release);
            while !is_over.load(Acquire) {
                wait();
                turns.fetch_add(1, Relaxed);
            }
        });
        let ends = Instant::now() + Duration::from_secs(1);
        while thread.load(Acquire) == 0 || Instant::now() < ends {
            let pid = heliostat_base::process::pid();
            let tid = thread.load(Acquire) as i32;
            let _ = heliostat_base::call::signal_thread(pid, tid, libc::SIGUSR1);
            std::thread::sleep(Duration::from_micros(20));
        }
        let before = turns.load(Relaxed);
        let goes_on = || turns.load(Relaxed) != before;
        let ends = Instant::now() + Duration::from_secs(10);
        while !goes_on() && Instant::now() < ends {
            std::thread::sleep(Duration::from_millis(10));
        }
        is_over.store(true, Release);
        if !goes_on() {
            // It cannot be joined.
            eprintln!("a handler waits for a lock that its own thread holds");
            std::process::exit(1);
        }
    });
    HANDLED.load(Relaxed) > 0
}

#[test]
fn a_handler_never_waits_for_what_its_own_thread_holds() {
    let (_client, server) = direct();
    INDEX.store(server.index(), Relaxed);
    // SAFETY: a function of this binary, which takes a number.
    unsafe { libc::signal(libc::SIGUSR1, handle as *const () as usize) };
    assert!(waits_under_signals(|| report::count(Counter::Sleeps)));
    assert!(waits_under_signals(|| {
        let mut fds = [libc::pollfd { fd: server.fd, events: libc::POLLIN, revents: 0 }];
        let _ = poll::poll(&mut fds, Some(100_000), None);
    }));
    server.set_timeouts(Duration::from_millis(1));
    assert!(waits_under_signals(|| _ = server.recv(&mut [0; 1], 0)));
}

/// A bell may end a read's sleep for nothing: another thread has read its bytes, or it told a secret.
#[test]
fn a_handler_beside_a_bell_for_nothing_interrupts_a_read() {
    let (client, server) = direct();
    let mut byte = [0];
    let mut woken = |handler: bool, sent: &[u8]| {
        let mut buffers = [IoSliceMut::new(&mut byte)];
        let slept = receive::receive(server.fd, server.index(), &mut buffers, 0, None);
        assert!(matches!(slept, Received::Sleep), "nothing to read");
        let sleeper = receive::sleeper(server.index());
        assert_eq!(client.send(sent, 0), Ok(sent.len()));
        if handler {
            thread::run_handler(false, || ());
        }
        let woken = receive::woken(server.fd, server.index(), sleeper, Ok(1));
        let mut rest = vec![0; sent.len()];
        assert!(sent.is_empty() || server.recv(&mut rest, 0) == Ok(sent.len()));
        woken
    };
    assert_eq!(woken(false, b""), None, "it sleeps on");
    assert_eq!(woken(true, b"x"), None, "what came counts more");
    assert_eq!(woken(true, b""), Some(Err(Errno(libc::EINTR))));
    assert_eq!(woken(false, b""), None, "the next call was not interrupted");
}
