//! Rates of delegated memory operations: by user and by name, whoever they are asked by, on every loop.

use std::time::{Duration, Instant};

use crate::support::beside::{may_become_others, ATTACKERS, NEIGHBOUR};
use crate::support::programs::Program;
use crate::support::Daemon;

const MIB: u64 = 1 << 20;

/// A daemon with one rate and two loops, and the owner of a region that others may use.
fn limited(rate: &str) -> (Daemon, Program) {
    let config = format!("[memory]\nloops = 2\n[[rate]]\n{rate}\n");
    let daemon = Daemon::with(&config, &[]);
    let mut owner = Program::start(&daemon);
    assert_eq!(owner.say(&format!("allocate kv {} name=kv/it others=rwa", 4 * MIB)), "direct");
    (daemon, owner)
}

fn of_user(daemon: &Daemon, user: u32) -> Program {
    let mut program = Program::of_user(daemon, user);
    assert_eq!(program.say("map kv kv/it rwa 0"), "delegated");
    program
}

fn time(act: impl FnOnce()) -> Duration {
    let began = Instant::now();
    act();
    began.elapsed()
}

const OF_NAMES: &str = "names = [\"/memory/kv/*\"]\nper = \"user\"\nbytes_per_second = 4194304";

/// Two megabytes are half a second's worth, of which the burst is a tenth of a second's.
#[test]
fn every_kind_of_operation_on_a_name_counts_its_bytes() {
    if !may_become_others() {
        return;
    }
    let (daemon, mut owner) = limited(OF_NAMES);
    owner.say(&format!("allocate free {} name=free others=rwa", 4 * MIB));
    let two = 2 * MIB;
    for line in [
        format!("fill kv 1 0 {two}"),
        format!("check kv 1 0 {two}"),
        format!("set kv 0 {two} 1"),
        format!("copy kv 0 kv 100 {two}"),
        format!("copy kv 0 free 0 {two}"),
        format!("operations taken kv 1 100 {}", two / 200),
    ] {
        let mut program = of_user(&daemon, NEIGHBOUR);
        assert_eq!(program.say("map free free rwa 0"), "delegated");
        // What the one before owes is paid by then.
        program.does("set kv 0 1 1");
        // Something larger than the burst is let through, and whoever comes next waits until it is paid.
        let took = time(|| drop((program.say(&line), program.say("set kv 0 1 1"))));
        assert!(took >= Duration::from_millis(350), "{line}: {took:?}");
        let free = time(|| program.does(&format!("set free 0 {two} 1")));
        assert!(free < took, "{line}: another name has no rate: {free:?}");
    }
    let direct = time(|| (0..20).for_each(|_| owner.does(&format!("set kv 0 {two} 1"))));
    assert!(direct < Duration::from_secs(9), "what is mapped is not counted: {direct:?}");
}

#[test]
fn programs_of_a_user_have_a_rate_together_on_all_loops() {
    if !may_become_others() {
        return;
    }
    let (daemon, _owner) = limited("per = \"user\"\nbytes_per_second = 4194304");
    let mut all = [of_user(&daemon, NEIGHBOUR), of_user(&daemon, NEIGHBOUR)];
    let took = time(|| {
        all.iter_mut().for_each(|program| program.send(&format!("set kv 0 {MIB} 1")));
        all.iter_mut().for_each(|program| assert_eq!(program.hear(), "done"));
        all.iter_mut().for_each(|program| program.send(&format!("set kv 0 {MIB} 1")));
        all.iter_mut().for_each(|program| assert_eq!(program.hear(), "done"));
    });
    assert!(took >= Duration::from_millis(550), "four megabytes, each loop two: {took:?}");
    // Who comes again owes what was taken.
    drop(all);
    let mut next = of_user(&daemon, NEIGHBOUR);
    let took = time(|| drop((next.say("set kv 0 1048576 1"), next.say("set kv 0 1 1"))));
    assert!(took >= Duration::from_millis(150), "{took:?}");
}

/// The flood may do twenty operations in a second. With these the neighbour's would take minutes.
#[test]
fn a_neighbour_within_its_rate_is_not_held_up_by_one_who_floods() {
    if !may_become_others() {
        return;
    }
    let rate = "names = [\"/memory/kv/*\"]\nper = \"user\"\noperations_per_second = 20";
    let free = format!("{rate}\nusers = [{}]", ATTACKERS[0]);
    for loops in [1, 2] {
        let daemon = Daemon::with(&format!("[memory]\nloops = {loops}\n[[rate]]\n{free}\n"), &[]);
        let mut owner = Program::start(&daemon);
        owner.say("allocate kv 4096 name=kv/it others=rwa");
        let mut floods = [of_user(&daemon, ATTACKERS[0]), of_user(&daemon, ATTACKERS[0])];
        let mut neighbour = of_user(&daemon, NEIGHBOUR);
        let began = Instant::now();
        floods.iter_mut().for_each(|flood| flood.send("operations flood kv 200"));
        let took = time(|| assert_eq!(neighbour.say("add kv 8 1 5000"), "4999"));
        let flooded: u64 = owner.say("add kv 0 0 1").parse().unwrap();
        let most = 20 * began.elapsed().as_millis() as u64 / 1000 + 3;
        assert!(flooded <= most, "{loops} loops: {flooded} of {most} after {took:?}");
        assert!(took < Duration::from_secs(60), "{took:?}");
    }
}
