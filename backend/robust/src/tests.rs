use std::sync::atomic::AtomicU64;
use std::sync::mpsc;

use super::*;
use heliostat_base::process::{fork_detached, Detached};

const WATCHDOG: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_millis(50);

/// Words that tests and their children look at together.
fn board() -> &'static SharedMapping {
    Box::leak(Box::new(SharedMapping::for_descendants(4096).unwrap()))
}

fn locks() -> &'static Locks {
    Box::leak(Box::new(Locks::new(4).unwrap()))
}

/// The child of a test with threads: it only makes system calls and ends without a word.
fn child(work: impl FnOnce()) -> i32 {
    // SAFETY: the child never returns into the test harness.
    match unsafe { libc::fork() } {
        0 => {
            forget_thread();
            work();
            process_exit()
        }
        pid => pid,
    }
}

fn process_exit() -> ! {
    heliostat_base::process::exit_now(0)
}

fn kill(pid: i32) {
    // SAFETY: our own child; the status is not asked for.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}

fn sleep_for_ever() {
    loop {
        std::thread::sleep(WATCHDOG);
    }
}

fn until(word: &AtomicU32, wanted: u32) {
    let ends = std::time::Instant::now() + WATCHDOG;
    while word.load(Acquire) != wanted {
        assert!(std::time::Instant::now() < ends, "no word of the child");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A child that holds lock 0 until it is killed, by `how` it comes to be.
fn holder(locks: &'static Locks, word: &AtomicU32) -> i32 {
    let pid = child(|| {
        let _held = locks.lock(0);
        word.store(1, Release);
        sleep_for_ever();
    });
    until(word, 1);
    pid
}

/// Takes lock 0 in a thread of its own, which says when it has it.
fn taker(locks: &'static Locks) -> mpsc::Receiver<bool> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let is_taken = locks.lock(0).is_some();
        let _ = tell.send(is_taken);
    });
    told
}

#[test]
fn processes_and_threads_count_without_loss() {
    const TURNS: u64 = 20_000;
    let (locks, board) = (locks(), board());
    let count = board.atomic_u64(64);
    let add = |count: &AtomicU64| {
        for _ in 0..TURNS {
            let _held = locks.lock(0).unwrap();
            let seen = count.load(Relaxed);
            count.store(seen + 1, Relaxed);
        }
    };
    let children: Vec<i32> = (0..3).map(|_| child(|| add(count))).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| add(count));
        add(count);
    });
    for pid in children {
        // SAFETY: our own child; the status is not asked for.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    }
    assert_eq!(count.load(Relaxed), 5 * TURNS);
}

#[test]
fn a_killed_holder_frees_it_for_who_comes_and_for_who_sleeps() {
    let (locks, board) = (locks(), board());
    kill(holder(locks, board.atomic_u32(0)));
    drop(locks.lock(0).expect("free again"));
    let second = holder(locks, board.atomic_u32(64));
    let told = taker(locks);
    assert!(told.recv_timeout(SOON).is_err(), "taken beside its holder");
    kill(second);
    assert_eq!(told.recv_timeout(WATCHDOG), Ok(true));
}

#[test]
fn a_holder_whom_nobody_else_knows_by_its_number_keeps_it_while_it_lives() {
    let (locks, board) = (locks(), board());
    let outer = child(|| {
        // SAFETY: none of these takes a pointer.
        let is_apart = unsafe {
            let apart = libc::CLONE_NEWUSER | libc::CLONE_NEWPID;
            libc::unshare(libc::CLONE_NEWPID) == 0 || libc::unshare(apart) == 0
        };
        // Where no namespace may be made it is one more holder like any other.
        board.atomic_u32(4).store(u32::from(is_apart), Release);
        let inner = child(|| {
            let _held = locks.lock(0);
            board.atomic_u32(8).store(heliostat_base::process::tid() as u32, Release);
            board.atomic_u32(0).store(1, Release);
            sleep_for_ever();
        });
        board.atomic_u32(12).store(inner as u32, Release);
        sleep_for_ever();
    });
    until(board.atomic_u32(0), 1);
    if board.atomic_u32(4).load(Acquire) == 1 {
        assert_eq!(board.atomic_u32(8).load(Acquire), 1, "first of its namespace");
    }
    let told = taker(locks);
    assert!(told.recv_timeout(SOON).is_err(), "taken beside its holder");
    while board.atomic_u32(12).load(Acquire) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: the child of our own child, which is still there.
    unsafe { libc::kill(board.atomic_u32(12).load(Acquire) as i32, libc::SIGKILL) };
    assert_eq!(told.recv_timeout(WATCHDOG), Ok(true));
    kill(outer);
}

#[test]
fn a_child_that_was_made_without_libc_frees_it_too() {
    let (locks, board) = (locks(), board());
    if fork_detached() == Ok(Detached::Child) {
        forget_thread();
        let held = locks.lock(0);
        board.atomic_u32(0).store(if held.is_some() { 1 } else { 2 }, Release);
        std::mem::forget(held);
        process_exit();
    }
    until(board.atomic_u32(0), 1);
    drop(locks.lock(0).expect("free again"));
}

#[test]
fn a_robust_mutex_of_libc_stands_in_the_list_beside_it() {
    let (locks, board) = (locks(), board());
    let mutex: *mut libc::pthread_mutex_t = board.bytes_at(128, 64).unwrap().cast();
    // SAFETY: 64 bytes of zeroed shared memory for a mutex of 40, which lives for ever.
    unsafe {
        let mut kind: libc::pthread_mutexattr_t = std::mem::zeroed();
        libc::pthread_mutexattr_init(&mut kind);
        libc::pthread_mutexattr_setpshared(&mut kind, libc::PTHREAD_PROCESS_SHARED);
        libc::pthread_mutexattr_setrobust(&mut kind, libc::PTHREAD_MUTEX_ROBUST);
        assert_eq!(libc::pthread_mutex_init(mutex, &kind), 0);
    }
    let at = mutex as usize;
    let pid = child(|| {
        // SAFETY: the mutex made above.
        unsafe { libc::pthread_mutex_lock(at as *mut libc::pthread_mutex_t) };
        drop(locks.lock(1));
        let _held = locks.lock(0);
        board.atomic_u32(0).store(1, Release);
        sleep_for_ever();
    });
    until(board.atomic_u32(0), 1);
    kill(pid);
    drop(locks.lock(0).expect("free again"));
    // SAFETY: as above.
    assert_eq!(unsafe { libc::pthread_mutex_lock(mutex) }, libc::EOWNERDEAD);
}
