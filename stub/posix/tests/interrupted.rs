//! What ends a call that blocks: a handler that ran at any time within it, and the time of its socket,
//! which begins once however often the call looks again.

mod support;

use std::io::IoSliceMut;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use heliostat_base::sys::Errno;
use heliostat_base::{call, process};
use heliostat_stub_posix::net::receive::{self, Received};
use heliostat_stub_posix::net::shadow::{self, sleepers};
use heliostat_stub_posix::net::socket::{self, Connection, Sleeper};
use heliostat_stub_posix::net::wait::{self, Blocked, Wake};
use heliostat_stub_posix::thread::{self, Began};
use support::pair::{direct, End, Moved};

const LIMIT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(20);

/// Writes until there is no room.
fn fill(end: &End) {
    while end.send(&[7; 4096], libc::MSG_DONTWAIT).is_ok() {}
    assert_eq!(end.send(&[7; 4096], libc::MSG_DONTWAIT), Err(libc::EAGAIN));
}

/// What a call answers in which a handler has run before it came to sleep.
fn answer_behind_a_handler(end: &End, restarts: bool, flags: i32) -> Moved {
    let began = Began::now();
    thread::run_handler(restarts, || ());
    let mut bytes = [0; 8];
    let mut buffers = [IoSliceMut::new(&mut bytes)];
    match receive::receive(end.fd, end.index(), &mut buffers, flags, Some(began)) {
        Received::Answer(answer) => answer.expect("direct").map_err(|Errno(errno)| errno),
        Received::Sleep => panic!("it sleeps where nothing interrupts it"),
    }
}

#[test]
fn a_handler_that_ran_before_the_sleep_interrupts_every_kind_of_read() {
    let (client, server) = direct();
    for flags in [0, libc::MSG_WAITALL] {
        assert_eq!(answer_behind_a_handler(&server, false, flags), Err(libc::EINTR));
    }
    assert_eq!(client.send(b"one", 0), Ok(3));
    assert_eq!(answer_behind_a_handler(&server, false, libc::MSG_WAITALL), Ok(3));
    let socket = socket::at(server.index());
    let stream = socket.stream().expect("it is direct");
    let connection = Connection::new(server.fd, socket, &stream);
    let (other, _) = sleepers::lie_down(connection, Sleeper::Call); // another thread
    assert_eq!(answer_behind_a_handler(&server, false, 0), Err(libc::EINTR));
    sleepers::get_up(connection, other);
}

#[test]
fn a_handler_that_ran_before_the_sleep_interrupts_a_write() {
    let (client, _server) = direct();
    client.set_timeouts(LIMIT);
    fill(&client);
    let socket = socket::at(client.index());
    let stream = socket.stream().expect("it is direct");
    let blocked = Blocked::writing(client.fd, Began::now());
    thread::run_handler(false, || ());
    assert_eq!(wait::sleep(socket, &stream, &blocked), Wake::Interrupted);
}

#[test]
fn a_call_with_a_timeout_is_not_restarted() {
    let (client, server) = direct();
    for end in [&client, &server] {
        end.set_timeouts(LIMIT);
    }
    assert_eq!(answer_behind_a_handler(&server, true, libc::MSG_WAITALL), Err(libc::EINTR));
    assert_eq!(answer_behind_a_handler(&server, true, 0), Err(libc::EINTR));
}

extern "C" fn restarts(_signal: i32) {
    thread::run_handler(true, || ());
}

/// What `wait` answers while another thread signals it, with a handler that has SA_RESTART.
fn signalled(wait: impl FnOnce() -> Moved + Send) -> Moved {
    // SAFETY: a function of this binary, which takes a number; signal(2) has SA_RESTART.
    unsafe { libc::signal(libc::SIGUSR2, restarts as *const () as usize) };
    let is_over = AtomicBool::new(false);
    let tid = std::sync::atomic::AtomicI32::new(0);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            tid.store(process::tid(), SeqCst);
            let answer = wait();
            is_over.store(true, SeqCst);
            answer
        });
        while !is_over.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(20));
            if tid.load(SeqCst) != 0 {
                let _ = call::signal_thread(process::pid(), tid.load(SeqCst), libc::SIGUSR2);
            }
        }
        waiter.join().expect("no panic")
    })
}

#[test]
fn a_write_with_a_timeout_is_interrupted_by_a_handler_that_restarts() {
    let (client, _server) = direct();
    client.set_timeouts(LONG);
    fill(&client);
    assert_eq!(signalled(|| client.send(&[7; 4096], 0)), Err(libc::EINTR));
}

#[test]
fn a_write_without_one_goes_on_beside_a_handler_that_restarts() {
    let (client, server) = direct();
    fill(&client);
    let sent = signalled(|| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(LIMIT);
                assert!(server.recv(&mut vec![0; 1 << 20], 0).is_ok());
            });
            client.send(&[7; 4096], 0)
        })
    });
    assert_eq!(sent, Ok(4096));
}

/// What `wait` answers on one end while the other one rings for nothing all the time, and after how long.
fn beside_bells(from: &End, wait: impl FnOnce() -> Moved) -> (Moved, Duration) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let socket = socket::at(from.index());
            let stream = socket.stream().expect("it is direct");
            let ends = Instant::now() + 10 * LIMIT;
            while !is_over.load(SeqCst) && Instant::now() < ends {
                shadow::ring_bell(from.fd, socket, &stream.outgoing, 0);
                std::thread::sleep(LIMIT / 6);
            }
        });
        let began = Instant::now();
        let answer = wait();
        is_over.store(true, SeqCst);
        (answer, began.elapsed())
    })
}

#[test]
fn a_timeout_ends_a_call_that_is_woken_for_nothing_all_the_time() {
    let (client, server) = direct();
    for end in [&client, &server] {
        end.set_timeouts(LIMIT);
    }
    let in_time = |(answer, passed): (Moved, Duration)| {
        assert_eq!(answer, Err(libc::EAGAIN));
        assert!(passed >= LIMIT && passed < 5 * LIMIT, "{passed:?}");
    };
    in_time(beside_bells(&client, || server.recv(&mut [0; 8], 0)));
    in_time(beside_bells(&client, || server.recv(&mut [0; 8], libc::MSG_WAITALL)));
    fill(&client);
    in_time(beside_bells(&server, || client.send(&[7; 4096], 0)));
}

#[test]
fn a_handler_that_sleeps_itself_leaves_what_it_has_interrupted_as_it_was() {
    let ((client, server), (other, others)) = (direct(), direct());
    let mut byte = [0];
    let mut buffers = [IoSliceMut::new(&mut byte)];
    let slept = receive::receive(server.fd, server.index(), &mut buffers, 0, None);
    assert!(matches!(slept, Received::Sleep), "nothing to read");
    let sleeper = receive::sleeper(server.index());
    thread::run_handler(false, || {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(LIMIT / 6);
                assert_eq!(other.send(b"x", 0), Ok(1));
            });
            assert_eq!(others.recv(&mut [0; 8], 0), Ok(1));
        });
    });
    assert_eq!(client.send(b"", 0), Ok(0));
    let woken = receive::woken(server.fd, server.index(), sleeper, Ok(1));
    assert_eq!(woken, Some(Err(Errno(libc::EINTR))));
}
