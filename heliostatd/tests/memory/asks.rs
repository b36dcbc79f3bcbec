//! The owner of a memory region is asked who may map it.

use crate::support::beside::{may_become_others, NEIGHBOUR};
use crate::support::programs::Program;
use crate::support::Daemon;

fn owner(daemon: &Daemon) -> Program {
    let mut owner = Program::start(daemon);
    owner.say("allocate kv 100 name=kv");
    owner.does("ask kv");
    owner
}

#[test]
fn who_may_not_by_the_rules_may_with_the_owners_yes() {
    if !may_become_others() {
        return;
    }
    let daemon = Daemon::start();
    let mut owner = owner(&daemon);
    let mut other = Program::of_user(&daemon, NEIGHBOUR);
    other.send("map kv kv rw 0");
    assert_eq!(owner.say("answer rw"), format!("asked {NEIGHBOUR} read+write"));
    assert_eq!(other.hear(), "delegated");
    owner.does("write kv 0 yes");
    assert_eq!(other.say("read kv 0 3"), "read yes");
    other.send("map more kv rw 0");
    owner.say("answer -");
    assert_eq!(other.hear(), "error refused Unwilling 0");
    other.send("map more kv rw 0");
    owner.say("answer r");
    assert_eq!(other.hear(), "error refused Unwilling 0", "all of the rights or nothing");
}

/// Others are served meanwhile.
#[test]
fn an_owner_that_says_nothing_has_said_no_and_holds_up_nobody() {
    if !may_become_others() {
        return;
    }
    let daemon = Daemon::start();
    let _owner = owner(&daemon);
    let mut other = Program::of_user(&daemon, NEIGHBOUR);
    let mut third = Program::start(&daemon);
    other.send("map kv kv rw 0");
    for round in 0..20 {
        assert_eq!(third.say(&format!("allocate {round} 100")), "direct");
    }
    assert_eq!(other.hear(), "error refused Unwilling 0");
}

#[test]
fn an_owner_that_ends_has_said_no() {
    if !may_become_others() {
        return;
    }
    let daemon = Daemon::start();
    let owner = owner(&daemon);
    let mut other = Program::of_user(&daemon, NEIGHBOUR);
    other.send("map kv kv rw 0");
    owner.kill();
    assert_eq!(other.hear().split(' ').nth(1), Some("refused"));
    // Whether there is a name is told to nobody who may not map it.
    assert_eq!(other.say("map kv kv rw 0"), "error refused Denied 0");
}
