//! Both paths of memory regions: the same calls, the same results, the same errors, at the same time.

use crate::support::beside::{may_become_others, NEIGHBOUR};
use crate::support::programs::Program;
use crate::support::Daemon;

/// The owner, and a program of another user whom the owner lets do all that others may.
fn both(daemon: &Daemon, bytes: u64) -> (Program, Program) {
    let mut owner = Program::start(daemon);
    assert_eq!(owner.say(&format!("allocate kv {bytes} name=kv others=rwa")), "direct");
    let mut other = Program::of_user(daemon, NEIGHBOUR);
    assert_eq!(other.say("map kv kv rwa 0"), "delegated");
    (owner, other)
}

#[test]
fn another_users_program_reads_and_writes_by_the_server_loop() {
    if !may_become_others() {
        return;
    }
    let daemon = Daemon::start();
    let (mut owner, mut other) = both(&daemon, 3_000_000);
    owner.does("write kv 50000 hello");
    assert_eq!(other.say("read kv 49999 7"), "read .hello.");
    // Shorter than a chunk, one, a few, and more than are under way at once.
    for (seed, bytes) in [1, 4096, 16_384, 16_385, 70_000, 2_900_000].into_iter().enumerate() {
        other.does(&format!("fill kv {seed} 77 {bytes}"));
        assert_eq!(owner.say(&format!("check kv {seed} 77 {bytes}")), "same");
        owner.does(&format!("fill kv {} 77 {bytes}", seed + 100));
        assert_eq!(other.say(&format!("check kv {} 77 {bytes}", seed + 100)), "same");
    }
    other.does("set kv 0 3000000 66");
    assert_eq!(owner.say("read kv 2999998 2"), "read BB");
    owner.does("write kv 10 0123456789");
    other.does("copy kv 10 kv 12 8");
    assert_eq!(owner.say("read kv 10 11"), "read 0101234567B");
    assert_eq!(other.say("size kv"), "3000000");
}

#[test]
fn errors_are_the_same_on_both_paths() {
    if !may_become_others() {
        return;
    }
    let daemon = Daemon::start();
    let (mut owner, mut other) = both(&daemon, 100);
    let wrong = [
        "read kv 100 1",
        "write kv 98 abc",
        "set kv 0 101 1",
        "copy kv 0 kv 99 2",
        "copy kv 99 kv 0 2",
        "add kv 96 1 1",
        "add kv 4 1 1",
        "compare_swap kv 100 0 1",
        "read kv 18446744073709551615 8",
        "write kv 9223372036854775807 x",
        "read kv 4611686018427387904 20000",
        "set kv 18446744073709551608 8 1",
        "copy kv 9223372036854775800 kv 0 8",
    ];
    for line in wrong {
        let answer = owner.say(line);
        assert!(answer.starts_with("error"), "{line}");
        assert_eq!(other.say(line), answer, "{line}");
    }
    owner.does("free kv");
    for line in ["read kv 0 1", "write kv 0 x", "set kv 0 1 1", "add kv 0 1 1", "size kv"] {
        assert_eq!(other.say(line), "error stale", "{line}");
    }
}

#[test]
fn a_read_only_handle_writes_on_no_path() {
    if !may_become_others() {
        return;
    }
    let daemon = Daemon::start();
    let mut owner = Program::start(&daemon);
    owner.say("allocate kv 100 name=kv others=r");
    let mut other = Program::of_user(&daemon, NEIGHBOUR);
    assert_eq!(other.say("map kv kv rw 0"), "error refused Denied 0");
    assert_eq!(other.say("map kv kv r 0"), "delegated");
    let mut same = Program::start(&daemon);
    assert_eq!(same.say("map kv kv r"), "direct");
    for line in ["write kv 0 x", "set kv 0 1 1", "add kv 0 1 1", "swap kv 0 1", "copy kv 0 kv 8 8"]
    {
        let answer = same.say(line);
        assert!(answer.starts_with("error denied"), "{line}: {answer}");
        assert_eq!(other.say(line), answer);
    }
    assert_eq!(owner.say("read kv 0 4"), "read ....");
}

#[test]
fn without_the_owners_yes_another_user_has_nothing() {
    if !may_become_others() {
        return;
    }
    let daemon = Daemon::start();
    let mut owner = Program::start(&daemon);
    owner.say("allocate kv 100 name=kv");
    let id = owner.say("id kv");
    let mut other = Program::of_user(&daemon, NEIGHBOUR);
    assert_eq!(other.say("map kv kv r 0").split(' ').nth(1), Some("refused"));
    assert_eq!(other.say(&format!("map_region kv {id} r")).split(' ').nth(1), Some("refused"));
    owner.does(&format!("appoint kv {NEIGHBOUR} r"));
    assert_eq!(other.say(&format!("map_region kv {id} r")), "delegated");
    assert_eq!(other.say(&format!("map_region more {id} rw")).split(' ').nth(1), Some("refused"));
}

#[test]
fn words_that_programs_on_both_paths_change_add_up() {
    if !may_become_others() {
        return;
    }
    let daemon = Daemon::start();
    let (mut owner, other) = both(&daemon, 4096);
    let mut third = Program::start(&daemon);
    third.say("map kv kv rwa");
    let mut fourth = Program::of_user(&daemon, NEIGHBOUR);
    fourth.say("map kv kv rwa 0");
    let mut all = [other, third, fourth];
    owner.send("add kv 64 1 20000");
    all.iter_mut().for_each(|program| program.send("add kv 64 1 20000"));
    owner.hear();
    all.iter_mut().for_each(|program| _ = program.hear());
    assert_eq!(owner.say("add kv 64 0 1"), "80000");
}

#[test]
fn a_region_that_grows_is_longer_on_both_paths_at_once() {
    if !may_become_others() {
        return;
    }
    let daemon = Daemon::start();
    let (mut owner, mut other) = both(&daemon, 1000);
    other.does("fill kv 1 0 1000");
    for bytes in [100_000, 5_000_000] {
        assert_eq!(other.say(&format!("read kv {} 1", bytes - 1)).split(' ').nth(1), Some("range"));
        owner.does(&format!("grow kv {bytes}"));
        other.does(&format!("write kv {} x", bytes - 1));
        assert_eq!(owner.say(&format!("read kv {} 1", bytes - 1)), "read x");
        assert_eq!(other.say("check kv 1 0 1000"), "same");
    }
}

#[test]
fn bytes_go_between_regions_of_different_paths() {
    if !may_become_others() {
        return;
    }
    let daemon = Daemon::start();
    let (mut owner, mut other) = both(&daemon, 300_000);
    assert_eq!(other.say("allocate own 300000"), "direct");
    owner.does("fill kv 5 0 300000");
    other.does("copy kv 0 own 0 300000");
    assert_eq!(other.say("check own 5 0 300000"), "same");
    other.does("set own 0 300000 67");
    other.does("copy own 100 kv 100 200000");
    assert_eq!(owner.say("read kv 200098 4").get(5..7), Some("CC"));
    assert_eq!(other.say("copy own 0 kv 299999 2"), "error range 300000");
}

#[test]
fn a_killed_owner_ends_a_delegated_region_too() {
    if !may_become_others() {
        return;
    }
    let daemon = Daemon::start();
    let (mut owner, mut other) = both(&daemon, 4096);
    owner.does("set kv 0 4096 97");
    other.send("await_stale kv");
    owner.kill();
    let mut next = Program::start(&daemon);
    for round in 0..50 {
        next.say(&format!("allocate {round} 4096"));
        next.does(&format!("set {round} 0 4096 98"));
    }
    assert_eq!(other.hear(), "stale");
}

#[test]
fn a_killed_delegated_program_gives_back_what_it_held() {
    if !may_become_others() {
        return;
    }
    let daemon = Daemon::start();
    let (mut owner, mut other) = both(&daemon, 50_000_000);
    for round in 0..20 {
        other.does(&format!("fill kv {round} 0 100000"));
        other.kill();
        owner.does("free kv");
        owner.say("allocate kv 50000000 name=kv others=rwa");
        other = Program::of_user(&daemon, NEIGHBOUR);
        assert_eq!(other.say("map kv kv rwa 0"), "delegated", "{round}");
    }
}

/// What is mapped goes on; what others do for a program does not.
#[test]
fn when_the_control_plane_dies_mapped_regions_go_on_and_delegated_ones_say_so() {
    if !may_become_others() {
        return;
    }
    let mut daemon = Daemon::start();
    let (mut owner, mut other) = both(&daemon, 4096);
    let mut same = Program::start(&daemon);
    same.say("map kv kv rwa");
    other.does("write kv 0 before");
    daemon.restart();
    owner.does("write kv 10 after");
    assert_eq!(same.say("read kv 0 15"), "read before....after");
    assert_eq!(same.say("add kv 64 1 1"), "0");
    for line in ["read kv 0 6", "write kv 0 x", "add kv 0 1 1", "size kv"] {
        assert_eq!(other.say(line), "error gone", "{line}");
    }
    assert_eq!(owner.say("grow kv 8192"), "error gone");
    assert_eq!(owner.say("read kv 0 6"), "read before");
    let mut next = Program::start(&daemon);
    assert_eq!(next.say("map kv kv r"), "error refused NotFound 0", "another run knows nothing");
}
