//! Registers, stack and cancellation: what a C program can see of a trampoline is nothing.
#![cfg(feature = "scan")]

mod support;

use heliostat_interpose::cache;
use std::process::Command;
use support::{calls_counted, compile, counting_library, text, under_library, Scratch, MODES};

const CANCELLATION_POINTS: [&str; 9] =
    ["read", "recv", "accept", "poll", "epoll_wait", "sem_wait", "sleep", "pause", "busy"];

#[test]
fn a_spoiling_hook_changes_no_general_register_and_no_red_zone() {
    let scratch = Scratch::new("registers");
    let Some(program) = compile(&scratch, "registers.c") else { return };
    for mode in MODES {
        let output =
            under_library(&scratch, mode, &program).env("HELIOSTAT_COUNT_DIRTY", "1").output();
        let seen = text(mode, output.expect("runs"));
        assert!(seen.starts_with("result right, stack level\nred zone: 0 changed\n"), "{seen}");
        let changed = seen.lines().last().unwrap_or_default().split(' ').skip(1);
        let general: Vec<_> = changed.filter(|name| !name.starts_with("xmm")).collect();
        assert!(general.is_empty(), "{mode}: {general:?} changed");
        assert!(seen.contains("xmm0"), "the hook did not run: {seen}");
    }
}

#[test]
fn a_site_that_asks_for_it_keeps_all_vector_registers() {
    let scratch = Scratch::new("vectors");
    let Some(program) = compile(&scratch, "registers.c") else { return };
    let libc = heliostat_interpose::libc_path().expect("dynamic");
    let mut list = heliostat_interpose::scan_file(&libc).expect("libc scans");
    list.sites.iter_mut().for_each(|site| site.save_xmm = true);
    cache::store(&scratch.sites(), &list).expect("the directory is writable");
    for mode in MODES {
        let mut command = Command::new(&program);
        command.env("LD_PRELOAD", counting_library()).env("XDG_CACHE_HOME", &scratch.0);
        let output = command.env(mode, "1").env("HELIOSTAT_COUNT_DIRTY", "1").output();
        let seen = text(mode, output.expect("runs"));
        assert!(seen.ends_with("changed:\n"), "{mode}: {seen}");
    }
}

#[test]
fn an_own_instruction_of_the_program_keeps_every_register() {
    let scratch = Scratch::new("own-registers");
    let Some(program) = compile(&scratch, "registers.c") else { return };
    for mode in MODES {
        let mut command = under_library(&scratch, mode, &program);
        command.arg("own").env("HELIOSTAT_COUNT_DIRTY", "1").env("HELIOSTAT_COUNT_LEFT", "1");
        let output = command.output().expect("runs");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        let wanted = "result right, stack level\nred zone: 0 changed\nchanged:\n";
        assert_eq!(text(mode, output), wanted, "{mode}");
    }
}

#[test]
fn an_own_instruction_of_the_program_keeps_flags_and_wide_vectors() {
    let scratch = Scratch::new("inline");
    let Some(program) = compile(&scratch, "inline.c") else { return };
    for mode in MODES {
        let mut command = under_library(&scratch, mode, &program);
        command.env("HELIOSTAT_COUNT_DIRTY", "1").env("HELIOSTAT_COUNT_LEFT", "1");
        let output = command.output().expect("runs");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        assert_eq!(text(mode, output), "flags lost: 0\nvectors lost: none\n", "{mode}");
    }
    // Two times 64 for the flags, one or two for the vectors, and the exit, which alone reports.
    let calls = calls_counted(&scratch);
    assert_eq!(calls.len(), MODES.len(), "{calls:?}");
    assert!(calls.iter().all(|calls| *calls >= 130), "{calls:?}");
}

#[test]
fn threads_are_cancelled_wherever_they_wait() {
    let scratch = Scratch::new("cancel");
    let Some(program) = compile(&scratch, "cancel.c") else { return };
    for mode in ["HELIOSTAT_COUNT_PASS", "HELIOSTAT_COUNT_WAIT"] {
        for point in CANCELLATION_POINTS {
            let output = under_library(&scratch, mode, &program).args([point, "60"]).output();
            let seen = text(point, output.expect("runs"));
            assert_eq!(seen, "cancelled 60 pushed 60 unwound 60\n", "{mode} {point}");
        }
    }
}

#[test]
fn functions_return_what_they_return_without_us() {
    let scratch = Scratch::new("calls");
    let Some(program) = compile(&scratch, "calls.c") else { return };
    let plain = text("plain", Command::new(&program).output().expect("runs"));
    assert!(plain.lines().count() > 80, "{plain}");
    for mode in MODES {
        let output =
            under_library(&scratch, mode, &program).env("HELIOSTAT_COUNT_DIRTY", "1").output();
        let seen = text(mode, output.expect("runs"));
        let unseen: Vec<_> = seen.lines().filter(|line| line.contains("NOT SEEN")).collect();
        assert!(unseen.is_empty(), "{mode}: {unseen:?}");
        assert_eq!(seen, plain, "{mode}");
        let most = calls_counted(&scratch).into_iter().max();
        assert!(most >= Some(160), "{mode}: only {most:?} calls reached the hook");
    }
}
