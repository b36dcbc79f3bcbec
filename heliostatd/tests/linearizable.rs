//! What real processes saw of words and locks has an order in which each call took effect at once.

mod support;

use std::path::PathBuf;

use heliostat_base::clock::monotonic_ns;
use heliostat_verify_linearizability::model::*;
use heliostat_verify_linearizability::{check, Call, History};
use support::beside::{may_become_others, NEIGHBOUR};
use support::programs::Program;
use support::{lockers, programs, recorded, Daemon};

/// Programs of either kind are this test binary again.
#[test]
fn program_process() {
    match std::env::var_os("LOCKERS") {
        Some(_) => lockers::play(),
        None => programs::play(),
    }
}

fn locker(daemon: &Daemon, what: &str) -> Program {
    let mut program = Program::with(daemon, None, &[("LOCKERS", "1")]);
    program.does(&format!("open it {what}"));
    program
}

fn paths(daemon: &Daemon, count: usize) -> Vec<PathBuf> {
    (0..count).map(|number| daemon.folder().join(format!("history-{number}"))).collect()
}

fn number(text: &str) -> u64 {
    text.parse().unwrap()
}

/// A word's number, and what was done with it.
fn word_operation(words: &[&str]) -> (u64, WordOperation) {
    let operation = match words[1] {
        "add" => WordOperation::FetchAdd(number(words[2])),
        "swap" => WordOperation::Swap(number(words[2])),
        _ => WordOperation::CompareSwap(number(words[2]), number(words[3])),
    };
    (number(words[0]), operation)
}

fn check_words(calls: Vec<Call<(u64, WordOperation), u64>>) {
    let history = History::new(calls).unwrap();
    for (word, part) in history.by_object(|(word, _)| *word) {
        let alone = part.calls().iter().map(|call| Call {
            process: call.process,
            invoked_ns: call.invoked_ns,
            responded: call.responded,
            operation: call.operation.1,
        });
        let part = History::new(alone.collect()).unwrap();
        assert_eq!(check(&WordModel(0), &part), Ok(()), "word {word}");
    }
}

/// Each program changes two words; what all of them saw is judged.
fn words_of(daemon: &Daemon, all: &mut [Program], count: u64) {
    let paths = paths(daemon, all.len());
    for path in &paths {
        support::write_file(path, b"");
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        std::fs::set_permissions(path, all).unwrap();
    }
    for (seed, (program, path)) in all.iter_mut().zip(&paths).enumerate() {
        program.send(&format!("record kv {} {count} 2 {}", path.display(), seed + 1));
    }
    all.iter_mut().for_each(|program| assert_eq!(program.hear(), "done"));
    let read = |(process, path): (usize, &PathBuf)| {
        recorded::read(path, process as u64, word_operation, |words| number(words[0]))
    };
    let calls: Vec<_> = paths.iter().enumerate().flat_map(read).collect();
    assert_eq!(calls.len() as u64, count * all.len() as u64);
    check_words(calls);
}

#[test]
fn words_of_a_region_that_programs_map() {
    let daemon = Daemon::start();
    let mut all: Vec<_> = (0..4).map(|_| Program::start(&daemon)).collect();
    assert_eq!(all[0].say("allocate kv 64 name=kv"), "direct");
    for program in &mut all[1..] {
        assert_eq!(program.say("map kv kv rwa"), "direct");
    }
    words_of(&daemon, &mut all, 2000);
}

#[test]
fn words_of_a_region_on_both_paths_at_once() {
    if !may_become_others() {
        return;
    }
    let daemon = Daemon::start();
    let mut all: Vec<_> = (0..2).map(|_| Program::start(&daemon)).collect();
    all.extend((0..2).map(|_| Program::of_user(&daemon, NEIGHBOUR)));
    assert_eq!(all[0].say("allocate kv 64 name=kv others=rwa"), "direct");
    assert_eq!(all[1].say("map kv kv rwa"), "direct");
    for program in &mut all[2..] {
        assert_eq!(program.say("map kv kv rwa 0"), "delegated");
    }
    words_of(&daemon, &mut all, 1000);
}

fn lock_operation(words: &[&str]) -> LockOperation {
    match words[0] {
        "read" => LockOperation::Read,
        "write" => LockOperation::Write,
        _ => LockOperation::Release,
    }
}

fn lock_answer(words: &[&str]) -> LockAnswer {
    match words[0] {
        "granted" => LockAnswer::Granted(number(words[1])),
        "busy" => LockAnswer::Busy,
        _ => LockAnswer::Done,
    }
}

#[test]
fn a_reader_writer_lock_of_four_processes() {
    let daemon = Daemon::start();
    let mut all: Vec<_> = (0..4).map(|_| locker(&daemon, "reader_writer it")).collect();
    let paths = paths(&daemon, all.len());
    for (seed, (program, path)) in all.iter_mut().zip(&paths).enumerate() {
        program.send(&format!("record it {} 250 {}", path.display(), seed + 1));
    }
    all.iter_mut().for_each(|program| assert_eq!(program.hear(), "done"));
    let read = |(process, path): (usize, &PathBuf)| {
        recorded::read(path, process as u64, lock_operation, lock_answer)
    };
    let calls: Vec<_> = paths.iter().enumerate().flat_map(read).collect();
    assert!(calls.len() > 1500, "{} calls", calls.len());
    assert_eq!(check(&LockModel, &History::new(calls).unwrap()), Ok(()));
}

/// Whoever is killed while it holds has released at some time after that, and not before.
#[test]
fn a_lock_whose_holders_are_killed() {
    let daemon = Daemon::start();
    let mut all: Vec<_> = (0..5).map(|_| locker(&daemon, "reader_writer it")).collect();
    let paths = paths(&daemon, all.len());
    for (seed, (program, path)) in all.iter_mut().zip(&paths).enumerate() {
        program.send(&format!("record it {} 150 {}", path.display(), seed + 1));
    }
    std::thread::sleep(std::time::Duration::from_millis(60));
    let killed_ns = monotonic_ns();
    all.split_off(3).into_iter().for_each(Program::kill);
    all.iter_mut().for_each(|program| assert_eq!(program.hear(), "done"));
    let mut calls = Vec::new();
    for (process, path) in paths.iter().enumerate() {
        let mut own = recorded::read(path, process as u64, lock_operation, lock_answer);
        if process >= 3 {
            let last = own.last().map_or(killed_ns, |call| call.invoked_ns).max(killed_ns);
            // A call without a response needs nothing more: what was granted, and ended with its holder,
            // changed nothing for others, and a release may take effect later.
            let is_open = own.last().is_some_and(|call| call.responded.is_none());
            if !is_open {
                let operation = LockOperation::Release;
                own.push(Call {
                    process: process as u64,
                    invoked_ns: last,
                    responded: None,
                    operation,
                });
            }
        }
        calls.extend(own);
    }
    assert_eq!(check(&LockModel, &History::new(calls).unwrap()), Ok(()));
}

#[test]
fn a_semaphore_of_four_processes() {
    let daemon = Daemon::start();
    let mut all: Vec<_> = (0..4).map(|_| locker(&daemon, "semaphore it 3")).collect();
    let paths = paths(&daemon, all.len());
    for (seed, (program, path)) in all.iter_mut().zip(&paths).enumerate() {
        program.send(&format!("record it {} 200 {}", path.display(), seed + 1));
    }
    all.iter_mut().for_each(|program| assert_eq!(program.hear(), "done"));
    let operation = |words: &[&str]| match words[0] {
        "acquire" => SemaphoreOperation::Acquire(number(words[1]) as u32),
        _ => SemaphoreOperation::Release,
    };
    let answer = |words: &[&str]| match words[0] {
        "busy" => SemaphoreAnswer::Busy,
        _ => SemaphoreAnswer::Done,
    };
    let read = |(process, path): (usize, &PathBuf)| {
        recorded::read(path, process as u64, operation, answer)
    };
    let calls: Vec<_> = paths.iter().enumerate().flat_map(read).collect();
    assert!(calls.len() > 1000, "{} calls", calls.len());
    assert_eq!(check(&SemaphoreModel(3), &History::new(calls).unwrap()), Ok(()));
}
