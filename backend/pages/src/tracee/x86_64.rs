//! What is x86-64's own: registers, the system-call instruction, and calls to start again.

use heliostat_base::sys::Sysno;

/// `user_regs_struct` (source: sys/user.h).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub(super) struct Registers {
    r15: u64,
    r14: u64,
    r13: u64,
    r12: u64,
    rbp: u64,
    rbx: u64,
    r11: u64,
    r10: u64,
    r9: u64,
    r8: u64,
    rax: u64,
    rcx: u64,
    rdx: u64,
    rsi: u64,
    rdi: u64,
    orig_rax: u64,
    rip: u64,
    cs: u64,
    eflags: u64,
    rsp: u64,
    ss: u64,
    fs_base: u64,
    gs_base: u64,
    ds: u64,
    es: u64,
    fs: u64,
    gs: u64,
}

/// The `syscall` instruction.
pub(super) const CALL: [u8; 2] = [0x0f, 0x05];
/// Code segment of 64-bit code.
const CODE_64: u64 = 0x33;
/// The kernel's own answer (it never reaches a program): start again unless a handler runs, and
/// say EINTR then (source: linux/errno.h).
const ERESTARTNOHAND: i64 = 514;
/// Not in a system call.
const NO_CALL: u64 = u64::MAX;

impl Registers {
    /// True in 64-bit code: a 64-bit program may run 32-bit code as well.
    pub(super) fn is_64_bit(&self) -> bool {
        self.cs == CODE_64
    }

    /// True when the thread was stopped in a system call, where no restartable sequence can be.
    pub(super) fn is_in_call(&self) -> bool {
        self.orig_rax as i64 >= 0
    }

    /// These registers, about to make system call `nr` with one argument by the instruction at
    /// `instruction`.
    pub(super) fn with_call(&self, instruction: u64, nr: Sysno, argument: u64) -> Self {
        // Without a call in progress the kernel has nothing to start again.
        let (rax, orig_rax) = (nr as u64, NO_CALL);
        Self { rax, orig_rax, rip: instruction, rdi: argument, ..*self }
    }

    /// What a system call has answered.
    pub(super) fn answer(&self) -> isize {
        self.rax as isize
    }

    /// Has a system call start again that ended with EINTR for no reason but our stop. True when
    /// there was something to mend.
    ///
    /// Most calls do so by themselves. Some say EINTR after any stop, even one without a signal
    /// (signal(7), "Interruption of system calls and library functions by stop signals"). The
    /// kernel's own answer for such cases is put in place: if a handler runs after all, the
    /// program sees EINTR as always, so no signal is overlooked.
    pub(super) fn mend(&mut self) -> bool {
        let is_interrupted = self.rax as i64 == -i64::from(libc::EINTR);
        let is_ours = is_interrupted && self.is_64_bit() && self.starts_again();
        if is_ours {
            self.rax = (-ERESTARTNOHAND) as u64;
        }
        is_ours
    }

    /// Whether the call in progress may start again and wait no longer than it was to: those with
    /// a limit of time would begin to count it anew, at every stop.
    fn starts_again(&self) -> bool {
        let is = |nr: Sysno| self.orig_rax == nr as u64;
        (is(Sysno::epoll_wait) || is(Sysno::epoll_pwait)) && (self.r10 as i32) < 0
            || (is(Sysno::epoll_pwait2) || is(Sysno::semtimedop)) && self.r10 == 0
            || is(Sysno::rt_sigtimedwait) && self.rdx == 0
            || is(Sysno::io_getevents) && self.r8 == 0
            || is(Sysno::semop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interrupted(nr: Sysno) -> Registers {
        let (rax, orig_rax) = (-i64::from(libc::EINTR) as u64, nr as u64);
        Registers { rax, orig_rax, cs: CODE_64, ..Registers::default() }
    }

    #[test]
    fn waits_without_end_start_again_and_limited_ones_do_not() {
        let mut for_ever = Registers { r10: u64::MAX, ..interrupted(Sysno::epoll_wait) };
        assert!(for_ever.mend());
        assert_eq!(for_ever.answer(), -514);
        assert!(!Registers { r10: 100, ..interrupted(Sysno::epoll_wait) }.mend());
        assert!(interrupted(Sysno::epoll_pwait2).mend());
        assert!(!Registers { r10: 7, ..interrupted(Sysno::epoll_pwait2) }.mend());
        assert!(!interrupted(Sysno::connect).mend());
    }

    #[test]
    fn an_answer_of_its_own_is_left_alone() {
        let done = Registers { rax: 1, r10: u64::MAX, ..interrupted(Sysno::epoll_wait) };
        let mut same = done;
        assert!(!same.mend());
        assert_eq!(same, done);
    }
}
