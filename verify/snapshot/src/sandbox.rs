//! Machines and sandboxes that lack what the tracking engine needs, made with seccomp filters.

use std::io::Error;

const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
/// Offset of the system call's number in `seccomp_data`, and of its second argument.
const NUMBER: u32 = 0;
const SECOND: u32 = 24;
const PAGEMAP_SCAN: u32 = 0xc060_6610;

/// What is taken away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lack {
    /// userfaultfd, as a container's profile refuses it.
    Forbidden,
    /// userfaultfd, as a kernel without it answers.
    Absent,
    /// The scan for written pages, as kernels before 6.7 answer.
    Scan,
}

/// By name.
pub const LACKS: [(&str, Lack); 3] =
    [("userfaultfd", Lack::Forbidden), ("uffd-absent", Lack::Absent), ("scan", Lack::Scan)];

/// Takes it away from this process and its children, for good.
pub fn take_away(lack: Lack) -> Result<(), Error> {
    let (call, second, errno) = match lack {
        Lack::Forbidden => (libc::SYS_userfaultfd, None, libc::EPERM),
        Lack::Absent => (libc::SYS_userfaultfd, None, libc::ENOSYS),
        Lack::Scan => (libc::SYS_ioctl, Some(PAGEMAP_SCAN), libc::ENOTTY),
    };
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    // Both compared: the same steps fit every lack, as the number equals itself.
    let (field, wanted) = second.map_or((NUMBER, call as u32), |value| (SECOND, value));
    let filter = [
        step(LOAD_WORD, 0, 0, NUMBER),
        step(JUMP_IF_EQUAL, 0, 3, call as u32),
        step(LOAD_WORD, 0, 0, field),
        step(JUMP_IF_EQUAL, 0, 1, wanted),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the program and its steps are live, and the kernel copies them.
    let answers = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program),
        ]
    };
    if answers == [0, 0] {
        Ok(())
    } else {
        Err(Error::last_os_error())
    }
}
