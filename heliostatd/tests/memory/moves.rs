//! Regions that move to other pieces of their node's memory, while programs of every path go on with them.

use crate::support::beside::{may_become_others, NEIGHBOUR};
use crate::support::cluster::{nodes, SecretFile};
use crate::support::programs::Program;
use crate::support::{await_that, Daemon};
use rustix::process::{kill_process, Pid, Signal};

/// A region with bytes everywhere, its owner, and another program that has mapped it.
fn both(daemon: &Daemon, bytes: u64) -> (Program, Program) {
    let mut owner = Program::start(daemon);
    assert_eq!(owner.say(&format!("allocate kv {bytes} name=kv others=rwa")), "direct");
    owner.does(&format!("fill kv 5 8 {}", bytes - 8));
    let mut other = Program::start(daemon);
    assert_eq!(other.say("map kv kv rwam"), "direct");
    (owner, other)
}

fn moving(daemon: &Daemon) -> u64 {
    daemon.status()["memory"]["moving"].as_u64().unwrap()
}

fn signal(program: &Program, signal: Signal) {
    kill_process(Pid::from_raw(program.pid() as i32).unwrap(), signal).unwrap();
}

#[test]
fn a_region_that_has_moved_has_its_bytes_and_its_handles() {
    let daemon = Daemon::start();
    let (mut owner, mut other) = both(&daemon, 5_000_000);
    for _ in 0..3 {
        owner.does("relocate kv 1");
        for program in [&mut owner, &mut other] {
            assert_eq!(program.say("check kv 5 8 4999992"), "same");
            assert_eq!(program.say("size kv"), "5000000");
        }
        assert_eq!(other.say("read kv 5000000 1"), "error range 5000000");
    }
    other.does("write kv 100 from-the-other");
    assert_eq!(owner.say("read kv 100 14"), "read from-the-other");
    other.does("grow kv 6000000");
    other.does("relocate kv 1");
    assert_eq!(owner.say("read kv 5000000 3"), "read ...");
    let status = daemon.status();
    assert_eq!(status["memory"]["bytes"], 6_000_000, "nothing is taken twice");
    assert_eq!(status["memory"]["moving"], 0);
}

#[test]
fn an_arena_is_given_back_once_what_lay_in_it_has_moved() {
    let daemon = Daemon::with("[memory]\narena_bytes = 2097152\n", &[]);
    let mut owner = Program::start(&daemon);
    // Four to an arena; one stays in each of the first two.
    for at in 0..8 {
        owner.say(&format!("allocate r{at} 500000"));
        owner.does(&format!("fill r{at} {at} 0 500000"));
    }
    assert_eq!(daemon.status()["memory"]["arenas"], 2);
    for at in [1, 2, 3, 5, 6, 7] {
        owner.does(&format!("drop r{at}"));
    }
    owner.does("relocate r0 1");
    owner.does("relocate r4 1");
    assert_eq!(daemon.status()["memory"]["arenas"], 1);
    assert_eq!(owner.say("check r0 0 0 500000"), "same");
    assert_eq!(owner.say("check r4 4 0 500000"), "same");
}

#[test]
fn writers_of_every_path_go_on_and_nothing_of_theirs_is_lost() {
    let secret = SecretFile::new("move-1", "6a");
    let [near, far] = nodes::<2>(&secret);
    let (mut owner, mut direct) = both(&near, 40 << 20);
    let mut remote = Program::start(&far);
    assert_eq!(remote.say("on 1 map kv kv rwa"), "on 1");
    let mut delegated = None;
    if may_become_others() {
        let mut other = Program::of_user(&near, NEIGHBOUR);
        assert_eq!(other.say("map kv kv rwa 0"), "delegated");
        other.send("add kv 0 1 40000");
        delegated = Some(other);
    }
    let mut writer = Program::start(&near);
    assert_eq!(writer.say("map kv kv rw"), "direct");
    direct.send("add kv 0 1 400000");
    remote.send("add kv 0 1 4000");
    writer.send("refill kv 9 1000000 3000000 100");
    owner.does("relocate kv 12");
    assert_eq!(writer.hear(), "same");
    let mut wanted = 404_000;
    direct.hear();
    remote.hear();
    if let Some(delegated) = &mut delegated {
        delegated.hear();
        wanted += 40_000;
    }
    assert_eq!(owner.say("add kv 0 0 1"), wanted.to_string());
    owner.does("relocate kv 1");
    assert_eq!(remote.say("add kv 0 0 1"), wanted.to_string());
    for program in [&mut owner, &mut direct, &mut remote] {
        assert_eq!(program.say("check kv 5 8 999992"), "same");
        assert_eq!(program.say("check kv 9 1000000 3000000"), "same");
        assert_eq!(program.say("check kv 5 4000000 37943040"), "same");
    }
}

#[test]
fn copies_within_a_region_and_between_two_go_on_while_both_move() {
    let daemon = Daemon::start();
    let (mut owner, mut other) = both(&daemon, 2_000_000);
    assert_eq!(owner.say("allocate second 2000000 name=second"), "direct");
    assert_eq!(other.say("map second second rwm"), "direct");
    let mut mover = Program::start(&daemon);
    mover.say("map second second m");
    mover.send("relocate second 40");
    other.send("relocate kv 40");
    for _ in 0..200 {
        owner.does("copy kv 8 second 8 1000000");
        owner.does("copy second 8 kv 8 1000000");
        owner.does("copy kv 8 kv 16 0");
    }
    assert_eq!((mover.hear(), other.hear()), ("done".into(), "done".into()));
    assert_eq!(owner.say("check kv 5 8 1999992"), "same");
    assert_eq!(owner.say("check second 5 8 1000000"), "same");
}

#[test]
fn who_stays_in_a_region_is_named_and_the_region_stays_too() {
    let daemon = Daemon::start();
    let (mut owner, mut other) = both(&daemon, 3_000_000);
    other.does("stay kv 0 4096");
    let pid = other.pid();
    assert_eq!(owner.say("relocate kv 1"), format!("error held {pid}"));
    assert_eq!(moving(&daemon), 0);
    assert_eq!(owner.say("check kv 5 8 2999992"), "same");
    assert_eq!(other.say("add kv 0 1 1000"), "999");
    other.does("stay_no_more");
    owner.does("relocate kv 1");
    assert_eq!(owner.say("add kv 0 1 1"), "1000");
    // It leaves by its end, while it is waited for.
    other.does("stay kv 0 4096");
    owner.send("relocate kv 1");
    await_that("it moves", || moving(&daemon) == 1);
    other.kill();
    assert_eq!(owner.hear(), "done");
    assert_eq!(owner.say("check kv 5 8 2999992"), "same");
}

#[test]
fn a_program_that_is_stopped_holds_a_region_at_most_until_its_end() {
    let daemon = Daemon::start();
    let (mut owner, mut other) = both(&daemon, 3_000_000);
    other.send("refill kv 5 8 2999992 1000000");
    std::thread::sleep(std::time::Duration::from_millis(20));
    signal(&other, Signal::STOP);
    let answer = owner.say("relocate kv 1");
    let held = format!("error held {}", other.pid());
    assert!(answer == "done" || answer == held, "{answer}");
    other.kill();
    owner.does("relocate kv 1");
    assert_eq!(owner.say("size kv"), "3000000");
}

#[test]
fn a_mover_that_is_killed_leaves_a_region_that_is_whole() {
    let daemon = Daemon::start();
    let (mut owner, other) = both(&daemon, 60 << 20);
    let mut mover = Some(other);
    for time in 0..6 {
        let mut program = mover.take().unwrap();
        program.send("relocate kv 100");
        await_that("it moves", || moving(&daemon) == 1);
        program.kill();
        assert!(owner.say(&format!("add kv 0 1 {}", time + 1)).parse::<u64>().is_ok());
        assert_eq!(owner.say("check kv 5 8 62914552"), "same");
        let mut next = Program::start(&daemon);
        next.say("map kv kv rwam");
        mover = Some(next);
    }
    await_that("no move goes on", || moving(&daemon) == 0);
    assert_eq!(owner.say("add kv 0 0 1"), "21");
    assert_eq!(daemon.status()["memory"]["bytes"], 60 << 20);
}

#[test]
fn a_region_that_is_freed_while_it_moves_is_gone_and_nothing_of_it_is_left() {
    let daemon = Daemon::start();
    for _ in 0..5 {
        let (mut owner, mut other) = both(&daemon, 60 << 20);
        other.send("relocate kv 100");
        await_that("it moves", || moving(&daemon) == 1);
        owner.does("free kv");
        assert_eq!(other.hear(), "error stale");
        other.does("drop kv");
        await_that("nothing is left", || daemon.status()["memory"]["bytes"] == 0);
        assert_eq!(moving(&daemon), 0);
    }
}

#[test]
fn a_region_that_has_no_room_twice_is_not_moved() {
    let daemon = Daemon::with("[memory]\nbytes_per_user = 5000000\n", &[]);
    let (mut owner, mut other) = both(&daemon, 3_000_000);
    assert_eq!(owner.say("relocate kv 1"), "error refused Full 5000000");
    assert_eq!(other.say("check kv 5 8 2999992"), "same");
    other.say("map read kv r");
    assert_eq!(other.say("relocate read 1"), "error refused Denied 0");
    assert_eq!(daemon.status()["memory"]["bytes"], 3_000_000);
}

#[test]
fn a_region_that_has_as_many_pieces_as_may_be_grows_on() {
    let daemon = Daemon::start();
    let mut owner = Program::start(&daemon);
    owner.say("allocate kv 64 name=kv");
    let mut other = Program::start(&daemon);
    other.say("map kv kv r");
    // What lies behind each piece is another region's.
    for at in 1..200u64 {
        owner.does(&format!("fill kv 3 0 {}", at * 64));
        owner.say(&format!("allocate wall{at} 64"));
        owner.does(&format!("grow kv {}", (at + 1) * 64));
        assert_eq!(other.say(&format!("check kv 3 0 {}", at * 64)), "same", "{at}");
    }
    assert_eq!(other.say("size kv"), "12800");
}
