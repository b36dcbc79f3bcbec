//! What real processes of two nodes saw of one node's words and locks has an order in which each call took
//! effect at once.

mod support;

use std::path::PathBuf;

use heliostat_base::clock::monotonic_ns;
use heliostat_verify_linearizability::model::*;
use heliostat_verify_linearizability::{check, Call, History};
use support::cluster::{nodes, SecretFile};
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

/// Two nodes, numbers 1 and 2. Words and locks are on node 2.
fn pair(test: &str) -> ([Daemon; 2], SecretFile) {
    let secret = SecretFile::new(test, "7e");
    (nodes::<2>(&secret), secret)
}

fn locker(daemon: &Daemon, what: &str) -> Program {
    let mut program = Program::with(daemon, None, &[("LOCKERS", "1")]);
    program.does(&format!("open it {what} on=2"));
    program
}

/// Two programs of each node.
fn lockers_of(nodes: &[Daemon; 2], what: &str) -> Vec<Program> {
    [0, 1, 0, 1].iter().map(|node| locker(&nodes[*node], what)).collect()
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

#[test]
fn words_of_a_region_that_programs_of_two_nodes_change() {
    let (nodes, _secret) = pair("order-words");
    let mut all: Vec<_> = [1, 1, 0, 0].iter().map(|node| Program::start(&nodes[*node])).collect();
    assert_eq!(all[0].say("allocate kv 64 name=kv"), "direct");
    assert_eq!(all[1].say("map kv kv rwa"), "direct");
    for program in &mut all[2..] {
        assert_eq!(program.say("on 2 map kv kv rwa"), "on 2");
    }
    let paths = paths(&nodes[0], all.len());
    for (seed, (program, path)) in all.iter_mut().zip(&paths).enumerate() {
        program.send(&format!("record kv {} 800 2 {}", path.display(), seed + 1));
    }
    all.iter_mut().for_each(|program| assert_eq!(program.hear(), "done"));
    let read = |(process, path): (usize, &PathBuf)| {
        recorded::read(path, process as u64, word_operation, |words| number(words[0]))
    };
    let calls: Vec<_> = paths.iter().enumerate().flat_map(read).collect();
    assert_eq!(calls.len(), 3200);
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

fn record(all: &mut [Program], paths: &[PathBuf], count: u64) {
    for (seed, (program, path)) in all.iter_mut().zip(paths).enumerate() {
        program.send(&format!("record it {} {count} {}", path.display(), seed + 1));
    }
}

#[test]
fn a_reader_writer_lock_of_processes_of_two_nodes() {
    let (nodes, _secret) = pair("order-lock");
    let mut all = lockers_of(&nodes, "reader_writer it");
    let paths = paths(&nodes[0], all.len());
    record(&mut all, &paths, 150);
    all.iter_mut().for_each(|program| assert_eq!(program.hear(), "done"));
    let read = |(process, path): (usize, &PathBuf)| {
        recorded::read(path, process as u64, lock_operation, lock_answer)
    };
    let calls: Vec<_> = paths.iter().enumerate().flat_map(read).collect();
    assert!(calls.len() > 900, "{} calls", calls.len());
    assert_eq!(check(&LockModel, &History::new(calls).unwrap()), Ok(()));
}

/// Whoever is killed while it holds has released at some time after that, and not before.
#[test]
fn a_lock_whose_holders_on_both_nodes_are_killed() {
    let (nodes, _secret) = pair("order-killed");
    let mut all = lockers_of(&nodes, "reader_writer it");
    let killed = [0, 1].map(|node| locker(&nodes[node], "reader_writer it"));
    all.extend(killed);
    let paths = paths(&nodes[0], all.len());
    record(&mut all, &paths, 100);
    std::thread::sleep(std::time::Duration::from_millis(60));
    let killed_ns = monotonic_ns();
    all.split_off(4).into_iter().for_each(Program::kill);
    all.iter_mut().for_each(|program| assert_eq!(program.hear(), "done"));
    let mut calls = Vec::new();
    for (process, path) in paths.iter().enumerate() {
        let mut own = recorded::read(path, process as u64, lock_operation, lock_answer);
        // A call without a response needs nothing more, as on one node.
        if process >= 4 && own.last().is_none_or(|call| call.responded.is_some()) {
            let last = own.last().map_or(killed_ns, |call| call.invoked_ns).max(killed_ns);
            let (process, operation) = (process as u64, LockOperation::Release);
            own.push(Call { process, invoked_ns: last, responded: None, operation });
        }
        calls.extend(own);
    }
    assert_eq!(check(&LockModel, &History::new(calls).unwrap()), Ok(()));
}

#[test]
fn a_semaphore_of_processes_of_two_nodes() {
    let (nodes, _secret) = pair("order-permits");
    let mut all = lockers_of(&nodes, "semaphore it 3");
    let paths = paths(&nodes[0], all.len());
    record(&mut all, &paths, 120);
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
    assert!(calls.len() > 600, "{} calls", calls.len());
    assert_eq!(check(&SemaphoreModel(3), &History::new(calls).unwrap()), Ok(()));
}
