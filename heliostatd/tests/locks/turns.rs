//! Locks, reader-writer locks, semaphores and barriers between real processes.

use std::time::Duration;

use crate::support::beside::{may_become_others, NEIGHBOUR};
use crate::support::programs::Program;
use crate::support::{await_that, Daemon};
use heliostat_abi::session::record::Request;

/// Programs that have all opened the same.
fn programs<const COUNT: usize>(daemon: &Daemon, what: &str) -> [Program; COUNT] {
    std::array::from_fn(|_| {
        let mut program = Program::start(daemon);
        program.does(&format!("open it {what}"));
        program
    })
}

/// The token of an answer that says that something is held.
fn token(answer: &str) -> u64 {
    let words: Vec<_> = answer.split(' ').collect();
    assert_eq!(words[0], "held", "{answer}");
    words[1].parse().unwrap()
}

fn await_waiting(daemon: &Daemon, count: u64) {
    await_that("so many wait", || daemon.status()["locks"]["waiting"] == count);
}

#[test]
fn no_increment_of_eight_processes_is_lost() {
    let daemon = Daemon::start();
    let path = daemon.folder().join("counter");
    crate::support::write_file(&path, &0u64.to_le_bytes());
    let mut all: [Program; 8] = programs(&daemon, "lock counter");
    for program in &mut all {
        program.send(&format!("count it {} 1000", path.display()));
    }
    for program in &mut all {
        assert_eq!(program.hear(), "done");
    }
    assert_eq!(std::fs::read(&path).unwrap(), 8000u64.to_le_bytes());
    assert_eq!(daemon.status()["locks"]["held"], 0);
}

#[test]
fn who_waits_is_served_in_the_order_of_coming_and_tokens_grow() {
    let daemon = Daemon::start();
    let mut all: [Program; 5] = programs(&daemon, "lock line");
    let mut last = token(&all[0].say("claim it held x wait"));
    for (place, program) in all.iter_mut().enumerate().skip(1) {
        program.send("claim it held x wait");
        await_waiting(&daemon, place as u64);
    }
    for place in 1..5 {
        all[place - 1].does("release held");
        let next = token(&all[place].hear());
        assert!(next > last);
        last = next;
        await_waiting(&daemon, 4 - place as u64);
    }
}

#[test]
fn a_writer_that_waits_is_not_overtaken_by_readers() {
    let daemon = Daemon::start();
    let mut all: [Program; 4] = programs(&daemon, "reader_writer book");
    let first = token(&all[0].say("claim it held s wait"));
    assert!(token(&all[1].say("claim it held s wait")) > first);
    all[2].send("claim it held x wait");
    await_waiting(&daemon, 1);
    assert_eq!(all[3].say("claim it held s try"), "late");
    all[3].send("claim it held s wait");
    await_waiting(&daemon, 2);
    all[0].does("release held");
    all[1].does("release held");
    let writer = token(&all[2].hear());
    assert_eq!(daemon.status()["locks"]["held"], 1);
    all[2].does("release held");
    assert!(token(&all[3].hear()) > writer);
}

#[test]
fn a_semaphore_gives_no_more_than_it_has_and_many_are_not_overtaken_by_few() {
    let daemon = Daemon::start();
    let mut all: [Program; 3] = programs(&daemon, "semaphore gate 2147483648");
    token(&all[0].say("claim it many 2147483647 wait"));
    token(&all[1].say("claim it one 1 wait"));
    assert_eq!(all[2].say("claim it held 1 try"), "late");
    all[1].does("release one");
    all[1].send("claim it two 2 wait");
    await_waiting(&daemon, 1);
    assert_eq!(all[2].say("claim it held 1 try"), "late", "there is one, but somebody waits");
    all[0].does("release many");
    token(&all[1].hear());
    token(&all[2].say("claim it held 1 wait"));
    let most = "error Count { count: 0, most: 2147483648 }";
    assert_eq!(all[2].say("claim it none 0 wait"), most);
}

#[test]
fn who_waits_no_longer_than_it_said_leaves_its_place() {
    let daemon = Daemon::start();
    let mut all: [Program; 3] = programs(&daemon, "lock late");
    token(&all[0].say("claim it held x wait"));
    assert_eq!(all[1].say("claim it held x 30"), "late");
    assert_eq!(all[1].say("claim it held x try"), "late");
    all[1].does("request it place");
    all[2].send("claim it held x wait");
    await_waiting(&daemon, 2);
    all[1].does("give_up place");
    all[0].does("release held");
    token(&all[2].hear());
    // A place that was given up after its turn had come is given back as well.
    all[1].does("request it place");
    all[2].does("release held");
    all[1].does("give_up place");
    token(&all[0].say("claim it held x wait"));
}

#[test]
fn threads_of_one_process_wait_at_the_same_time() {
    let daemon = Daemon::start();
    let mut all: [Program; 2] = programs(&daemon, "lock threads");
    all[1].send("together it 6 40");
    assert_eq!(all[0].say("together it 6 40"), "240 done, 0 met");
    assert_eq!(all[1].hear(), "240 done, 0 met");
}

#[test]
fn four_processes_meet_at_a_barrier_again_and_again() {
    let daemon = Daemon::start();
    let mut all: [Program; 4] = programs(&daemon, "barrier step 4");
    for generation in 1..20 {
        all.iter_mut().for_each(|program| program.send("arrive it wait"));
        let mut heard: Vec<_> = all.iter_mut().map(Program::hear).collect();
        heard.sort();
        let wanted: Vec<_> = (0..4).map(|index| format!("passed {generation} {index}")).collect();
        assert_eq!(heard, wanted);
    }
}

#[test]
fn a_barrier_breaks_by_giving_up_and_is_whole_after_a_reset() {
    let daemon = Daemon::start();
    let mut all: [Program; 3] = programs(&daemon, "barrier step 3");
    all[0].send("arrive it wait");
    await_waiting(&daemon, 1);
    assert_eq!(all[1].say("arrive it 30"), "late");
    assert_eq!(all[0].hear(), "error broken 1 GaveUp");
    assert_eq!(all[2].say("arrive it wait"), "error broken 1 GaveUp");
    all[2].does("reset it");
    all[0].send("arrive it wait");
    await_waiting(&daemon, 1);
    all[2].does("reset it");
    assert_eq!(all[0].hear(), "error broken 2 Reset");
    all.iter_mut().for_each(|program| program.send("arrive it wait"));
    let heard: Vec<_> = all.iter_mut().map(Program::hear).collect();
    assert!(heard.iter().all(|answer| answer.starts_with("passed 3")), "{heard:?}");
}

#[test]
fn a_name_is_one_thing_until_nobody_has_it_open() {
    let daemon = Daemon::start();
    let mut all: [Program; 2] = programs(&daemon, "semaphore name 4");
    for other in ["semaphore name 5", "semaphore name 4 silent", "lock name", "barrier name 4"] {
        assert_eq!(all[1].say(&format!("open other {other}")), "error Shape", "{other}");
    }
    assert_eq!(all[0].say("list"), "listed name:semaphore:2:0:0");
    all[0].does("close it");
    all[1].does("close it");
    assert_eq!(all[0].say("list"), "listed");
    all[0].does("open it lock name");
    let wrong = all[0].say("open it lock a//b");
    assert!(wrong.starts_with("error Name"), "{wrong}");
}

#[test]
fn names_belong_to_users_and_rules_open_them_to_others() {
    if !may_become_others() {
        return;
    }
    let rule = format!(
        "[[rule]]\naction = \"allow\"\nrights = [\"acquire\"]\nusers = [{NEIGHBOUR}]\nnames = [\"/lock/open/*\"]\n\
         [[rule]]\naction = \"deny\"\nrights = [\"acquire\"]\nnames = [\"/lock/closed\"]\n"
    );
    let daemon = Daemon::with(&rule, &[]);
    let mut own = Program::start(&daemon);
    let mut other = Program::of_user(&daemon, NEIGHBOUR);
    own.does("open it lock open/a");
    own.does("open secret lock a");
    assert_eq!(own.say("open closed lock closed"), "error refused Denied 0");
    other.does("open own lock open/a");
    assert!(token(&other.say("claim own held x try")) < token(&own.say("claim it held x try")));
    other.does("open it lock open/a user=0");
    assert_eq!(other.say("claim it more x try"), "late");
    assert_eq!(other.say("open secret lock a user=0"), "error refused Denied 0");
    assert_eq!(other.say("list"), "listed open/a:lock:1:1:0");
}

#[test]
fn who_waits_is_explained_and_counted() {
    let daemon = Daemon::start();
    let mut all: [Program; 3] = programs(&daemon, "lock why");
    token(&all[0].say("claim it held x wait"));
    for (place, program) in all.iter_mut().enumerate().skip(1) {
        program.send("claim it held x wait");
        await_waiting(&daemon, place as u64);
    }
    let explain = Request::Explain { pid: all[2].pid() };
    let told: serde_json::Value = serde_json::from_str(&daemon.visit().text(&explain)).unwrap();
    let waits = &told["locks"][0]["waits_for"][0];
    assert_eq!((&waits["name"], &waits["before"]), (&"/lock/why".into(), &1.into()));
    let status = daemon.status();
    let listed = &status["locks"]["listed"][0];
    assert_eq!((&listed["opened"], &listed["waiting"]), (&3.into(), &2.into()));
    let metrics = daemon.visit().text(&Request::Metrics);
    for line in ["lock_acquisitions_total 3", "lock_waits_total 2", "locks_waiting 2"] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
}

/// A list goes on where the last answer ended, whoever is between.
#[test]
fn a_list_has_all_of_many() {
    let daemon = Daemon::start();
    let [mut one]: [Program; 1] = programs(&daemon, "lock many/it");
    for number in 0..25 {
        one.does(&format!("open {number} lock many/{number}"));
    }
    one.does("close 7");
    let listed = one.say("list");
    assert_eq!(listed.split(' ').count(), 26, "{listed}");
    assert!(!listed.contains("many/7:"));
}

/// Who waits makes no request: nothing is polled.
#[test]
fn waiting_costs_nobody_anything() {
    let daemon = Daemon::start();
    let mut all: [Program; 2] = programs(&daemon, "lock quiet");
    token(&all[0].say("claim it held x wait"));
    all[1].send("claim it held x wait");
    await_waiting(&daemon, 1);
    let ticks = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let before = (daemon.ticks(), ticks(all[1].pid()));
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!((daemon.ticks(), ticks(all[1].pid())), before);
    all[0].does("release held");
    token(&all[1].hear());
}
