//! The kernel, its cores and its limits.

use std::fs;

use heliostat_base::affinity;
use rustix::process::{getrlimit, Resource};

use super::Check;

/// All checks of this file.
pub fn checks() -> Vec<Check> {
    vec![kernel(), cores(), core_quota(), descriptors(), locked_memory(), io_uring()]
}

/// SO_PEERPIDFD came with 6.5, SO_NETNS_COOKIE with 5.14, F_SEAL_FUTURE_WRITE with 5.1.
fn kernel() -> Check {
    let name = "kernel";
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match version {
        (0..=4, _) | (5, 0..=13) => Check::fail(name, release, "Linux 5.14 or later is needed"),
        (5, _) | (6, 0..=4) => {
            Check::warn(name, release, "Linux 6.5 or later notices dead processes for certain")
        }
        _ => Check::ok(name, release),
    }
}

fn cores() -> Check {
    match affinity::cpu_count() {
        1 => Check::warn(
            "cores",
            "1",
            "two programs cannot run at once here: waiting sides sleep instead of spinning",
        ),
        count => Check::ok("cores", count.to_string()),
    }
}

/// The bandwidth limit of this process's own cgroup (cgroup v2, cpu.max).
fn core_quota() -> Check {
    let name = "cgroup cpu limit";
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/").to_owned();
    let file = format!("/sys/fs/cgroup{path}/cpu.max");
    let Ok(text) = fs::read_to_string(file) else { return Check::ok(name, "none") };
    let mut words = text.split_whitespace();
    let quota = words.next().and_then(|word| word.parse::<f64>().ok());
    let period = words.next().and_then(|word| word.parse::<f64>().ok());
    match (quota, period) {
        (Some(quota), Some(period)) if quota < period => Check::warn(
            name,
            format!("{:.2} cores", quota / period),
            "less than one core: spinning is throttled, so latency will be the scheduler's",
        ),
        (Some(quota), Some(period)) => Check::ok(name, format!("{:.2} cores", quota / period)),
        _ => Check::ok(name, "none"),
    }
}

fn descriptors() -> Check {
    let name = "open files (ulimit -n)";
    let limit = getrlimit(Resource::Nofile);
    let show = |value: Option<u64>| value.map_or("unlimited".to_owned(), |value| value.to_string());
    let found = format!("{}, may be raised to {}", show(limit.current), show(limit.maximum));
    match limit.maximum {
        Some(maximum) if maximum < 4096 => Check::warn(
            name,
            found,
            "each session costs the control plane two and each channel one: raise the hard limit",
        ),
        _ => Check::ok(name, found),
    }
}

fn locked_memory() -> Check {
    let show = match getrlimit(Resource::Memlock).current {
        Some(bytes) => crate::table::bytes(bytes),
        None => "unlimited".to_owned(),
    };
    Check::ok("locked memory (ulimit -l)", format!("{show} (nothing here needs it yet)"))
}

fn io_uring() -> Check {
    let name = "io_uring";
    let found = match fs::read_to_string("/proc/sys/kernel/io_uring_disabled") {
        Ok(text) => match text.trim() {
            "0" => "allowed",
            "1" => "allowed for privileged processes",
            _ => "switched off",
        },
        Err(_) => "unknown (no kernel.io_uring_disabled)",
    };
    Check::ok(name, format!("{found} (nothing here needs it yet)"))
}
