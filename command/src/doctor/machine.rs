//! The kernel, its cores and its limits.

use std::fs;
use std::path::Path;

use heliostat_backend_block::{Driven, FileDevice, OpenError};
use heliostat_base::affinity;
use rustix::process::{getrlimit, Resource};

use super::Check;

/// All checks of this file.
pub fn checks() -> Vec<Check> {
    vec![kernel(), cores(), core_quota(), descriptors(), locked_memory(), io_uring(), namespaces()]
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

/// The pieces of its window that a program's own ring keeps pinned at most: 16 of 2 MiB
/// (docs/delegated.md, Pinned pieces).
const PINNED_MAX: u64 = 32 << 20;

/// Root's programs lock as much as they want.
fn locked_memory() -> Check {
    let name = "locked memory (ulimit -l)";
    match getrlimit(Resource::Memlock).current {
        None => Check::ok(name, "ok: unlimited"),
        Some(_) if rustix::process::geteuid().is_root() => Check::ok(name, "ok: root has no limit"),
        Some(limit) if limit >= PINNED_MAX => {
            Check::ok(name, format!("ok: {}", crate::table::bytes(limit)))
        }
        Some(limit) => Check::warn(
            name,
            format!("degraded: {}", crate::table::bytes(limit)),
            "delegated reads for the device pin less of their windows than 32 MiB, and cost more of \
             the processor: raise it (limits.conf: memlock)",
        ),
    }
}

/// A ring as the server loops make it.
fn io_uring() -> Check {
    let name = "io_uring";
    match heliostat_backend_uring::Uring::<()>::create(8, 8) {
        Ok(_) => Check::ok(name, "ok: server loops of delegated operations can be started"),
        Err(error) => Check::fail(
            name,
            format!("missing: {error}{}", switched_off()),
            "delegated operations are made by threads, which costs a wake-up for each, and programs \
             read nothing by rings of their own: allow io_uring_setup(2) in the container, \
             kernel.io_uring_disabled = 0, Linux 6.7",
        )
        .softened(),
    }
}

/// What the machine's own switch says, if that is why.
fn switched_off() -> &'static str {
    let text = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    match text.trim() {
        "1" => " (kernel.io_uring_disabled is 1: for privileged processes)",
        "2" => " (kernel.io_uring_disabled is 2: for nobody)",
        _ => "",
    }
}

/// Where a store may be driven by a device's own commands.
fn namespaces() -> Check {
    let name = "NVMe namespaces";
    let listed = fs::read_dir("/dev").into_iter().flatten().flatten();
    let found = listed.map(|entry| entry.path()).filter(|path| is_namespace(path));
    let tried: Vec<_> = found.map(|path| (FileDevice::probe_namespace(&path), path)).collect();
    let told: Vec<String> = tried.iter().map(|(driven, path)| told_of(path, *driven)).collect();
    let has_commands = tried.iter().any(|(driven, _)| *driven == Ok(Driven::Commands));
    match (told.is_empty(), has_commands) {
        (true, _) => Check::ok(name, "none: a store lies in a file or on a disk"),
        (false, true) => Check::ok(name, told.join("; ")),
        (false, false) => Check::warn(
            name,
            told.join("; "),
            "a control plane of root's sends commands; from Linux 6.2 on also one whose user root gives \
             the device of characters, who may then do anything with the whole of it",
        ),
    }
}

/// How a store on a namespace would be driven.
fn told_of(path: &Path, driven: Result<Driven, OpenError>) -> String {
    let path = path.display();
    match driven {
        Ok(driven) => format!("{path}: a store is driven by {} ({})", driven.by(), driven.why()),
        Err(error) => format!("{path}: not for this user ({error})"),
    }
}

/// Whether a path is that of a namespace's own commands: /dev/ng0n1.
fn is_namespace(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let numbers = name.strip_prefix("ng").and_then(|rest| rest.split_once('n'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    numbers.is_some_and(|(controller, number)| is_number(controller) && is_number(number))
}
