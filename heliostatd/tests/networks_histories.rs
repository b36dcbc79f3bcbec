//! What programs of three nodes see over wires that lose, delay, reorder and are cut has an order in which
//! each call took effect at once: words of a region, a lock, words of a region with replicas.
//!
//! `make test-cluster` makes the networks and says what the wires do besides; without them nothing is
//! tested here.

mod support;

use std::path::PathBuf;
use std::time::Duration;

use heliostat_verify_linearizability::model::*;
use heliostat_verify_linearizability::{check, Call, History};
use support::cluster::{joined_count, nodes, SecretFile};
use support::histories::{lock_answer, lock_operation, number, word_operation};
use support::programs::Program;
use support::{await_that, lockers, networks, programs, recorded_through, Daemon};

/// Programs of either kind are this test binary again.
#[test]
fn program_process() {
    match std::env::var_os("LOCKERS") {
        Some(_) => lockers::play(),
        None => programs::play(),
    }
}

/// How long programs record, and when and for how long a node is cut off meanwhile: longer than it may
/// be silent.
const RECORDED_MS: u64 = 6000;
const CUT_AFTER: Duration = Duration::from_millis(1500);
const CUT: Duration = Duration::from_millis(2200);

struct Set {
    daemons: [Daemon; 3],
    _secret: SecretFile,
}

fn three(test: &str) -> Option<Set> {
    if !networks::are_used() {
        eprintln!("tested nothing: see `make test-cluster`");
        return None;
    }
    networks::wire("");
    let secret = SecretFile::new(test, "e8");
    Some(Set { daemons: nodes::<3>(&secret), _secret: secret })
}

impl Set {
    /// Where programs write what they saw.
    fn paths(&self, count: usize) -> Vec<PathBuf> {
        (0..count).map(|it| self.daemons[0].folder().join(format!("history-{it}"))).collect()
    }

    /// Programs record, one a node by turns, while the wire is cut as told; what each wrote.
    fn record(
        &self,
        all: &mut [Program],
        what: &str,
        more: &str,
        cut: Option<u64>,
    ) -> Vec<PathBuf> {
        let paths = self.paths(all.len());
        for (seed, (program, path)) in all.iter_mut().zip(&paths).enumerate() {
            let path = path.display();
            program.send(&format!("{what} {path} {RECORDED_MS}{more} {}", seed + 1));
        }
        if let Some(node) = cut {
            std::thread::sleep(CUT_AFTER);
            networks::wire(&format!("\"cut\": [{node}]"));
            std::thread::sleep(CUT);
            networks::wire("");
        }
        all.iter_mut().for_each(|program| assert_eq!(program.hear(), "done"));
        await_that("all are joined", || self.daemons.iter().all(|it| joined_count(it) == 2));
        paths
    }
}

/// All words of what was recorded have an order; says how many calls there were, and without response.
fn check_words(paths: &[PathBuf], least: usize) {
    let read = |(program, path): (usize, &PathBuf)| {
        recorded_through::read(path, program as u64, word_operation, |words| number(words[0]))
    };
    let calls: Vec<_> = paths.iter().enumerate().flat_map(read).collect();
    let unknown = calls.iter().filter(|call| call.responded.is_none()).count();
    eprintln!("{} calls, of which {unknown} without response", calls.len());
    assert!(calls.len() >= least, "{} calls", calls.len());
    for (word, part) in History::new(calls).unwrap().by_object(|(word, _)| *word) {
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

/// Words of a region on node 2, by programs of all nodes, the owner's own among them.
fn words(test: &str, cut: Option<u64>) {
    let Some(set) = three(test) else { return };
    let mut owner = Program::start(&set.daemons[1]);
    assert_eq!(owner.say("allocate kv 64 name=kv lasting"), "direct");
    let mut all: Vec<_> = [1, 0, 2, 0].iter().map(|it| Program::start(&set.daemons[*it])).collect();
    let paths = set.record(&mut all, "on 2 record_through kv", " 3", cut);
    check_words(&paths, 200);
}

#[test]
fn words_of_a_node_over_this_wire() {
    words("history-words", None);
}

#[test]
fn words_of_a_node_that_is_cut_off_meanwhile() {
    words("history-words-2", Some(2));
}

#[test]
fn words_of_a_node_while_one_of_its_users_is_cut_off() {
    words("history-words-3", Some(3));
}

/// Words of a region with replicas on all nodes, of which node 2 has the primary at first.
fn replicated(test: &str, cut: Option<u64>) {
    let Some(set) = three(test) else { return };
    let mut owner = Program::start(&set.daemons[1]);
    // Where the wire loses much, a node may be lost and joined again before that; and what ends as
    // Unreachable may be made yet.
    await_that("all have a copy", || {
        match owner.say("allocate kv 64 name=kv replicas=3").as_str() {
            "on 2" => true,
            "error refused Unreachable 0" => false,
            "error refused BadState 0" => owner.say("map kv kv rwa") == "on 2",
            other => panic!("{other}"),
        }
    });
    let mut all: Vec<_> = [1, 0, 2, 0].iter().map(|it| Program::start(&set.daemons[*it])).collect();
    let paths = set.record(&mut all, "record_through kv", " 3", cut);
    check_words(&paths, 100);
}

#[test]
fn words_of_replicas_over_this_wire() {
    replicated("history-replicas", None);
}

#[test]
fn words_of_replicas_whose_primary_is_cut_off_meanwhile() {
    replicated("history-replicas-2", Some(2));
}

#[test]
fn words_of_replicas_of_which_a_backup_is_cut_off_meanwhile() {
    replicated("history-replicas-3", Some(3));
}

/// A reader-writer lock of node 2.
fn lock(test: &str, cut: Option<u64>) {
    let Some(set) = three(test) else { return };
    let start = |at: &usize| Program::with(&set.daemons[*at], None, &[("LOCKERS", "1")]);
    let mut all: Vec<_> = [1, 0, 2, 0].iter().map(start).collect();
    let paths = set.record(&mut all, "record_through 2 it", "", cut);
    let read = |(program, path): (usize, &PathBuf)| {
        recorded_through::read(path, program as u64, lock_operation, lock_answer)
    };
    let calls: Vec<_> = paths.iter().enumerate().flat_map(read).collect();
    assert!(calls.len() > 200, "{} calls", calls.len());
    assert_eq!(check(&LockModel, &History::new(calls).unwrap()), Ok(()));
}

#[test]
fn a_lock_over_this_wire() {
    lock("history-lock", None);
}

#[test]
fn a_lock_of_a_node_that_is_cut_off_meanwhile() {
    lock("history-lock-2", Some(2));
}

#[test]
fn a_lock_while_one_of_its_users_is_cut_off() {
    lock("history-lock-3", Some(3));
}
