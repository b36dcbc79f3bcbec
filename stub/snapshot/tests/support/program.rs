//! Programs to be published from outside: forks that write what a test knows, and what it sees.

use std::sync::atomic::{fence, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use heliostat_stub_snapshot::{Attachment, Outside, Region, Settings, Version};

use crate::region::{attach, content};

pub const PAGE: usize = 4096;
pub const WORDS: usize = PAGE / 8;

/// Longest wait for what a program does in its own time; only one that stands still reaches it.
pub const WATCHDOG: Duration = Duration::from_secs(120);

/// Memory that is private after a fork, at the same address there.
pub fn memory(pages: usize) -> &'static [AtomicU64] {
    let (flags, len) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, pages * PAGE);
    // SAFETY: fresh zeroed memory, never unmapped here; zeros are atomics.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), len, 3, flags, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        std::slice::from_raw_parts(at.cast(), pages * WORDS)
    }
}

/// A forked program; killed on drop.
pub struct Program(pub i32);

impl Program {
    pub fn run(program: impl FnOnce()) -> Self {
        // SAFETY: the child runs the test's own code and ends by _exit.
        unsafe {
            match libc::fork() {
                0 => {
                    // A test that fails leaves nothing behind.
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(program));
                    libc::_exit(1);
                }
                pid => Self(pid),
            }
        }
    }

    pub fn end(&self) {
        // SAFETY: a child of ours; no status is asked for.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), libc::__WALL);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}

pub fn until(mut is_so: impl FnMut() -> bool) {
    let ends = Instant::now() + WATCHDOG;
    while !is_so() {
        assert!(Instant::now() < ends, "never");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Words that parent and child share.
pub fn bell() -> &'static [AtomicU64] {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: fresh zeroed memory, never unmapped; zeros are atomics.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), PAGE, 3, flags, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        std::slice::from_raw_parts(at.cast(), WORDS)
    }
}

/// Whether the writes of another program can be tracked here: not where the kernel refuses
/// userfaultfd(2), or pidfd_getfd(2), whatever they are asked for, as the default filters of
/// containers have it do. No such flags and no such descriptor: allowed, both fail with another error.
pub fn tracks_others() -> bool {
    const NO_SUCH_FLAGS: usize = 1 | 1 << 30;
    let calls = [(libc::SYS_userfaultfd, NO_SUCH_FLAGS), (libc::SYS_pidfd_getfd, usize::MAX)];
    let is_refused = |(number, argument): &(i64, usize)| {
        // SAFETY: neither call takes a pointer.
        let answer = unsafe { libc::syscall(*number, *argument, 0, 0) };
        let errno = std::io::Error::last_os_error().raw_os_error();
        answer < 0 && matches!(errno, Some(libc::EPERM | libc::ENOSYS))
    };
    match calls.iter().find(|call| is_refused(call)) {
        Some((number, _)) => println!("skipped: system call {number} is refused here"),
        None => return heliostat_backend_pages::track::probe().is_ok(),
    }
    false
}

pub fn tell(bell: &[AtomicU64], what: u64) {
    bell[0].store(what, Ordering::SeqCst);
    until(|| bell[1].load(Ordering::SeqCst) == what);
}

pub fn region_of(outside: &Outside, words: &[AtomicU64]) -> (Region, Attachment) {
    let (start, len) = (words.as_ptr() as usize, words.len() * 8);
    let mut region = outside.region(start, len, Settings::default()).unwrap();
    let (reader, _) = attach(&mut region);
    (region, reader)
}

pub fn words_of(version: &Version) -> Vec<u64> {
    let bytes = content(version);
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

/// Each thread writes its records for ever: word 0 counts up before and after, and between both
/// all other words of the record, page by page, get the same stamp.
pub fn write_records(records: &'static [&'static [AtomicU64]]) {
    std::thread::scope(|scope| {
        for record in records {
            scope.spawn(move || {
                for stamp in 1.. {
                    record[0].store(2 * stamp - 1, Ordering::Relaxed);
                    fence(Ordering::SeqCst);
                    record[1..].iter().for_each(|word| word.store(stamp, Ordering::Relaxed));
                    fence(Ordering::SeqCst);
                    record[0].store(2 * stamp, Ordering::Relaxed);
                }
            });
        }
    });
}

/// At every instant a record is whole (even count: all words the same stamp), or being written
/// (odd count: the new stamp, then the old one).
pub fn check_record(record: &[u64]) {
    let (count, words) = (record[0], &record[1..]);
    let stamp = count.div_ceil(2);
    let is_written = words.iter().take_while(|word| **word == stamp).count();
    match count % 2 {
        0 => assert_eq!(is_written, words.len(), "whole record {count} is torn"),
        _ => assert!(
            words[is_written..].iter().all(|word| *word == stamp - 1),
            "record {count} shows more than one instant"
        ),
    }
}
