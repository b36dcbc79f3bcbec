//! Durable files: whether a descriptor is this program's alone, so that nobody else takes what it has to read.
//!
//! A read that begins while something is held back waits for its bytes and for the flush at once. Who shares
//! the descriptor would see that bytes were taken, and could take them first: then the kernel's own read waits
//! for more, with replies held back behind it. What a descriptor is shared by is a fork, or whoever started the
//! program.

use heliostat_base::call as kernel;
use heliostat_base::sync::Ordering::Relaxed;
use heliostat_base::sync::{AtomicBool, AtomicI32};

/// Where the kernel lists what is open.
const OPEN: &str = "/proc/self/fd";

/// The program has made a child, or is one.
static HAS_FORKED: AtomicBool = AtomicBool::new(false);
/// Up to here numbers may be of what the program has been given.
static GIVEN_UP_TO: AtomicI32 = AtomicI32::new(i32::MAX);

/// Notes what the program was started with. Before it runs.
pub fn begin() {
    let Ok(list) = std::fs::read_dir(OPEN) else { return };
    // The list's own descriptor is closed again: it is the one that names a folder of /proc.
    let is_list = |path: &std::path::Path| {
        std::fs::read_link(path).is_ok_and(|to| to.starts_with("/proc") && to.ends_with("fd"))
    };
    let given = list.flatten().filter(|entry| !is_list(&entry.path()));
    let number = |name: std::ffi::OsString| name.to_str()?.parse::<i32>().ok();
    let highest = given.filter_map(|entry| number(entry.file_name())).max();
    GIVEN_UP_TO.store(highest.unwrap_or(-1), Relaxed);
}

/// Notes that a child is about to be made, which has all that is open.
pub fn child_made() {
    HAS_FORKED.store(true, Relaxed);
}

/// A socket that nobody else has. Not any other kind: a watcher sees that a file was read.
pub fn has_socket(fd: i32) -> bool {
    let is_socket = |(mode, _): (u32, u64)| mode & libc::S_IFMT == libc::S_IFSOCK;
    !HAS_FORKED.load(Relaxed)
        && fd > GIVEN_UP_TO.load(Relaxed)
        && kernel::mode_and_bytes(fd).is_some_and(is_socket)
}
