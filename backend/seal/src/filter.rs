//! A seccomp filter (classic BPF, seccomp(2)): its instructions and its installation.

use std::os::fd::RawFd;

use heliostat_base::fd::OwnedFd;
use heliostat_base::sys::{check, raw, Errno, Sysno};

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The kernel makes it.
    Allow,
    /// It fails with this error number at once.
    Errno(u16),
    /// The listener answers it.
    Notify,
}

impl Verdict {
    fn word(self) -> u32 {
        match self {
            Self::Allow => libc::SECCOMP_RET_ALLOW,
            Self::Errno(number) => libc::SECCOMP_RET_ERRNO | u32::from(number),
            Self::Notify => libc::SECCOMP_RET_USER_NOTIF,
        }
    }
}

/// One instruction of a filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    operand: u32,
}

const fn instruction(code: u32, operand: u32, if_true: u8, if_false: u8) -> Instruction {
    Instruction { code: code as u16, if_true, if_false, operand }
}

impl Instruction {
    /// Loads a word of `seccomp_data` at a byte offset.
    pub const fn load(offset: u32) -> Self {
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0)
    }

    /// Skips `if_true` or `if_false` instructions: the loaded word equals `value`?
    pub const fn is_equal(value: u32, if_true: u8, if_false: u8) -> Self {
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, if_true, if_false)
    }

    /// As `is_equal`: the loaded word is `value` or more?
    pub const fn is_at_least(value: u32, if_true: u8, if_false: u8) -> Self {
        instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, value, if_true, if_false)
    }

    /// As `is_equal`: the loaded word has any of these bits?
    pub const fn has_any(bits: u32, if_true: u8, if_false: u8) -> Self {
        instruction(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, bits, if_true, if_false)
    }

    /// Skips so many instructions.
    pub const fn skip(count: u32) -> Self {
        instruction(libc::BPF_JMP | libc::BPF_JA, count, 0, 0)
    }

    /// Keeps these bits of the loaded word.
    pub const fn keep(bits: u32) -> Self {
        instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, bits, 0, 0)
    }

    /// Ends with a verdict.
    pub fn end(verdict: Verdict) -> Self {
        instruction(libc::BPF_RET | libc::BPF_K, verdict.word(), 0, 0)
    }

    /// What the kernel would do with a filter made of these: the instruction that ends it, given
    /// the word at each offset of `seccomp_data`. Panics if it does not end: for tests.
    pub fn run(program: &[Self], word: impl Fn(u32) -> u32) -> Self {
        let (mut at, mut loaded) = (0, 0u32);
        loop {
            let one = program[at];
            let jump =
                |is_true: bool| usize::from(if is_true { one.if_true } else { one.if_false });
            at += 1 + match u32::from(one.code) {
                code if code == libc::BPF_RET | libc::BPF_K => return one,
                code if code == libc::BPF_JMP | libc::BPF_JA => one.operand as usize,
                code if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => {
                    jump(loaded == one.operand)
                }
                code if code == libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K => {
                    jump(loaded >= one.operand)
                }
                code if code == libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K => {
                    jump(loaded & one.operand != 0)
                }
                code if code == libc::BPF_ALU | libc::BPF_AND | libc::BPF_K => {
                    loaded &= one.operand;
                    0
                }
                _ => {
                    loaded = word(one.operand);
                    0
                }
            };
        }
    }

    fn raw(self) -> libc::sock_filter {
        libc::sock_filter { code: self.code, jt: self.if_true, jf: self.if_false, k: self.operand }
    }
}

/// Puts this thread, and all it starts, under the filter for ever; the answer receives its
/// notifications (seccomp_unotify(2)). The process must have no_new_privs or CAP_SYS_ADMIN.
///
/// A notified call that has been received waits on although signals come, unless they kill
/// (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, Linux 5.19), so that none is answered twice.
///
/// # Errors
/// EINVAL for a malformed filter, EBUSY if there is a listener already, EACCES without
/// no_new_privs, ENOSYS without seccomp.
pub fn install(program: &[Instruction]) -> Result<OwnedFd, Errno> {
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER as usize
        | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV as usize;
    let fd = put_up(program, flags)?;
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::adopt(fd as RawFd) })
}

/// Whether a program of Heliostat's, or of another that says so by itself, listens to this process
/// already: there can be one listener (seccomp(2), EBUSY). Where the kernel alone knows, `install`
/// says so.
pub fn is_taken() -> bool {
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER as usize;
    let args = [libc::SECCOMP_SET_MODE_FILTER as usize, flags, 0, 0, 0, 0];
    // SAFETY: without a filter nothing is put up, and the kernel says EFAULT.
    check(unsafe { raw(Sysno::seccomp as usize, args) }) == Err(Errno(libc::EBUSY))
}

/// Puts this thread, and all it starts, under a filter that asks nobody, for ever.
///
/// # Errors
/// Those of `install`.
pub fn restrict(program: &[Instruction]) -> Result<(), Errno> {
    put_up(program, 0).map(drop)
}

fn put_up(program: &[Instruction], flags: usize) -> Result<usize, Errno> {
    let raws: Vec<libc::sock_filter> = program.iter().map(|one| one.raw()).collect();
    let length = u16::try_from(raws.len()).map_err(|_| Errno(libc::EINVAL))?;
    let whole = libc::sock_fprog { len: length, filter: raws.as_ptr().cast_mut() };
    let at = std::ptr::from_ref(&whole) as usize;
    let args = [libc::SECCOMP_SET_MODE_FILTER as usize, flags, at, 0, 0, 0];
    // SAFETY: the program and its instructions live until the call returns, with their length.
    check(unsafe { raw(Sysno::seccomp as usize, args) })
}
