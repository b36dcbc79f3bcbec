//! What real processes saw of words and locks has an order in which each call took effect at once.

use crate::support::beside::{may_become_others, NEIGHBOUR};
use crate::support::histories::record;
use crate::support::programs::Program;
use crate::support::Daemon;

fn locker(daemon: &Daemon, what: &str) -> Program {
    let mut program = Program::with(daemon, None, &[("LOCKERS", "1")]);
    program.does(&format!("open it {what}"));
    program
}

/// Each program changes two words; what all of them saw is judged.
fn words_of(daemon: &Daemon, all: &mut [Program], count: usize) {
    let recorded = record(all, daemon.folder(), "kv", &format!("{count} 2"));
    assert_eq!(recorded.judge_words(all), count * all.len());
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

#[test]
fn a_reader_writer_lock_of_four_processes() {
    let daemon = Daemon::start();
    let mut all: Vec<_> = (0..4).map(|_| locker(&daemon, "reader_writer it")).collect();
    let calls = record(&mut all, daemon.folder(), "it", "250").judge_lock(&mut all);
    assert!(calls > 1500, "{calls} calls");
}

/// Whoever is killed while it holds has released at some time after that, and not before.
#[test]
fn a_lock_whose_holders_are_killed() {
    let daemon = Daemon::start();
    let mut all: Vec<_> = (0..5).map(|_| locker(&daemon, "reader_writer it")).collect();
    let mut recorded = record(&mut all, daemon.folder(), "it", "150");
    recorded.kill_from(&mut all, 3);
    recorded.judge_lock(&mut all);
}

#[test]
fn a_semaphore_of_four_processes() {
    let daemon = Daemon::start();
    let mut all: Vec<_> = (0..4).map(|_| locker(&daemon, "semaphore it 3")).collect();
    let calls = record(&mut all, daemon.folder(), "it", "200").judge_semaphore(&mut all, 3);
    assert!(calls > 1000, "{calls} calls");
}
