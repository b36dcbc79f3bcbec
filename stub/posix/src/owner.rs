//! Whose tables these are: a child of vfork runs in its parent's memory, and must not change them.

use heliostat_base::process;
use heliostat_base::sync::AtomicI32;
use heliostat_base::sync::Ordering::{Relaxed, Release};

use crate::thread;

static OWNER: AtomicI32 = AtomicI32::new(0);

/// Notes that the tables are this process's; at start and in every forked child.
pub fn adopt() {
    OWNER.store(process::pid(), Release);
}

/// The process whose tables these are, without a system call.
pub fn pid() -> i32 {
    OWNER.load(Relaxed)
}

/// True in a child of vfork, which shares our memory but not our descriptors.
pub fn is_borrowed() -> bool {
    process::pid() != OWNER.load(Relaxed)
}

/// As `is_borrowed`, and asks the kernel only where this thread has made such a child.
pub fn is_vfork_child() -> bool {
    if !thread::may_be_child() {
        return false;
    }
    let is_child = is_borrowed();
    if !is_child {
        thread::is_no_child();
    }
    is_child
}
