//! ptrace(2) and waitpid(2), one request each, for the thread that makes them.

use heliostat_base::sys::{check, raw, Errno, Sysno};

use super::x86_64::Registers;

const PTRACE_CONT: usize = 7;
const PTRACE_GETREGS: usize = 12;
const PTRACE_SETREGS: usize = 13;
const PTRACE_DETACH: usize = 17;
const PTRACE_SYSCALL: usize = 24;
const PTRACE_SEIZE: usize = 0x4206;
const PTRACE_INTERRUPT: usize = 0x4207;
/// Of x86 (source: asm/ptrace-abi.h).
const PTRACE_SYSEMU: usize = 31;
const PTRACE_GETSIGMASK: usize = 0x420a;
const PTRACE_SETSIGMASK: usize = 0x420b;
const PTRACE_GET_RSEQ_CONFIGURATION: usize = 0x420f;
const PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG: usize = 0x4211;
/// Stops at system calls are told from signals. PTRACE_O_EXITKILL must never be added: the target
/// outlives us.
const OPTIONS: usize = libc::PTRACE_O_TRACESYSGOOD as usize;
/// `status >> 16` of a stop that PTRACE_INTERRUPT or job control made.
const EVENT_STOP: i32 = 128;

/// What has become of a traced thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// It goes on still.
    Running,
    /// It stands, with this signal in its hands (0 for none).
    Stands(i32),
    /// It stands because its whole process is stopped, as by SIGSTOP.
    JobStop,
    /// It stands at the entry or exit of a system call.
    AtCall,
    /// It is no more.
    Ended,
}

fn request(what: usize, tid: i32, address: usize, data: usize) -> Result<(), Errno> {
    let args = [what, tid as usize, address, data, 0, 0];
    // SAFETY: requests through here take no pointer of ours, or one that the caller below has from
    // a reference to a value of the layout and length that the request asks for (ptrace(2)).
    check(unsafe { raw(Sysno::ptrace as usize, args) }).map(|_| ())
}

/// Begins to trace a thread, which goes on.
pub(super) fn seize(tid: i32) -> Result<(), Errno> {
    request(PTRACE_SEIZE, tid, 0, OPTIONS)
}

/// Asks a traced thread to stand; it does so on its next way out of the kernel.
pub(super) fn interrupt(tid: i32) -> Result<(), Errno> {
    request(PTRACE_INTERRUPT, tid, 0, 0)
}

/// Lets a standing thread go on until something happens to it.
pub(super) fn go_on(tid: i32) -> Result<(), Errno> {
    request(PTRACE_CONT, tid, 0, 0)
}

/// Lets a standing thread go on to its next entry to or exit from a system call.
pub(super) fn go_to_call(tid: i32) -> Result<(), Errno> {
    request(PTRACE_SYSCALL, tid, 0, 0)
}

/// The same to its next entry to a system call, which is then not made.
pub(super) fn go_to_call_unmade(tid: i32) -> Result<(), Errno> {
    request(PTRACE_SYSEMU, tid, 0, 0)
}

/// Ends the tracing of a standing thread, which goes on with `signal` (0 for none).
pub(super) fn detach(tid: i32, signal: i32) -> Result<(), Errno> {
    request(PTRACE_DETACH, tid, 0, signal as usize)
}

/// A standing thread's registers.
pub(super) fn registers(tid: i32) -> Result<Registers, Errno> {
    let mut found = Registers::default();
    request(PTRACE_GETREGS, tid, 0, &mut found as *mut Registers as usize)?;
    Ok(found)
}

/// Sets a standing thread's registers.
pub(super) fn set_registers(tid: i32, registers: &Registers) -> Result<(), Errno> {
    request(PTRACE_SETREGS, tid, 0, registers as *const Registers as usize)
}

/// The signals that a standing thread blocks, a bit each.
pub(super) fn blocked(tid: i32) -> Result<u64, Errno> {
    let mut mask = 0u64;
    request(PTRACE_GETSIGMASK, tid, 8, &mut mask as *mut u64 as usize)?;
    Ok(mask)
}

/// Sets the signals that a standing thread blocks.
pub(super) fn set_blocked(tid: i32, mask: u64) -> Result<(), Errno> {
    request(PTRACE_SETSIGMASK, tid, 8, &mask as *const u64 as usize)
}

/// Where a standing thread's restartable sequences are registered; `None` for nowhere.
pub(super) fn sequences_at(tid: i32) -> Option<u64> {
    // ptrace_rseq_configuration: pointer, size, signature, flags, zero.
    let mut found = [0u64; 3];
    request(PTRACE_GET_RSEQ_CONFIGURATION, tid, 24, &mut found as *mut _ as usize).ok()?;
    Some(found[0]).filter(|at| *at != 0)
}

/// True when a standing thread has its system calls sent to a handler of its own.
pub(super) fn dispatches_calls(tid: i32) -> bool {
    // ptrace_sud_config: mode, selector, offset, length.
    let mut found = [0u64; 4];
    let at = &mut found as *mut _ as usize;
    request(PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, tid, 32, at).is_ok() && found[0] != 0
}

/// Looks, without blocking, at what has become of a traced thread.
pub(super) fn state(tid: i32) -> State {
    let (mut status, flags) = (0i32, (libc::WNOHANG | libc::__WALL) as usize);
    let args = [tid as usize, &mut status as *mut i32 as usize, flags, 0, 0, 0];
    // SAFETY: `status` is one live int; no usage is asked for.
    match check(unsafe { raw(Sysno::wait4 as usize, args) }) {
        Ok(0) | Err(Errno(libc::EINTR)) => State::Running,
        Err(_) => State::Ended,
        Ok(_) if !libc::WIFSTOPPED(status) => State::Ended,
        Ok(_) => match (status >> 16, libc::WSTOPSIG(status)) {
            (EVENT_STOP, libc::SIGTRAP) => State::Stands(0),
            (EVENT_STOP, _) => State::JobStop,
            (_, signal) if signal == libc::SIGTRAP | 0x80 => State::AtCall,
            (_, signal) => State::Stands(signal),
        },
    }
}
