//! A caught system call: its arguments, and the ways to answer it.

use heliostat_base::sys::{check, raw, Errno};
use heliostat_interpose::{SyscallFrame, Verdict};
use heliostat_stub_posix::Answer;

/// A caught call's registers.
pub struct Call<'a> {
    /// The frame, for calls that wait in the kernel.
    pub frame: &'a mut SyscallFrame,
}

impl Call<'_> {
    /// Argument `place` as the kernel would see a 32-bit one.
    #[inline(always)]
    pub fn int(&self, place: usize) -> i32 {
        self.frame.args[place] as i32
    }

    /// Argument `place`.
    #[inline(always)]
    pub fn word(&self, place: usize) -> u64 {
        self.frame.args[place]
    }

    /// Answers the call.
    #[inline(always)]
    pub fn answer(&mut self, answer: Answer) -> Verdict {
        match answer {
            Some(Ok(value)) => self.frame.rax = value as u64,
            Some(Err(errno)) => self.frame.rax = -i64::from(errno.0) as u64,
            None => return Verdict::Pass,
        }
        Verdict::Done
    }

    /// Lets the kernel do the same call without a frame of ours, and comes back with its result.
    pub fn wait_in_kernel(&mut self) -> Verdict {
        self.frame.wait[0] = self.frame.rax;
        self.frame.wait[1..].copy_from_slice(&self.frame.args);
        Verdict::Wait
    }

    /// The kernel's result after `wait_in_kernel`, `None` before it.
    pub fn waited(&self) -> Option<i64> {
        (self.frame.rounds > 0).then_some(self.frame.waited)
    }
}

/// The call as it is, made here; only for calls that do not block for long.
pub fn by_kernel(call: &Call<'_>) -> Result<usize, Errno> {
    let args = call.frame.args.map(|word| word as usize);
    // SAFETY: exactly the call the program made, with its own arguments.
    check(unsafe { raw(call.frame.rax as usize, args) })
}
