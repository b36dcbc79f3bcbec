//! Processes coming and going: fork, exec, exit.

use heliostat_abi::code::Native;
use heliostat_abi::report::Counter;
use heliostat_base::sys::Sysno;
use heliostat_interpose::{SyscallFrame, Verdict};
use heliostat_stub::net::{demote, listen, socket};
use heliostat_stub::table::{self, Kind};
use heliostat_stub::{enable, file, process, report};

use crate::dispatch::Call;
use crate::memory;
use crate::sockets::by_kernel;

/// fork(2), and clone(2) without shared memory: made here, so that both sides return through
/// this function, each on its own copy of the stack.
pub fn fork(call: &mut Call<'_>) -> Verdict {
    process::before_fork();
    let answer = by_kernel(call);
    match answer {
        Ok(0) => process::in_forked_child(),
        Ok(_) => file::after_fork(),
        Err(_) => process::fork_failed(),
    }
    call.answer(Some(answer))
}

/// Hears of a child that will share our memory: a thread is nothing to us.
pub extern "C" fn before_spawn(frame: *mut SyscallFrame) {
    // SAFETY: the trampoline passes its own live frame for the time of this call.
    let frame = unsafe { &*frame };
    let flags = match frame.rax {
        rax if rax == Sysno::clone as u64 => frame.args[0],
        rax if rax == Sysno::clone3 as u64 => {
            // SAFETY: libc's clone_args, which begins with the flags, a number.
            unsafe { memory::read_early::<u64>(frame.args[0]) }.ok().flatten().unwrap_or(0)
        }
        _ => 0,
    };
    if flags & libc::CLONE_THREAD as u64 == 0 {
        file::before_spawn();
    }
}

/// execve(2) and execveat(2)
pub fn exec(_call: &mut Call<'_>) -> Verdict {
    process::before_exec();
    Verdict::Pass
}

/// exit_group(2)
pub fn exit(_call: &mut Call<'_>) -> Verdict {
    process::before_exit();
    Verdict::Pass
}

/// io_uring works on descriptors where no stub sees it: this process stays native from now on.
pub fn io_uring(_call: &mut Call<'_>) -> Verdict {
    enable(false);
    file::give_up();
    listen::withdraw_all();
    report::count(Counter::Uncaught);
    for (fd, kind) in table::walk(0, u32::MAX).collect::<Vec<_>>() {
        if let Kind::Socket(index) = kind {
            if !socket::at(index).is_native() {
                demote::leave(fd, index, Native::Nested);
            }
        }
    }
    Verdict::Pass
}
