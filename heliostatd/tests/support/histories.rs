//! What several programs have recorded, judged: is there an order in which each call took effect at once?

use std::path::{Path, PathBuf};

use heliostat_base::clock::monotonic_ns;
use heliostat_verify_linearizability::model::*;
use heliostat_verify_linearizability::{check, Call, History};

use super::programs::Program;
use super::recorded::read;

/// A word's number, and what was done with it.
pub type WordCall = (u64, WordOperation);

/// Programs that record what they do, each in a file of its own. Killed ones have recorded until then.
pub struct Recorded {
    paths: Vec<PathBuf>,
    /// The first that was killed, and when.
    killed: Option<(usize, u64)>,
}

/// Tells programs to begin: the words of the order before and after the file's name, to which the
/// program's number is added.
pub fn record(all: &mut [Program], folder: &Path, order: &str, times: &str) -> Recorded {
    let paths: Vec<_> = (0..all.len()).map(|it| folder.join(format!("history-{it}"))).collect();
    for (seed, (program, path)) in all.iter_mut().zip(&paths).enumerate() {
        // Programs of other users write there as well.
        super::write_file(path, b"");
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        std::fs::set_permissions(path, all).unwrap();
        program.send(&format!("record {order} {} {times} {}", path.display(), seed + 1));
    }
    Recorded { paths, killed: None }
}

impl Recorded {
    /// Kills those from a place on, in the middle of what they do.
    pub fn kill_from(&mut self, all: &mut Vec<Program>, first: usize) {
        std::thread::sleep(std::time::Duration::from_millis(60));
        self.killed = Some((first, monotonic_ns()));
        all.split_off(first).into_iter().for_each(Program::kill);
    }

    /// Waits until the others have done all, and judges what was done with words that were 0. Returns how
    /// many calls there were.
    pub fn judge_words(&self, all: &mut [Program]) -> usize {
        let calls = self.calls(all, word_operation, |words| number(words[0]));
        let count = calls.len();
        let history = History::new(calls).unwrap();
        for (word, part) in history.by_object(|(word, _): &WordCall| *word) {
            let alone = part.calls().iter().map(|call| Call {
                process: call.process,
                invoked_ns: call.invoked_ns,
                responded: call.responded,
                operation: call.operation.1,
            });
            let part = History::new(alone.collect()).unwrap();
            check(&WordModel(0), &part).unwrap_or_else(|why| panic!("word {word}: {why}"));
        }
        count
    }

    /// The same of a reader-writer lock. Whoever was killed while it held has released at some time after
    /// that, and not before.
    pub fn judge_lock(&self, all: &mut [Program]) -> usize {
        let mut calls = self.calls(all, lock_operation, lock_answer);
        let (first, killed_ns) = self.killed.unwrap_or((self.paths.len(), 0));
        for process in first as u64..self.paths.len() as u64 {
            let last = calls.iter().rfind(|call| call.process == process);
            // A call without a response needs nothing more: what was granted, and ended with its holder,
            // changed nothing for others, and a release may take effect later.
            if last.is_none_or(|call| call.responded.is_some()) {
                let invoked_ns = last.map_or(killed_ns, |call| call.invoked_ns).max(killed_ns);
                let operation = LockOperation::Release;
                calls.push(Call { process, invoked_ns, responded: None, operation });
            }
        }
        let count = calls.len();
        assert_eq!(check(&LockModel, &History::new(calls).unwrap()), Ok(()));
        count
    }

    /// The same of a semaphore of so many permits.
    pub fn judge_semaphore(&self, all: &mut [Program], permits: u32) -> usize {
        let operation = |words: &[&str]| match words[0] {
            "acquire" => SemaphoreOperation::Acquire(number(words[1]) as u32),
            _ => SemaphoreOperation::Release,
        };
        let answer = |words: &[&str]| match words[0] {
            "busy" => SemaphoreAnswer::Busy,
            _ => SemaphoreAnswer::Done,
        };
        let calls = self.calls(all, operation, answer);
        let count = calls.len();
        assert_eq!(check(&SemaphoreModel(permits), &History::new(calls).unwrap()), Ok(()));
        count
    }

    fn calls<O, A>(
        &self,
        all: &mut [Program],
        operation: impl Fn(&[&str]) -> O,
        answer: impl Fn(&[&str]) -> A,
    ) -> Vec<Call<O, A>> {
        all.iter_mut().for_each(|program| assert_eq!(program.hear(), "done"));
        let each = self.paths.iter().enumerate();
        each.flat_map(|(process, path)| read(path, process as u64, &operation, &answer)).collect()
    }
}

/// A number of a recorded line.
pub fn number(text: &str) -> u64 {
    text.parse().unwrap()
}

/// A word's number, and what was done with it.
pub fn word_operation(words: &[&str]) -> WordCall {
    let operation = match words[1] {
        "add" => WordOperation::FetchAdd(number(words[2])),
        "swap" => WordOperation::Swap(number(words[2])),
        _ => WordOperation::CompareSwap(number(words[2]), number(words[3])),
    };
    (number(words[0]), operation)
}

/// What was asked of a lock.
pub fn lock_operation(words: &[&str]) -> LockOperation {
    match words[0] {
        "read" => LockOperation::Read,
        "write" => LockOperation::Write,
        _ => LockOperation::Release,
    }
}

/// What a lock answered.
pub fn lock_answer(words: &[&str]) -> LockAnswer {
    match words[0] {
        "granted" => LockAnswer::Granted(number(words[1])),
        "busy" => LockAnswer::Busy,
        _ => LockAnswer::Done,
    }
}
