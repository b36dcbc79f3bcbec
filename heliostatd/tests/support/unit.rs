//! What the shipped unit gives the daemon: descriptors, capabilities, no new privileges.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Every capability, in order of number (source: linux/capability.h).
const CAPABILITIES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// The unit file's value of a key.
fn value(key: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/systemd/heliostatd.service");
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    lines.next().unwrap_or_else(|| panic!("the unit has no {key}")).to_owned()
}

/// Descriptors that the unit lets the daemon have.
pub fn descriptors() -> u64 {
    value("LimitNOFILE").parse().unwrap()
}

/// The program gets no more than that, and no capability that the unit does not keep.
pub fn confine(command: &mut Command) {
    let kept = value("CapabilityBoundingSet");
    let kept: Vec<_> = kept.split_whitespace().collect();
    let is_dropped = |name: &&&str| !kept.contains(&format!("CAP_{name}").as_str());
    let number = |name: &str| CAPABILITIES.iter().position(|it| *it == name).unwrap();
    assert!(kept.iter().all(|name| CAPABILITIES.contains(&name.trim_start_matches("CAP_"))));
    let dropped: Vec<_> = CAPABILITIES.iter().filter(is_dropped).map(|name| number(name)).collect();
    let limit = descriptors();
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
    let before = move || {
        // SAFETY: the limit is live, the others have no pointer; each is about this process alone.
        unsafe {
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
            dropped.iter().for_each(|number| {
                libc::prctl(libc::PR_CAPBSET_DROP, *number as libc::c_ulong, 0, 0, 0);
            });
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        }
        Ok(())
    };
    // SAFETY: what runs in the child only makes system calls.
    unsafe { command.pre_exec(before) };
}
