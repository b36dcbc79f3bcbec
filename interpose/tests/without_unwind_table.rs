//! Libraries that are compiled without unwind tables: nothing says where their functions start.
#![cfg(feature = "scan")]

mod support;

use heliostat_interpose::{scan_library, Scanned};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use support::Scratch;

/// A constant whose bytes look like a `syscall`.
const LOOKS: &str = "long twisted(long x) { return x ^ 0x7a7a050f; }
long other(long x) { return twisted(x) + twisted(x + 1); }";
const CALLS: &str = "long calls(long n) { __asm__ volatile(\"syscall\" : \"+a\"(n) :: \"rcx\", \"r11\", \"memory\"); return n; }";
/// One byte of data makes a decoder take the `syscall` for a part of another instruction.
const HIDES: &str = "__asm__(\".globl hidden; .type hidden, @function; .byte 0xb8; hidden: syscall; ret; nop; nop\");";

/// What is found in a library of these functions; `None`, with a remark, without a compiler.
fn scanned(name: &str, functions: &[&str]) -> Option<Scanned> {
    let scratch = Scratch::new(name);
    let source: PathBuf = scratch.0.join("library.c");
    let library = scratch.0.join("library.so");
    fs::write(&source, functions.join("\n")).expect("the temporary directory is writable");
    let without =
        ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-Wl,--no-eh-frame-hdr"];
    let shared = ["-O2", "-shared", "-fPIC", "-nostartfiles", "-Wl,--build-id"];
    let mut compiler = Command::new("cc");
    let Ok(output) =
        compiler.args(without).args(shared).arg(&source).arg("-o").arg(&library).output()
    else {
        eprintln!("skipped: no C compiler");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(scan_library(&library).expect("scans"))
}

#[test]
fn a_constant_that_looks_like_a_call_is_none() {
    let Some(found) = scanned("unwind-constant", &[LOOKS]) else { return };
    assert!(matches!(found, Scanned::Nothing(_)), "{found:?}");
}

#[test]
fn a_call_is_not_said_to_be_absent() {
    let Some(found) = scanned("unwind-call", &[LOOKS, CALLS]) else { return };
    assert!(matches!(found, Scanned::Unknown(_)), "{found:?}");
}

#[test]
fn a_call_behind_data_is_not_said_to_be_absent() {
    let Some(found) = scanned("unwind-hidden", &[HIDES, LOOKS]) else { return };
    assert!(matches!(found, Scanned::Unknown(_)), "{found:?}");
}
