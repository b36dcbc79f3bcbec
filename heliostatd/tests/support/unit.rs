//! What the shipped unit gives the daemon: descriptors, capabilities, no new privileges, and what a
//! service manager does for its Restrict*=, Lock*= and Memory*= settings.

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

/// A part of a filter (source: linux/bpf_common.h, linux/seccomp.h).
const fn step(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

const LOAD: u16 = 0x20;
const IS: u16 = 0x15;
const HAS: u16 = 0x45;
const ANSWER: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const REFUSE: u32 = 0x0005_0000;
/// All CLONE_NEW* (source: linux/sched.h).
const NAMESPACES: u32 = 0x7e02_0080;

/// AF_UNIX AF_INET AF_INET6, no namespaces, no other personality.
const FILTER: [libc::sock_filter; 18] = [
    step(LOAD, 0, 0, 0),
    step(IS, 5, 0, libc::SYS_socket as u32),
    step(IS, 9, 0, libc::SYS_clone as u32),
    step(IS, 11, 0, libc::SYS_unshare as u32),
    step(IS, 10, 0, libc::SYS_setns as u32),
    step(IS, 9, 0, libc::SYS_personality as u32),
    step(IS, 10, 9, libc::SYS_clone3 as u32),
    step(LOAD, 0, 0, 16),
    step(IS, 7, 0, libc::AF_UNIX as u32),
    step(IS, 6, 0, libc::AF_INET as u32),
    step(IS, 5, 0, libc::AF_INET6 as u32),
    step(ANSWER, 0, 0, REFUSE | libc::EAFNOSUPPORT as u32),
    step(LOAD, 0, 0, 16),
    step(HAS, 1, 0, NAMESPACES),
    step(ANSWER, 0, 0, ALLOW),
    step(ANSWER, 0, 0, REFUSE | libc::EPERM as u32),
    step(ANSWER, 0, 0, ALLOW),
    step(ANSWER, 0, 0, REFUSE | libc::ENOSYS as u32),
];

/// Source: linux/prctl.h (Linux 6.3; before it memory may be made executable in the tests).
const PR_SET_MDWE: libc::c_int = 65;

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
    let settings = [
        ("RestrictAddressFamilies", "AF_UNIX AF_INET AF_INET6"),
        ("RestrictNamespaces", "yes"),
        ("MemoryDenyWriteExecute", "yes"),
        ("LockPersonality", "yes"),
        ("NoNewPrivileges", "yes"),
    ];
    settings.iter().for_each(|(key, set)| assert_eq!(value(key), *set, "the filter is for this"));
    let limit = descriptors();
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
    let before = move || {
        let filter = FILTER.as_ptr().cast_mut();
        let program = libc::sock_fprog { len: FILTER.len() as u16, filter };
        // SAFETY: limit and filter are live, the others have no pointer; each is about this process
        // alone.
        unsafe {
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
            dropped.iter().for_each(|number| {
                libc::prctl(libc::PR_CAPBSET_DROP, *number as libc::c_ulong, 0, 0, 0);
            });
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::prctl(PR_SET_MDWE, 1, 0, 0, 0);
            if libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) != 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: what runs in the child only makes system calls.
    unsafe { command.pre_exec(before) };
}
