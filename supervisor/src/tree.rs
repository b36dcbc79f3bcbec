//! All processes of a sealed program: waited for, and ended together.

use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{kill_process, wait, Pid, Signal, WaitOptions};

/// Rounds of killing before what is left counts as not to be killed.
const ROUNDS_MAX: usize = 1000;

/// Makes this process the parent of every orphan below it.
pub fn adopt_orphans() {
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Waits for all children, adopted ones too; `ended` gets each number with its status as
/// waitpid(2) has it. Returns when there are none.
pub fn wait_for_all(mut ended: impl FnMut(i32, i32)) {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((child, status))) => ended(child.as_raw_nonzero().get(), status.as_raw()),
            Ok(None) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Kills all children, and theirs as they are adopted, until none is left. Blocks for that long.
pub fn kill_all() {
    for _ in 0..ROUNDS_MAX {
        let children = children();
        if children.is_empty() {
            return;
        }
        for child in children {
            let _ = kill_process(child, Signal::KILL);
        }
        while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Children of this process, by proc(5).
fn children() -> Vec<Pid> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|number| parent_of(*number) == Some(own)).filter_map(Pid::from_raw).collect()
}

/// The parent's number, from /proc/PID/stat.
pub fn parent_of(process: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in parentheses may hold anything, parentheses too.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}
