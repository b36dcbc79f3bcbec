//! Beside other threads, across fork, and in a sandbox that forbids it.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::memory::{in_a_fork, tracker, Memory, PAGE};
use heliostat_backend_pages::track::{probe, TrackError, WriteTracker};
use heliostat_base::sys::{Errno, Sysno};

const PAGES: usize = 512;
const WRITERS: usize = 2;

/// What the others skip without: decided by what the kernel says to calls that fail in any case.
#[test]
fn there_is_tracking_wherever_the_kernel_has_it_and_no_filter_refuses_it() {
    const NO_SUCH_FLAGS: i32 = 1 | 1 << 30;
    // SAFETY: the call takes no pointer.
    let answer = unsafe { libc::syscall(libc::SYS_userfaultfd, NO_SUCH_FLAGS) };
    assert_eq!(answer, -1, "there are no such flags");
    let is_allowed = std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL);
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a kernel");
    let mut numbers = release.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next(), numbers.next());
    // The scan for written pages is as old as that (Linux 6.7).
    assert_eq!(probe().is_ok(), is_allowed && version >= (Some(6), Some(7)));
}

/// A copy kept up to date by takes alone ends up equal to the memory: a write that no take saw
/// would be missing from it.
#[test]
fn no_write_is_lost_between_takes_while_threads_write() {
    let Some(tracker) = tracker() else { return };
    let memory = Memory::of_pages(PAGES);
    let mut copy = vec![[0u64; WRITERS]; PAGES];
    tracker.watch(memory.all()).expect("watches");
    let first = memory.all().start / PAGE;
    let refresh = |copy: &mut [[u64; WRITERS]]| {
        for page in memory.taken(&tracker).into_iter().flat_map(|run| run.step_by(PAGE)) {
            let page = page / PAGE - first;
            copy[page] = std::array::from_fn(|word| memory.word(page, word).load(Relaxed));
        }
    };
    for round in 1..=40 {
        while_writers_run(&memory, round, || refresh(&mut copy));
        refresh(&mut copy);
        for (page, words) in copy.iter().enumerate() {
            let now = std::array::from_fn(|word| memory.word(page, word).load(Relaxed));
            assert_eq!(*words, now, "page {page} in round {round}");
        }
    }
}

/// Runs `meanwhile` again and again until all writers of a round have ended.
fn while_writers_run(memory: &Memory, round: u64, mut meanwhile: impl FnMut()) {
    let running = &AtomicUsize::new(WRITERS);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                stamp(memory, writer, round);
                running.fetch_sub(1, Release);
            });
        }
        while running.load(Acquire) > 0 {
            meanwhile();
        }
    });
}

/// Stores to pages in an order of the writer's own, each value once.
fn stamp(memory: &Memory, writer: usize, round: u64) {
    let mut state = round * 2 + writer as u64 + 1;
    for step in 0..4000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let page = (state >> 33) as usize % PAGES;
        memory.word(page, writer).store(round << 32 | step, Relaxed);
    }
}

#[test]
fn a_forked_child_is_told_and_the_parent_goes_on() {
    let Some(tracker) = tracker() else { return };
    let memory = Memory::of_pages(8);
    tracker.watch(memory.all()).expect("watches");
    memory.store(1);
    let is_told = in_a_fork(|| {
        memory.store(5);
        let mut written = Vec::new();
        let forked = Err(TrackError::Forked);
        tracker.take(memory.all(), &mut written) == forked
            && tracker.peek(memory.all(), &mut written) == forked
            && tracker.watch(memory.all()) == forked
            && tracker.unwatch(memory.all()) == forked
            && written.is_empty()
    });
    assert!(is_told);
    memory.store(3);
    let mut wanted = vec![memory.pages(1, 2), memory.pages(3, 4)];
    assert_eq!(memory.taken(&tracker), wanted, "without the child's own page");
    let child_tracks_too = in_a_fork(|| tracks_afresh(&memory));
    assert!(child_tracks_too);
    memory.store(6);
    wanted = vec![memory.pages(6, 7)];
    assert_eq!(memory.taken(&tracker), wanted);
}

/// A tracker made after fork works, on memory that the parent watches too.
fn tracks_afresh(memory: &Memory) -> bool {
    let Ok(own) = WriteTracker::new() else { return false };
    if own.watch(memory.all()).is_err() {
        return false;
    }
    memory.store(0);
    memory.taken(&own) == [memory.pages(0, 1)]
}

#[test]
fn a_sandbox_without_userfaultfd_is_named() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        let is_named = in_a_fork(|| {
            forbid(Sysno::userfaultfd, errno);
            let wanted = TrackError::Unsupported { call: "userfaultfd", errno: Errno(errno) };
            probe() == Err(wanted)
        });
        assert!(is_named, "{errno}");
    }
}

/// Has the kernel answer `errno` to one system call of this process from now on.
fn forbid(call: Sysno, errno: i32) {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let answer = libc::BPF_RET | libc::BPF_K;
    let mut filter = [
        // The number of the call is the first word of `seccomp_data`.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: `program` and the filter it points to are alive for both calls, which only read.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program), 0);
    }
}
