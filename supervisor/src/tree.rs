//! All processes of a sealed program: waited for, and ended together.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{kill_process, wait, Pid, Signal, WaitOptions};

/// Rounds of killing before what is left counts as not to be killed.
const ROUNDS_MAX: usize = 1000;

static ENDING: AtomicBool = AtomicBool::new(false);

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

/// Whether all processes are being killed, so that there must be no new ones.
pub fn is_ending() -> bool {
    ENDING.load(Ordering::SeqCst)
}

/// Kills all processes below this one until none is left. Blocks for that long.
///
/// The supervisor refuses new ones meanwhile; where it has died, the kernel does, since nobody
/// answers. So what is found is all there is, but for what was being born just then.
pub fn kill_all() {
    ENDING.store(true, Ordering::SeqCst);
    for _ in 0..ROUNDS_MAX {
        let below = descendants();
        if below.is_empty() {
            return;
        }
        for process in below {
            let _ = kill_process(process, Signal::KILL);
        }
        while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Processes and threads below this one.
pub fn tasks() -> u32 {
    /// Of /proc/PID/stat: num_threads, counted as in `field`.
    const THREADS: usize = 17;
    let threads = |process: &Pid| field(process.as_raw_nonzero().get(), THREADS).unwrap_or(0);
    let all: i32 = descendants().iter().map(threads).sum();
    u32::try_from(all).unwrap_or(u32::MAX)
}

/// All processes below this one, by proc(5).
pub fn descendants() -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut parents: BTreeMap<i32, i32> =
        numbers.filter_map(|number| Some((number, parent_of(number)?))).collect();
    find_adopted(&mut parents);
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for (number, parent) in parents {
        children.entry(parent).or_default().push(number);
    }
    let mut found = Vec::new();
    let mut left = vec![rustix::process::getpid().as_raw_nonzero().get()];
    while let Some(parent) = left.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            found.extend(Pid::from_raw(child));
            left.push(child);
        }
    }
    found
}

/// Looks again for the parents of those whose parent was there when they were looked at and has
/// ended before it was: otherwise all that is below would be nobody's.
fn find_adopted(parents: &mut BTreeMap<i32, i32>) {
    /// Others end meanwhile; and parents in other pid namespaces are never found.
    const ROUNDS: usize = 8;
    for _ in 0..ROUNDS {
        let is_lost = |(_, parent): &(&i32, &i32)| **parent != 0 && !parents.contains_key(parent);
        let lost: Vec<i32> = parents.iter().filter(is_lost).map(|(number, _)| *number).collect();
        if lost.is_empty() {
            return;
        }
        for number in lost {
            match parent_of(number) {
                Some(parent) => parents.insert(number, parent),
                None => parents.remove(&number),
            };
        }
    }
}

/// The parent's number, from /proc/PID/stat.
pub fn parent_of(process: i32) -> Option<i32> {
    field(process, 1)
}

/// The controlling terminal of a process or thread, as a device's number; 0 for none.
pub fn terminal_of(process: i32) -> Option<i32> {
    field(process, 4)
}

/// Whether a process has executed something since it was born; not if that cannot be told.
pub fn has_executed(process: i32) -> bool {
    /// Its flag for that it has not (source: linux/sched.h, PF_FORKNOEXEC).
    const ONLY_FORKED: i32 = 0x40;
    field(process, 6).is_some_and(|flags| flags & ONLY_FORKED == 0)
}

/// A field of /proc/PID/stat, counted from the one after the name, which is 0 (proc(5)).
fn field(process: i32, place: usize) -> Option<i32> {
    // One read is enough: entries are made anew by each, and this one has less than a page.
    let mut text = [0; 1024];
    let mut file = std::fs::File::open(format!("/proc/{process}/stat")).ok()?;
    let length = std::io::Read::read(&mut file, &mut text).ok()?;
    field_of(text.get(..length)?, place)
}

/// A field of that entry's text.
pub(crate) fn field_of(text: &[u8], place: usize) -> Option<i32> {
    // The name in parentheses may hold anything, parentheses too.
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&text[end + 1..]).ok()?;
    rest.split_whitespace().nth(place)?.parse().ok()
}
