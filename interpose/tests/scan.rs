//! The scanner on this machine's libc, with objdump as the second opinion.
#![cfg(feature = "scan")]

use heliostat_interpose::scan::{scan_bytes, ScanError};
use heliostat_interpose::{libc_path, scan_file, Reason, Site, SiteList};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

fn libc_sites() -> SiteList {
    scan_file(&libc_path().expect("tests are linked dynamically")).expect("libc scans")
}

/// Addresses of all instructions of libc with their text, by GNU's disassembler.
fn disassembly() -> Option<BTreeMap<u32, String>> {
    let libc = libc_path().expect("tests are linked dynamically");
    let output = Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(libc).output();
    let Ok(output) = output else {
        eprintln!("skipped: no objdump");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let instruction = |line: &str| {
        let (address, rest) = line.trim().split_once(":\t")?;
        Some((u32::from_str_radix(address, 16).ok()?, rest.trim().to_owned()))
    };
    Some(text.lines().filter_map(instruction).collect())
}

/// Destinations of all direct branches.
fn destinations(code: &BTreeMap<u32, String>) -> BTreeSet<u32> {
    let branch = |text: &String| {
        let mut words = text.split_whitespace().skip_while(|w| ["bnd", "notrack"].contains(w));
        let branches = words.next().is_some_and(|w| w.starts_with('j') || w.starts_with("call"));
        u32::from_str_radix(words.next().filter(|_| branches)?, 16).ok()
    };
    code.values().filter_map(branch).collect()
}

fn patchable(list: &SiteList) -> impl Iterator<Item = &Site> {
    list.sites.iter().filter(|site| site.refusal.is_none())
}

#[test]
fn most_sites_of_libc_are_patchable_and_known() {
    let list = libc_sites();
    let all = list.sites.len();
    assert!((300..1000).contains(&all), "{all} sites");
    assert!(patchable(&list).count() * 100 >= all * 97, "{list:?}");
    assert!(patchable(&list).filter(|s| s.number.is_some()).count() * 100 >= all * 90);
    assert!(patchable(&list).filter(|s| s.save_xmm).count() * 100 <= all * 25);
}

#[test]
fn calls_that_must_stay_are_refused_and_there() {
    let list = libc_sites();
    for number in [15, 58, 435] {
        let sites: Vec<_> = list.sites.iter().filter(|s| s.number == Some(number)).collect();
        assert!(!sites.is_empty(), "no site for {number}");
        assert!(sites.iter().all(|s| s.refusal == Some(Reason::Forbidden)), "{sites:?}");
    }
}

#[test]
fn hot_calls_need_no_vector_registers_saved() {
    let list = libc_sites();
    for number in [0, 1, 45, 44, 47, 46, 232] {
        let mut sites = list.sites.iter().filter(|s| s.number == Some(number));
        assert!(sites.all(|s| !s.save_xmm), "{number}");
    }
}

#[test]
fn objdump_finds_the_same_instructions() {
    let Some(code) = disassembly() else { return };
    let theirs: BTreeSet<u32> =
        code.iter().filter(|(_, text)| *text == "syscall").map(|(address, _)| *address).collect();
    let ours: BTreeSet<u32> = libc_sites().sites.iter().map(Site::syscall_offset).collect();
    assert_eq!(ours, theirs);
}

#[test]
fn windows_are_whole_instructions_that_nothing_jumps_into() {
    let Some(code) = disassembly() else { return };
    let destinations = destinations(&code);
    for site in patchable(&libc_sites()) {
        let end = site.start + u32::from(site.length);
        assert!(code.contains_key(&site.start) && code.contains_key(&end), "{site:x?}");
        let entered: Vec<_> = destinations.range(site.start + 1..end).collect();
        assert!(entered.is_empty(), "{site:x?} is entered at {entered:x?}");
        for (address, text) in code.range(site.start..end) {
            let branches = text.starts_with('j') || text.starts_with("call") || text == "ret";
            assert!(!branches, "{address:x}: {text} in a window");
        }
    }
}

#[test]
fn a_known_number_is_in_the_window_or_before_it() {
    let Some(code) = disassembly() else { return };
    let list = libc_sites();
    let stated = patchable(&list).filter(|site| {
        let text = site.number.map(|n| format!("${n:#x},%eax"));
        let before = code.range(..site.syscall_offset()).rev().take(12);
        text.is_some_and(|wanted| before.map(|(_, t)| t).any(|t| t.ends_with(&wanted)))
    });
    assert!(stated.count() * 100 >= list.sites.len() * 80);
}

#[test]
fn damaged_libraries_are_refused_or_scanned_but_never_panic() {
    let libc = std::fs::read(libc_path().expect("dynamic")).expect("libc is readable");
    let table = 4096.min(libc.len());
    for at in (0..table).step_by(37) {
        let mut damaged = libc.clone();
        damaged[at] ^= 0xff;
        let _ = scan_bytes(&damaged);
    }
    for length in [0, 1, 63, 64, 500, 4096, libc.len() / 2, libc.len() - 1] {
        let _ = scan_bytes(&libc[..length]);
    }
    assert!(matches!(scan_bytes(b"#!/bin/sh\n"), Err(ScanError::Elf(_))));
}
