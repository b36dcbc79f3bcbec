//! Kernel memory that no control group counts: locks of files, memory policies, access lists.
//!
//! Each is small, but a program may have any number of them, of files in memory too, for which it
//! needs no grant. So where memory is limited the calls that make them are asked about, and there
//! are only so many (sources: fs/locks.c, mm/mempolicy.c, fs/posix_acl.c; their caches and
//! allocations are not accounted).

use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};

/// Locks of byte ranges until those that are held are counted, and most that may be held then. A
/// call may make two of one, so that 131,072 of 192 bytes are the most: 24 MiB.
const LOCKS_MAX: u32 = 65536;
/// Where so many are held, as no program does, there are no further ones for a while: counting is
/// work for others too, whose locks wait meanwhile.
const LOCKS_MANY: u32 = LOCKS_MAX / 2;
const PAUSE: Duration = Duration::from_millis(200);
/// Bytes of the list of all locks: twice as many lines as there may be, and others'.
const LIST_BYTES_MAX: u64 = 32 << 20;
/// Memory policies that are set on ranges, ever: at most two of 336 bytes by each call, 42 MiB.
const POLICIES_MAX: u32 = 65536;
/// Bytes of an access list. A file in memory of a kilobyte could have 64 times as much otherwise.
pub const ACCESS_LIST_BYTES_MAX: usize = 4096;

/// What of them a sealed program may still have.
#[derive(Debug)]
pub struct Uncharged {
    locks: AtomicU32,
    policies: AtomicU32,
    /// Locks may belong to nobody who lives (`shares_descriptors`).
    hides_owners: AtomicBool,
    next_count: Mutex<Option<Instant>>,
}

impl Default for Uncharged {
    fn default() -> Self {
        Self {
            locks: AtomicU32::new(LOCKS_MAX),
            policies: AtomicU32::new(POLICIES_MAX),
            hides_owners: AtomicBool::new(false),
            next_count: Mutex::new(None),
        }
    }
}

fn take_one(left: &AtomicU32) -> bool {
    left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok()
}

impl Uncharged {
    /// Processes that share a table of descriptors without being threads are born: a lock's owner is
    /// that table, and what the kernel shows is the number of who set it, who may have ended. From
    /// now on locks that are set are not seen to be gone.
    pub fn shares_descriptors(&self) {
        self.hides_owners.store(true, SeqCst);
    }

    /// Whether one more call may lock, or unlock, a range of a file; unlocking may split one.
    pub fn may_lock(&self, proc: &OwnedFd, is_own: impl Fn(i32) -> bool) -> bool {
        if take_one(&self.locks) {
            return true;
        }
        let Ok(mut next_count) = self.next_count.lock() else { return false };
        let waits = next_count.is_some_and(|next| Instant::now() < next);
        if waits || self.hides_owners.load(SeqCst) {
            return false;
        }
        let held = held_locks(proc, is_own).unwrap_or(LOCKS_MAX);
        *next_count = (held > LOCKS_MANY).then(|| Instant::now() + PAUSE);
        self.locks.store(LOCKS_MAX.saturating_sub(held), SeqCst);
        take_one(&self.locks)
    }

    /// Whether one more range of memory may have a policy of its own.
    pub fn may_set_policy(&self) -> bool {
        take_one(&self.policies)
    }
}

/// How many locks processes of the program hold. Nothing if that cannot be said.
fn held_locks(proc: &OwnedFd, is_own: impl Fn(i32) -> bool) -> Option<u32> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let list = rustix::fs::openat(proc, "locks", flags, Mode::empty()).ok()?;
    let mut text = String::new();
    std::fs::File::from(list).take(LIST_BYTES_MAX).read_to_string(&mut text).ok()?;
    ((text.len() as u64) < LIST_BYTES_MAX).then(|| count_locks(&text, is_own))
}

/// Lines of /proc/locks that are the program's, or may be: a lock of an open file names nobody.
fn count_locks(text: &str, is_own: impl Fn(i32) -> bool) -> u32 {
    let mut known: Option<(i32, bool)> = None;
    let mut is_counted = |process: i32| {
        // Most often the lines of one process follow each other.
        let found = known.filter(|(before, _)| *before == process);
        let (_, is_own) = *known.insert(found.unwrap_or_else(|| (process, is_own(process))));
        is_own
    };
    let processes = text.lines().map(|line| {
        let mut words = line.split_whitespace().skip(1).filter(|word| *word != "->");
        words.nth(3).and_then(|word| word.parse().ok())
    });
    processes.filter(|process| process.is_none_or(|one| one < 0 || is_counted(one))).count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proc() -> OwnedFd {
        rustix::fs::open("/proc", OFlags::PATH, Mode::empty()).expect("/proc")
    }

    #[test]
    fn locks_of_others_are_not_counted_and_those_of_nobody_are() {
        let text = "1: POSIX  ADVISORY  WRITE 700 fd:01:1234 0 0\n\
                    1: -> POSIX  ADVISORY  WRITE 701 fd:01:1234 0 0\n\
                    2: FLOCK  ADVISORY  WRITE 9 fd:01:77 0 EOF\n\
                    3: OFDLCK ADVISORY  READ -1 00:01:5 2 3\n";
        assert_eq!(count_locks(text, |process| process == 700), 2);
        assert_eq!(count_locks(text, |process| process >= 700), 3);
        assert_eq!(count_locks("", |_| true), 0);
    }

    #[test]
    fn who_locks_and_unlocks_goes_on_and_who_hides_owners_does_not() {
        let all = Uncharged::default();
        let locks = |count: u32| (0..count).all(|_| all.may_lock(&proc(), |_| false));
        assert!(locks(LOCKS_MAX), "none is held, so that there is room again");
        assert!(locks(1));
        all.shares_descriptors();
        assert!(locks(1), "what is left is left");
        let rest = all.locks.load(SeqCst);
        assert!(locks(rest) && !locks(1));
    }

    #[test]
    fn locks_that_are_held_are_room_no_more() {
        let file = tempfile::tempfile().expect("a file");
        rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
            .expect("a lock");
        let own = std::process::id() as i32;
        assert!(held_locks(&proc(), |process| process == own).is_some_and(|held| held >= 1));
    }

    #[test]
    fn policies_are_counted_once_and_for_all() {
        let all = Uncharged::default();
        assert_eq!(
            (0..POLICIES_MAX + 10).filter(|_| all.may_set_policy()).count() as u32,
            POLICIES_MAX
        );
    }
}
