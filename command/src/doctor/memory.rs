//! Shared memory: what channels, the node page and the stub's patching stand on.

use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use heliostat_base::mapping::{Access, SharedMapping, Writers};

use super::Check;

const PAGE: usize = 4096;

/// All checks of this file.
pub fn checks() -> Vec<Check> {
    vec![sealing(), reading_only(), futex(), write_tracking(), shadow_stack()]
}

fn sealing() -> Check {
    let made = SharedMapping::create(c"heliostat-doctor", PAGE).map(|(fd, _)| fd);
    Check::of(
        "sealed memory (memfd)",
        made,
        "memory can be shared and not shrunk",
        "memfd_create(2) is refused: a seccomp filter or a very old kernel; allow it",
    )
}

/// The node page must not be writable by those who get it.
fn reading_only() -> Check {
    let name = "read-only sharing";
    let advice = "F_SEAL_FUTURE_WRITE is missing: Linux 5.1 or later is needed";
    match SharedMapping::create_for(c"heliostat-doctor", PAGE, Writers::CreatorOnly) {
        Err(error) => Check::fail(name, error.to_string(), advice),
        Ok((fd, _mapping)) => {
            match SharedMapping::from_fd(fd.as_raw_fd(), PAGE, Access::ReadWrite) {
                Ok(_) => Check::fail(name, "a sealed page could be written", advice),
                Err(_) => Check::ok(name, "one writes, all others read"),
            }
        }
    }
}

/// A wait that must end by its timeout.
fn futex() -> Check {
    let word = AtomicU32::new(0);
    Check::of(
        "futex",
        heliostat_base::futex::wait(&word, 0, Some(Duration::from_millis(1))),
        "waiting sides can sleep",
        "futex(2) is refused: a seccomp filter; allow it",
    )
}

/// Without it snapshots are right all the same, and cost by the region instead of by the write.
fn write_tracking() -> Check {
    let name = "write tracking (userfaultfd)";
    match heliostat_backend_pages::track::probe() {
        Ok(()) => Check::ok(name, "written pages are known without a look at the others"),
        Err(error) => Check::warn(name, error.to_string(), "snapshots copy whole regions instead"),
    }
}

/// With user shadow stacks the stub's trampolines would be taken for an attack.
fn shadow_stack() -> Check {
    let name = "shadow stacks";
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let features = status.lines().find_map(|line| line.strip_prefix("x86_Thread_features:"));
    match features.map(str::trim) {
        Some(features) if features.contains("shstk") => Check::warn(
            name,
            "on",
            "programs with shadow stacks run natively: GLIBC_TUNABLES=glibc.cpu.x86_shstk=off",
        ),
        _ => Check::ok(name, "off"),
    }
}
