//! When nothing may be patched: each condition is refused, and the text stays as it was.
#![cfg(feature = "scan")]

mod support;

use heliostat_interpose::{
    cache, install, libc_path, scan_file, PatchError, Request, SiteList, SyscallFrame, Threads,
    Verdict,
};
use std::path::Path;
use std::sync::Mutex;
use support::Scratch;

/// `install` knows one caller at a time; tests run in threads.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

extern "C" fn never(_: *mut SyscallFrame) -> Verdict {
    std::process::abort()
}

fn try_install(list: &Path, threads: Threads) -> PatchError {
    let _alone = ONE_AT_A_TIME.lock();
    let list = Some(list);
    let request =
        Request { filter: |_| true, hook: never, before_spawn: None, gate: None, list, threads };
    install(&request).expect_err("nothing may be patched in a test with threads")
}

fn with_list(name: &str, change: impl Fn(&mut SiteList)) -> PatchError {
    let scratch = Scratch::new(name);
    let mut list = scan_file(&libc_path().expect("dynamic")).expect("libc scans");
    change(&mut list);
    let path = cache::store(&scratch.0, &list).expect("the directory is writable");
    try_install(&path, Threads::HeldByCaller)
}

#[test]
fn another_thread_is_refused() {
    let refused = std::thread::spawn(|| try_install(Path::new("/"), Threads::MustBeAlone));
    assert!(matches!(refused.join(), Ok(PatchError::Threads { found: 2.. })));
}

#[test]
fn a_missing_list_is_refused() {
    let refused = try_install(Path::new("/nonexistent.sites"), Threads::HeldByCaller);
    assert!(matches!(refused, PatchError::NoList { .. }), "{refused}");
}

#[test]
fn text_that_differs_from_the_list_is_refused() {
    let refused = with_list("text", |list| {
        let last = list.sites.last_mut().expect("libc makes system calls");
        last.original[0] ^= 1;
    });
    assert!(matches!(refused, PatchError::TextChanged { .. }), "{refused}");
}

#[test]
fn a_list_for_another_segment_is_refused() {
    let refused = with_list("segment", |list| list.text_bytes += 4096);
    assert!(matches!(refused, PatchError::Segment { .. }), "{refused}");
}
