//! Files that become durable by how they are used: appended to, and flushed again and again.
//!
//! What counts is seen at the flush itself, of the descriptor that is flushed: it is open to append, or
//! stands at the file's end, or has never been moved (pwrite(2)); and the file has grown since its last
//! flush. Nothing rests on the guess: a file that is written elsewhere too is as right, and slower.

use heliostat_abi::code::Unheld;
use heliostat_base::call;
use heliostat_base::lock::Lock;

use super::recent::Recent;

/// Flushes that have found more at the end before a file is durable.
const ENOUGH: u8 = 4;
/// More count no more: so many flushes without anything new end it.
const MOST: u8 = 8;
/// What a flush that found nothing new takes back.
const SETBACK: u8 = 2;

static FILES: Lock<Recent<File>> = Lock::new(Recent::new(File::NEW));

/// Is this file, which is about to be flushed, one that pays to be held back for?
pub fn judge(fd: i32, identity: (u64, u64)) -> Result<(), Unheld> {
    let Some((_, bytes)) = call::mode_and_bytes(fd) else { return Err(Unheld::NotRegular) };
    let is_append =
        call::fcntl(fd, libc::F_GETFL, 0).is_ok_and(|flags| flags as i32 & libc::O_APPEND != 0);
    let is_at_end = is_append || call::offset(fd).is_some_and(|at| at == 0 || at >= bytes);
    FILES.lock().of(identity).judge(bytes, is_at_end)
}

/// In the child of a fork another thread may have had it.
pub fn reset_in_forked_child() {
    FILES.reset_in_forked_child();
}

#[derive(Clone, Copy)]
struct File {
    /// Its length at its last flush; `u64::MAX` before the first.
    bytes: u64,
    appended: u8,
    is_durable: bool,
}

impl File {
    const NEW: Self = Self { bytes: u64::MAX, appended: 0, is_durable: false };

    fn judge(&mut self, bytes: u64, is_at_end: bool) -> Result<(), Unheld> {
        // Of the first flush nobody knows what has come since the one before.
        let (before, is_first) = (self.bytes, self.bytes == u64::MAX);
        self.bytes = bytes;
        let has_grown = bytes > before;
        self.appended = match (is_at_end, has_grown) {
            (true, true) => (self.appended + 1).min(MOST),
            (true, false) if bytes == before => self.appended.saturating_sub(SETBACK),
            _ => 0,
        };
        let (enough, some) = (self.appended >= ENOUGH, self.appended > 0);
        self.is_durable = enough || self.is_durable && some;
        match self.is_durable {
            true => Ok(()),
            false if is_first || is_at_end && some => Err(Unheld::Undetected),
            false => Err(Unheld::NotAppended),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(file: &mut File, flushes: &[(u64, bool)]) -> Vec<Result<(), Unheld>> {
        flushes.iter().map(|(bytes, is_at_end)| file.judge(*bytes, *is_at_end)).collect()
    }

    #[test]
    fn a_file_that_grows_at_each_flush_is_durable_from_the_fifth_on() {
        let mut file = File::NEW;
        let flushes: Vec<_> = (1..=6).map(|turn| (turn * 10, true)).collect();
        let (no, yes) = (Err(Unheld::Undetected), Ok(()));
        assert_eq!(judged(&mut file, &flushes), [no, no, no, no, yes, yes]);
    }

    #[test]
    fn a_file_of_one_length_and_one_written_in_its_middle_never_are() {
        let mut file = File::NEW;
        assert!(judged(&mut file, &[(10, true); 20]).iter().all(Result::is_err));
        assert_eq!(file.judge(10, true), Err(Unheld::NotAppended));
        let flushes: Vec<_> = (1..=20).map(|turn| (turn * 10, false)).collect();
        let verdicts = judged(&mut { File::NEW }, &flushes);
        assert!(verdicts[1..].iter().all(|it| *it == Err(Unheld::NotAppended)));
    }

    #[test]
    fn a_durable_one_outlasts_some_flushes_of_nothing_and_ends_when_it_is_cut() {
        let mut file = File::NEW;
        let flushes: Vec<_> = (1..=9).map(|turn| (turn * 10, true)).collect();
        assert_eq!(judged(&mut file, &flushes).last(), Some(&Ok(())));
        assert_eq!(
            judged(&mut file, &[(90, true); 4]),
            [Ok(()), Ok(()), Ok(()), Err(Unheld::NotAppended)]
        );
        assert!(judged(&mut file, &flushes).last() == Some(&Ok(())));
        assert_eq!(file.judge(5, true), Err(Unheld::NotAppended));
    }
}
