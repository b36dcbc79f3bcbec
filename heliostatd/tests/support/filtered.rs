//! A daemon behind a filter as containers have it: no io_uring, and nothing to part from others with.

use std::os::unix::process::CommandExt;
use std::process::Command;

use heliostat_backend_uring::By;

/// Tests run so where this is set, all of them (`make test-rust`).
const VARIABLE: &str = "HELIOSTAT_TEST_FILTERED";
/// Of `seccomp_data`: where the call's number is (source: linux/seccomp.h).
const NUMBER_AT: u32 = 0;
/// Jumps over as many statements as it says for equal, and for not.
const IS_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;

/// Whether nobody has an io_uring here, so that the tests' own processes have none either
/// (kernel.io_uring_disabled, or a container's filter around the whole run).
pub fn is_everywhere() -> bool {
    By::available() == By::Threads
}

/// Whether this run is one behind the filter.
pub fn is_asked_for() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Has the kernel refuse io_uring_setup(2) and unshare(2) in the program that `command` starts, with EPERM.
pub fn refuse(command: &mut Command) {
    // SAFETY: the child makes two system calls, whose memory is its own stack.
    unsafe { command.pre_exec(install) };
}

/// The same in this process from now on.
pub fn install() -> std::io::Result<()> {
    let statement =
        |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, NUMBER_AT),
        statement(IS_EQUAL, 1, 0, libc::SYS_io_uring_setup as u32),
        statement(IS_EQUAL, 0, 1, libc::SYS_unshare as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: takes numbers only.
    let alone = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: `filter` and the program it points to live for the call.
    let set =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) };
    match alone | set {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
