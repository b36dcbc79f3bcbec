//! Processes coming and going: fork, exec, exit.

use heliostat_abi::code::Native;
use heliostat_abi::report::Counter;
use heliostat_base::process::is_single_threaded;
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
    let is_clone = call.frame.rax == Sysno::clone as u64;
    if is_clone && call.word(0) & CLONE_FILES != 0 {
        stay_native();
    }
    // With a stack of its own the child would come back here without our frames.
    let stack = if is_clone { std::mem::take(&mut call.frame.args[1]) } else { 0 };
    process::before_fork();
    let answer = by_kernel(call);
    if is_clone {
        call.frame.args[1] = stack;
    }
    match answer {
        Ok(0) => {
            process::in_forked_child();
            if stack != 0 {
                // SAFETY: the trampoline's frame, and the stack that the program has given its child.
                unsafe { call.frame.go_on_at(stack) };
            }
        }
        Ok(_) => file::after_fork(),
        Err(_) => process::fork_failed(),
    }
    call.answer(Some(answer))
}

/// Hears of a child that will share our memory: a thread is nothing to us, but may be cancelled.
pub extern "C" fn before_spawn(frame: *mut SyscallFrame) {
    // SAFETY: the trampoline passes its own live frame for the time of this call.
    let frame = unsafe { &*frame };
    let flags = match frame.rax {
        rax if rax == Sysno::clone as u64 => frame.args[0],
        rax if rax == Sysno::clone3 as u64 && memory::is_readable(frame.args[0]) => {
            // SAFETY: libc's clone_args, which begins with the flags, a number.
            unsafe { memory::read_early::<u64>(frame.args[0]) }.ok().flatten().unwrap_or(0)
        }
        _ => 0,
    };
    let is_thread = flags & libc::CLONE_THREAD as u64 != 0;
    match is_thread {
        true => heliostat_interpose::before_thread(),
        false => file::before_spawn(),
    }
    if is_thread != (flags & CLONE_FILES != 0) {
        stay_native();
    }
}

const CLONE_FILES: u64 = libc::CLONE_FILES as u64;

/// unshare(2): a thread may take the process's descriptors along, and go on with its own.
pub fn unshare(call: &mut Call<'_>) -> Verdict {
    if call.word(0) & CLONE_FILES != 0 {
        descriptors_part();
    }
    Verdict::Pass
}

/// From now on one thread's descriptors are other files than another's of the same number, and we
/// have one table. Alone, or in a child of vfork, a thread has had them for itself before.
pub fn descriptors_part() {
    if !is_single_threaded() && !process::is_borrowed() {
        stay_native();
    }
}

/// execve(2) and execveat(2)
pub fn exec(call: &mut Call<'_>) -> Verdict {
    if let Some(result) = call.waited() {
        process::exec_failed();
        call.frame.rax = result as u64;
        return Verdict::Done;
    }
    match process::before_exec() {
        true => call.wait_in_kernel(),
        false => Verdict::Pass,
    }
}

/// exit_group(2)
pub fn exit(_call: &mut Call<'_>) -> Verdict {
    process::before_exit();
    Verdict::Pass
}

/// io_uring works on descriptors where no stub sees it.
pub fn io_uring(_call: &mut Call<'_>) -> Verdict {
    stay_native();
    Verdict::Pass
}

/// Descriptors come and go where no stub sees it: this process stays native from now on.
fn stay_native() {
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
}
