//! Areas as programs use them, each a process of its own, by either way.

mod support;

use std::time::{Duration, Instant};

use heliostat_abi::session::record::Request;
use support::areas::{self, A_WHILE};
use support::programs::Program;
use support::stores::{namespace, StoreFile, GRAIN};
use support::{await_that, Daemon};

/// Not a test: the programs of the tests below.
#[test]
fn program_process() {
    areas::play();
}

/// Owns nothing on any machine.
const STRANGER: u32 = 65533;
const WAYS: [&str; 2] = ["emulated", "direct"];

fn store(bytes: u64, more: &str) -> (StoreFile, Daemon) {
    let file = StoreFile::new(bytes);
    let daemon = Daemon::with(&file.config(more), &[]);
    (file, daemon)
}

#[test]
fn two_programs_share_an_area_by_both_ways_and_each_sees_what_the_other_has_written() {
    let (_file, daemon) = store(64 * GRAIN, "");
    let (mut one, mut other) = (Program::start(&daemon), Program::start(&daemon));
    one.does(&format!("create a {} emulated", 32 * GRAIN));
    other.does("open a data direct");
    assert_eq!((one.say("way a"), other.say("way a")), ("emulated".into(), "direct".into()));
    one.does("write_durable a 4096 65536 7");
    assert_eq!(other.say("read a 4096 65536"), "all 7");
    other.does("write a 8192 4096 9");
    other.does("flush a");
    assert_eq!(
        (one.say("read a 8192 4096"), one.say("read a 0 4096")),
        ("all 9".into(), "all 0".into())
    );
    one.does("zero a 8192 8192");
    other.does("discard a 4096 4096");
    assert_eq!(
        (other.say("read a 4096 12288"), one.say("read a 16384 4096")),
        ("all 0".into(), "all 7".into())
    );
    for program in [&mut one, &mut other] {
        assert_eq!(program.say(&format!("write a {} 4096 1", 32 * GRAIN)), "error operation");
        assert_eq!(program.say("write a 1 4096 1"), "error operation");
    }
}

#[test]
fn bytes_at_any_offset_are_read_and_written_and_those_beside_them_stay() {
    for way in WAYS {
        let (_file, daemon) = store(512 * GRAIN, "");
        let mut one = Program::start(&daemon);
        one.does(&format!("create a {} {way}", 256 * GRAIN));
        one.does("write a 0 1048576 5");
        one.does("write_at a 4097 600000 6");
        assert_eq!(one.say("read_at a 4097 600000"), "all 6");
        assert_eq!(one.say("read_at a 0 4097"), "all 5");
        assert_eq!(
            (one.say("read_at a 604097 3"), one.say("read_at a 1048575 1")),
            ("all 5".into(), "all 5".into())
        );
        one.does("write_at a 1048574 2 7");
        assert_eq!(
            (one.say("read_at a 1048574 2"), one.say("read_at a 1048573 1")),
            ("all 7".into(), "all 5".into())
        );
        assert_eq!(one.say("write_at a 1048575 2 7"), "error operation");
    }
}

#[test]
fn threads_of_one_program_drive_devices_of_their_own_and_meet_no_others_bytes() {
    for way in WAYS {
        let (_file, daemon) = store(512 * GRAIN, "");
        let mut one = Program::start(&daemon);
        one.does(&format!("create a {} {way}", 256 * GRAIN));
        one.does("threads a 8");
    }
}

#[test]
fn an_area_grows_shrinks_and_ends_by_either_way() {
    for way in WAYS {
        let (_file, daemon) = store(64 * GRAIN, "");
        let mut one = Program::start(&daemon);
        one.does(&format!("create a {} {way}", 4 * GRAIN));
        one.does("write_durable a 0 16384 3");
        one.does(&format!("resize a {}", 8 * GRAIN));
        assert_eq!(one.say("bytes a"), (8 * GRAIN).to_string());
        assert_eq!(one.say("read a 16384 16384"), "all 0");
        one.does("write a 28672 4096 5");
        one.does("keep a");
        let kept = one.say(&format!("resize a {GRAIN}"));
        assert!(way == "emulated" || kept == "error in use", "{kept}");
        one.does("release");
        one.does(&format!("resize a {GRAIN}"));
        assert_eq!((one.say("bytes a"), one.say("way a")), (GRAIN.to_string(), way.to_owned()));
        assert_eq!(one.say("read a 0 4096"), "all 3");
        assert_eq!(one.say("read a 4096 4096"), "error operation");
        one.does(&format!("resize a {}", 8 * GRAIN));
        await_that("what was cut off is zero", || one.say("read a 4096 28672") == "all 0");
        one.does("delete a");
        assert_eq!(one.say("open a read any"), "error NotFound");
        one.does(&format!("create a {GRAIN} {way}"));
    }
}

#[test]
fn who_holds_an_area_directly_keeps_others_from_taking_its_bytes() {
    let (_file, daemon) = store(64 * GRAIN, "");
    let (mut one, mut other) = (Program::start(&daemon), Program::start(&daemon));
    one.does(&format!("create a {} emulated", 8 * GRAIN));
    other.does("open a data direct");
    assert_eq!(one.say(&format!("resize a {GRAIN}")), "error Held");
    other.kill();
    await_that("the kernel has let go", || one.say(&format!("resize a {GRAIN}")) == "done");
}

#[test]
fn a_program_that_is_killed_with_writes_under_way_leaves_an_area_that_others_use_and_change() {
    for way in WAYS {
        let (_file, daemon) = store(512 * GRAIN, "");
        let mut one = Program::start(&daemon);
        one.does(&format!("create a {} emulated", 256 * GRAIN));
        for _ in 0..5 {
            let mut victim = Program::start(&daemon);
            victim.does(&format!("open a data {way}"));
            victim.does("flood a 200");
            victim.kill();
            one.does("write_durable a 0 65536 4");
        }
        std::thread::sleep(A_WHILE);
        one.does("write_durable a 0 65536 4");
        assert_eq!(one.say("read a 0 65536"), "all 4");
        await_that("its handles are let go", || {
            one.say(&format!("resize a {}", 16 * GRAIN)) == "done"
        });
        one.does("delete a");
    }
}

#[test]
fn when_the_control_plane_is_killed_the_direct_way_goes_on_and_the_other_one_fails_until_the_next()
{
    let (_file, mut daemon) = store(64 * GRAIN, "");
    let (mut direct, mut emulated) = (Program::start(&daemon), Program::start(&daemon));
    direct.does(&format!("create a {} direct", 8 * GRAIN));
    emulated.does("open a data emulated");
    direct.does("write_durable a 0 4096 1");
    emulated.does("write_durable a 4096 4096 2");
    daemon.kill();
    direct.does("write_durable a 8192 4096 3");
    assert_eq!(direct.say("read a 4096 4096"), "all 2");
    assert_eq!(emulated.say("write a 0 4096 9"), "error gone");
    assert_eq!(emulated.say("read a 0 4096"), "error gone");
    daemon.restart();
    direct.does("write_durable a 12288 4096 4");
    emulated.does("connect");
    emulated.does("open a all emulated");
    assert_eq!(emulated.say("read a 8192 4096"), "all 3");
    assert_eq!(emulated.say("read a 12288 4096"), "all 4");
    assert_eq!(emulated.say("delete a"), "error Held", "of a program that the new one never saw");
    direct.kill();
    emulated.does("open a all emulated");
    await_that("the area ends", || {
        emulated.say("open a all emulated");
        emulated.say("delete a") == "done"
    });
}

#[test]
fn a_rate_holds_programs_together_to_it_and_keeps_them_from_the_direct_way() {
    let (_file, daemon) = store(1024 * GRAIN, "");
    let (mut one, mut other) = (Program::start(&daemon), Program::start(&daemon));
    one.does(&format!("create a {} emulated", 512 * GRAIN));
    one.does(&format!("rate a {}", 4 << 20));
    other.does("open a data any");
    assert_eq!(other.say("way a"), "emulated HasRate");
    let begun = Instant::now();
    for _ in 0..2 {
        one.send("write a 0 2097152 1");
        other.send("write a 0 2097152 2");
        assert_eq!((one.hear(), other.hear()), ("done".into(), "done".into()));
    }
    // 8 MiB at 4 MiB a second, less what is let through at once.
    assert!(begun.elapsed() >= Duration::from_millis(1500), "{:?}", begun.elapsed());
    one.does("rate a 0");
    one.does("write a 0 2097152 1");
}

#[test]
fn what_the_direct_way_has_no_place_for_spills_to_the_other_and_says_so() {
    let (_file, daemon) = store(64 * GRAIN, "direct_max = 1");
    let (mut one, mut other) = (Program::start(&daemon), Program::start(&daemon));
    one.does(&format!("create a {} any", 8 * GRAIN));
    other.does("open a data any");
    assert_eq!(
        (one.say("way a"), other.say("way a")),
        ("direct".into(), "emulated AllTaken".into())
    );
    assert_eq!(other.say("open a data direct"), "error NotDirect");
    other.does("write_durable a 0 4096 6");
    assert_eq!(one.say("read a 0 4096"), "all 6");
}

#[test]
fn who_may_send_a_namespace_no_commands_is_served_by_the_loop() {
    if namespace().is_none() {
        return eprintln!("skipped: HELIOSTAT_NAMESPACE names no namespace of an NVMe device");
    }
    let (_file, daemon) = store(64 * GRAIN, "direct = \"all\"");
    let mut one = Program::of_user(&daemon, STRANGER);
    one.does(&format!("create a {} any", 8 * GRAIN));
    let told = daemon.visit().text(&Request::Explain { pid: one.pid() });
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let is_old = release.starts_with("6.1.") || release.starts_with("5.");
    assert_eq!(one.say("way a"), if is_old { "emulated NotOpened" } else { "direct" });
    assert_eq!(told.contains("privileged programs only"), is_old, "{told}");
    one.does("write_durable a 0 4096 7");
    assert_eq!(one.say("read a 0 8192"), "mixed");
    assert_eq!(one.say("read a 0 4096"), "all 7");
}

#[test]
fn a_full_store_refuses_and_what_is_there_stays() {
    let (_file, daemon) = store(16 * GRAIN, "");
    let mut one = Program::start(&daemon);
    one.does(&format!("create a {} any", 8 * GRAIN));
    one.does("write_durable a 0 32768 8");
    assert_eq!(one.say(&format!("resize a {}", 1024 * GRAIN)), "error NoRoom");
    assert_eq!(one.say(&format!("create b {} any", 1024 * GRAIN)), "error NoRoom");
    assert_eq!((one.say("bytes a"), one.say("read a 0 32768")), ("32768".into(), "all 8".into()));
}

/// Appends until it is killed, after so many entries were said to be durable; how many those were.
fn append_and_die(daemon: &Daemon, way: &str, after: u64) -> u64 {
    let mut program = Program::start(daemon);
    program.does(&format!("open log data {way}"));
    program.does("log log");
    let first: u64 = program.say("entries log").parse().unwrap();
    program.send(&format!("append log {first} 1000000"));
    let mut durable = first;
    while durable < first + after {
        let said = program.hear();
        let entry: u64 = said.strip_prefix("durable ").expect(&said).parse().unwrap();
        assert_eq!(entry, durable);
        durable += 1;
    }
    program.kill();
    durable
}

#[test]
fn a_log_in_an_area_keeps_what_it_acknowledged_however_often_its_writer_is_killed() {
    for way in WAYS {
        let (_file, daemon) = store(2048 * GRAIN, "");
        Program::start(&daemon).does(&format!("create log {} any", 2000 * GRAIN));
        for round in 0..12 {
            let durable = append_and_die(&daemon, way, 1 + round * 7 % 40);
            let other = WAYS[round as usize % 2];
            let mut reader = Program::start(&daemon);
            reader.does(&format!("open log data {other}"));
            reader.does("log log");
            let found: u64 = reader.say("entries log").parse().unwrap();
            assert!(found >= durable, "{way}, round {round}: {found} of {durable}");
        }
    }
}

#[test]
fn a_log_by_the_loop_fails_with_the_control_plane_and_has_all_it_acknowledged_afterwards() {
    let (_file, mut daemon) = store(2048 * GRAIN, "");
    let mut program = Program::start(&daemon);
    program.does(&format!("create log {} emulated", 2000 * GRAIN));
    let mut durable = 0;
    for round in 1..6u64 {
        program.does("log log");
        program.send(&format!("append log {durable} 1000000"));
        for _ in 0..round * 5 {
            assert_eq!(program.hear(), format!("durable {durable}"));
            durable += 1;
        }
        daemon.kill();
        loop {
            let said = program.hear();
            if said.starts_with("error log") {
                break;
            }
            assert_eq!(said, format!("durable {durable}"));
            durable += 1;
        }
        daemon.restart();
        program.does("connect");
        program.does("open log data emulated");
        program.does("log log");
        let found: u64 = program.say("entries log").parse().unwrap();
        assert!(found >= durable, "{found} of {durable}");
        durable = found;
    }
}

#[test]
fn operations_that_end_later_are_told_by_a_descriptor_by_both_ways() {
    for way in WAYS {
        let (_file, daemon) = store(64 * GRAIN, "");
        let mut one = Program::start(&daemon);
        one.does(&format!("create a {} {way}", 32 * GRAIN));
        one.does("queue a 500");
        assert_eq!(one.say("read a 0 4096"), format!("all {}", 480 % 256));
    }
}

#[test]
fn an_area_that_is_had_exclusively_is_written_by_nobody_else_who_is_told_which_process_has_it() {
    for way in WAYS {
        let (_file, daemon) = store(64 * GRAIN, "");
        let (mut one, mut other) = (Program::start(&daemon), Program::start(&daemon));
        one.does(&format!("create a {} {way}", 32 * GRAIN));
        let writes = format!("error HasWriters {} 1", one.pid());
        assert_eq!(other.say("alone a data any"), writes, "{way}");
        other.does("open a read emulated");
        one.does("close a");
        one.does(&format!("alone a all {way}"));
        let alone = format!("error HasAlone {} 0", one.pid());
        for opening in ["open a data any", "open a all emulated", "alone a read any"] {
            assert_eq!(other.say(opening), alone, "{way}: {opening}");
        }
        // Who has it changes it, and lets nobody in between.
        one.does(&format!("resize a {}", 16 * GRAIN));
        one.does("write_durable a 0 4096 7");
        assert_eq!(other.say("open a data any"), alone, "{way}");
        assert_eq!(other.say("read a 0 4096"), "all 7");
        other.does("close a");
        one.does("close a");
        other.does("alone a all any");
        assert_eq!(one.say("open a data any"), format!("error HasAlone {} 0", other.pid()));
        other.kill();
        await_that("the handle of who was killed goes", || one.say("open a data any") == "done");
    }
}

#[test]
fn who_has_an_area_alone_directly_has_it_after_a_restart_of_the_control_plane_too() {
    let (_file, mut daemon) = store(64 * GRAIN, "");
    let mut direct = Program::start(&daemon);
    direct.does(&format!("create a {} direct", 8 * GRAIN));
    direct.does("close a");
    direct.does("alone a all direct");
    daemon.kill();
    daemon.restart();
    let mut other = Program::start(&daemon);
    for opening in ["open a data emulated", "open a data direct", "alone a all any"] {
        assert_eq!(other.say(opening), "error HasAlone 0 0", "a process that it does not know");
    }
    other.does("open a read any");
    other.does("close a");
    direct.kill();
    await_that("the mark goes with who had it", || other.say("alone a all direct") == "done");
    let mut plain = Program::start(&daemon);
    other.does("close a");
    plain.does("open a data direct");
    daemon.kill();
    daemon.restart();
    other.does("connect");
    assert_eq!(other.say("alone a all emulated"), "error HasWriters 0 1");
    other.does("open a data emulated");
}
