//! Raw system calls, made by this crate's own instruction and never through libc.
//!
//! Results follow the kernel's convention (`-errno` on failure) at the lowest level and
//! `Result<_, Errno>` above it.

pub use syscalls::Sysno;

/// An error number as the kernel returns it, always positive (source: errno(3)).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Errno(pub i32);

impl std::fmt::Display for Errno {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::io::Error::from_raw_os_error(self.0).fmt(f)
    }
}
impl std::error::Error for Errno {}

/// Makes system call `nr` with six arguments and returns the kernel's raw answer.
///
/// # Safety
/// The caller vouches for every pointer among `args` as the kernel's manual page of `nr` asks.
#[inline(always)]
pub unsafe fn raw(nr: usize, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the x86-64 system-call convention (rcx and r11 are clobbered, all else is kept);
    // what the call does to memory is the caller's promise.
    unsafe {
        core::arch::asm!("syscall",
            inlateout("rax") nr as isize => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// Splits a raw kernel answer into value and error number.
#[inline(always)]
pub fn check(answer: isize) -> Result<usize, Errno> {
    if (-4095..0).contains(&answer) {
        Err(Errno(-answer as i32))
    } else {
        Ok(answer as usize)
    }
}
