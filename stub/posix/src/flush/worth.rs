//! Which files gain nothing by being held back for, or by the log: found by what their program does.
//!
//! A flush that the very next call waits for was begun and waited for, which costs more than the
//! kernel's own; a file that is overwritten in place has the log emptied each time. Where most of some
//! flushes of a file were such, the next ones are the kernel's, or the file's, and then it is tried
//! again: programs change. And a log that is emptied as often as it is used is left alone: a file's first flush
//! after that is one of its folder too.

use heliostat_abi::code::{Unheld, Unlogged};
use heliostat_base::lock::Lock;
use heliostat_base::sync::Ordering::Relaxed;
use heliostat_base::sync::{AtomicBool, AtomicU64};
use heliostat_base::{call, clock};

use super::recent::Recent;
use crate::thread::Critical;

/// Flushes of a file that are judged together.
const JUDGED: u32 = 32;
/// Of them, how many in vain make it native (three quarters), and how often overwritten in place.
const VAIN_MAX: u32 = JUDGED * 3 / 4;
const OVERWRITTEN_MAX: u32 = JUDGED / 8;
/// Of so many flushes that the log could have taken, how many first ones have it left alone: a half.
const FIRST_MAX: u32 = JUDGED / 2;
/// Flushes until it is tried again: what a trial costs is a small part of them. After each trial in
/// vain they are twice as many, up to the last.
const LEFT_FOR: u32 = 1024;
const LEFT_FOR_MAX: u32 = 16 * LEFT_FOR;
/// A wait so soon after a flush was asked for has left no time that was gained.
const SOON_NS: u64 = 100_000;

/// When the flush was asked for that nothing was held back for, and nothing has waited for, yet; or 0.
static ASKED_AT: AtomicU64 = AtomicU64::new(0);
/// Whether any file was ever left: only then is one looked for before its name.
static HAS_LEFT: AtomicBool = AtomicBool::new(false);
static FILES: Lock<Files> = Lock::new(Files { recent: Recent::new(File::NEW), last: (0, 0) });

/// May this flush be held back for? Counts it.
pub fn judge(identity: (u64, u64)) -> Result<(), Unheld> {
    match FILES.lock().recent.of(identity).is_left() {
        true => {
            HAS_LEFT.store(true, Relaxed);
            Err(Unheld::Unprofitable)
        }
        false => Ok(()),
    }
}

/// Is this file left, which the kernel's table says cheaper than its name? Counts the flush where it is.
#[inline]
pub fn is_left(fd: i32) -> bool {
    HAS_LEFT.load(Relaxed) && call::identity(fd).is_some_and(is_known_as_left)
}

fn is_known_as_left(identity: (u64, u64)) -> bool {
    let mut files = FILES.lock();
    let known = files.recent.known(identity);
    known.is_some_and(|file| file.left > 0 && file.is_left())
}

/// May the file have entries in the log?
pub fn judge_log(identity: (u64, u64)) -> Result<(), Unlogged> {
    match FILES.lock().recent.of(identity).is_left_by_log() {
        true => Err(Unlogged::Overwritten),
        false => Ok(()),
    }
}

/// A flush of this file itself was begun, and the program goes on.
pub fn note_begun(identity: (u64, u64)) {
    FILES.lock().last = identity;
    ASKED_AT.store(clock::monotonic_ns(), Relaxed);
}

/// Something was held back: what was begun pays.
#[inline]
pub fn note_held() {
    ASKED_AT.store(0, Relaxed);
}

/// A call waits for all that is not flushed.
pub fn note_awaited() {
    let asked_at = ASKED_AT.swap(0, Relaxed);
    if asked_at != 0 && clock::monotonic_ns().saturating_sub(asked_at) < SOON_NS {
        let _critical = Critical::enter();
        let mut files = FILES.lock();
        let last = files.last;
        files.recent.of(last).vain += 1;
    }
}

/// A file that the log was kept for is overwritten.
pub fn note_overwritten(identity: (u64, u64)) {
    FILES.lock().recent.of(identity).overwritten += 1;
}

/// In the child of a fork another thread may have had it.
pub fn reset_in_forked_child() {
    FILES.reset_in_forked_child();
    ASKED_AT.store(0, Relaxed);
}

/// How often the log is begun anew for a file, of all flushes that it has taken or begun with.
pub struct Firsts {
    asked: u32,
    first: u32,
    /// First flushes that are the file's alone from now on.
    left: u32,
}

impl Firsts {
    /// Nothing was asked yet.
    pub const fn new() -> Self {
        Self { asked: 0, first: 0, left: 0 }
    }

    /// May the log be begun for a file now?
    pub fn judge(&mut self) -> Result<(), Unlogged> {
        let is_left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        if is_left {
            Err(Unlogged::Overwritten)
        } else {
            Ok(())
        }
    }

    /// It was begun by this flush, or has taken it.
    pub fn count(&mut self, is_first: bool) {
        self.asked += 1;
        self.first += u32::from(is_first);
        if self.asked == JUDGED {
            self.left = if self.first >= FIRST_MAX { LEFT_FOR } else { 0 };
            (self.asked, self.first) = (0, 0);
        }
    }
}

struct Files {
    recent: Recent<File>,
    /// Of these a flush was begun last.
    last: (u64, u64),
}

#[derive(Clone, Copy)]
struct File {
    asked: u32,
    vain: u32,
    overwritten: u32,
    /// Flushes that are the kernel's from now on, or not the log's.
    left: u32,
    left_by_log: u32,
    /// How many they are when it is left the next time.
    left_next: u32,
}

impl File {
    const NEW: Self =
        Self { asked: 0, vain: 0, overwritten: 0, left: 0, left_by_log: 0, left_next: LEFT_FOR };

    fn is_left(&mut self) -> bool {
        if self.left > 0 {
            self.left -= 1;
            return true;
        }
        self.asked += 1;
        if self.asked > JUDGED {
            let (is_vain, is_over) = (self.vain >= VAIN_MAX, self.overwritten >= OVERWRITTEN_MAX);
            (self.asked, self.vain, self.overwritten) = (1, 0, 0);
            self.left = if is_vain { self.left_next } else { 0 };
            self.left_next = if is_vain { LEFT_FOR_MAX.min(self.left_next * 2) } else { LEFT_FOR };
            self.left_by_log = if is_over { LEFT_FOR } else { self.left_by_log };
            return is_vain;
        }
        false
    }

    fn is_left_by_log(&mut self) -> bool {
        let is_left = self.left_by_log > 0;
        self.left_by_log = self.left_by_log.saturating_sub(1);
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_whose_flushes_are_in_vain_is_left_for_a_while_and_tried_again() {
        let mut file = File::NEW;
        for _ in 0..JUDGED {
            assert!(!file.is_left());
            file.vain += 1;
        }
        assert!((0..=LEFT_FOR).all(|_| file.is_left()));
        assert!((0..JUDGED).all(|_| !file.is_left()), "tried again");
        assert!(!file.is_left(), "it has been worth it this time");
    }

    #[test]
    fn after_each_trial_in_vain_a_file_is_left_for_longer() {
        let mut file = File::NEW;
        for turn in 0..10 {
            while !file.is_left() {
                file.vain += 1;
            }
            let flushes = (1..).take_while(|_| file.is_left()).count() as u32;
            assert_eq!(flushes, LEFT_FOR_MAX.min(LEFT_FOR << turn));
            // The one that was not left is of the next trial.
            file.vain += 1;
        }
    }

    #[test]
    fn a_file_that_pays_now_and_then_goes_on() {
        let mut file = File::NEW;
        for turn in 0..20 * JUDGED {
            assert!(!file.is_left());
            file.vain += u32::from(turn % 3 > 0);
        }
    }

    #[test]
    fn a_file_that_is_overwritten_again_and_again_leaves_the_log_alone_for_a_while() {
        let mut file = File::NEW;
        for turn in 0..JUDGED {
            assert!(!file.is_left() && !file.is_left_by_log());
            file.overwritten += u32::from(turn % 7 == 0);
        }
        assert!(!file.is_left(), "it is held back for all the same");
        assert!((0..LEFT_FOR).all(|_| file.is_left_by_log()) && !file.is_left_by_log());
        for _ in 0..20 * JUDGED {
            assert!(!file.is_left() && !file.is_left_by_log(), "seldom is well");
        }
    }

    #[test]
    fn a_log_that_is_begun_anew_half_of_the_time_is_left_alone_for_a_while() {
        let mut firsts = Firsts::new();
        for turn in 0..20 * JUDGED {
            firsts.count(turn % 3 == 0);
            assert!(firsts.judge().is_ok(), "it is worth two entries");
        }
        let mut firsts = Firsts::new();
        (0..JUDGED).for_each(|turn| firsts.count(turn % 2 == 0));
        assert!((0..LEFT_FOR).all(|_| firsts.judge() == Err(Unlogged::Overwritten)));
        assert!(firsts.judge().is_ok(), "it is tried again");
    }
}
