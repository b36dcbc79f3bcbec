//! Processes coming and going: fork, exec, exit.

use heliostat_abi::code::Native;
use heliostat_abi::session::report::Counter;
use heliostat_base::process::is_single_threaded;
use heliostat_base::sys::Sysno;
use heliostat_interpose::{SyscallFrame, Verdict};
use heliostat_stub_posix::net::{connecting, delegated, demote, listen, socket};
use heliostat_stub_posix::table::{self, DescriptorKind};
use heliostat_stub_posix::{file, offload, owner, process, report, stay_native};

use crate::call::{by_kernel, Call};
use crate::sealed::{self, INTERRUPTED};
use crate::{alone, durable, memory, passed_on};

/// fork(2), and clone(2) without shared memory: made here, so that both sides return through
/// this function, each on its own copy of the stack.
pub fn fork(call: &mut Call<'_>) -> Verdict {
    let is_clone = call.frame.rax == Sysno::clone as u64;
    if is_clone && call.word(0) & CLONE_FILES != 0 {
        go_native(Native::OwnDescriptors);
    }
    // With a stack of its own the child would come back here without our frames.
    let stack = if is_clone { std::mem::take(&mut call.frame.args[1]) } else { 0 };
    alone::child_made();
    process::before_fork();
    let answer = sealed::uninterrupted(|| by_kernel(call));
    if is_clone {
        call.frame.args[1] = stack;
    }
    match answer {
        Ok(0) => {
            process::in_forked_child();
            offload::in_forked_child();
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
    if !is_thread {
        alone::child_made();
        durable::before_child();
        delegated::open_door();
        connecting::give_all_up();
    }
    match is_thread {
        true => heliostat_interpose::before_thread(),
        false => file::before_spawn(),
    }
    if is_thread && flags & libc::CLONE_FS as u64 == 0 {
        offload::end();
    }
    if is_thread != (flags & CLONE_FILES != 0) {
        go_native(Native::OwnDescriptors);
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

/// setuid(2) and its like: a worker that gives its rights up registers the listening sockets that
/// it inherited as the user who listens on them, who may speak to the control plane.
pub fn change_user(_call: &mut Call<'_>) -> Verdict {
    listen::renew_if_due();
    Verdict::Pass
}

/// From now on one thread's descriptors are other files than another's of the same number, and we
/// have one table. Alone, or in a child of vfork, a thread has had them for itself before.
pub fn descriptors_part() {
    if !is_single_threaded() && !owner::is_borrowed() {
        go_native(Native::OwnDescriptors);
    }
}

/// Marks the frame of an exec whose failure others wait for.
const IS_AWAITED: u64 = 1;

/// execve(2) and execveat(2)
pub fn exec(call: &mut Call<'_>) -> Verdict {
    match call.waited() {
        // Nothing of it was done: `sealed`.
        Some(INTERRUPTED) if sealed::is_sealed() => {
            return exec_in_kernel(call, environment_of(call))
        }
        Some(result) => {
            if call.frame.scratch == IS_AWAITED {
                process::exec_failed();
            }
            call.frame.rax = result as u64;
            return Verdict::Done;
        }
        None => {}
    }
    let is_awaited = process::before_exec();
    let environment = environment_of(call);
    if !is_awaited && !sealed::is_sealed() && environment.is_none() {
        return Verdict::Pass;
    }
    call.frame.scratch = if is_awaited { IS_AWAITED } else { 0 };
    exec_in_kernel(call, environment)
}

/// The environment with what was lost of it, where something was.
fn environment_of(call: &Call<'_>) -> Option<u64> {
    passed_on::completed(call.word(place_of_environment(call)))
}

fn exec_in_kernel(call: &mut Call<'_>, environment: Option<u64>) -> Verdict {
    let verdict = call.wait_in_kernel();
    if let Some(environment) = environment {
        call.frame.wait[1 + place_of_environment(call)] = environment;
    }
    verdict
}

fn place_of_environment(call: &Call<'_>) -> usize {
    if call.frame.rax == Sysno::execveat as u64 {
        3
    } else {
        2
    }
}

/// exit_group(2)
pub fn exit(_call: &mut Call<'_>) -> Verdict {
    process::before_exit();
    Verdict::Pass
}

/// Descriptors come and go where no stub sees it: this process stays native from now on.
pub fn go_native(reason: Native) {
    stay_native(reason);
    offload::end();
    file::give_up();
    listen::withdraw_all();
    report::count(Counter::Uncaught);
    for (fd, kind) in table::walk(0, u32::MAX).collect::<Vec<_>>() {
        if let DescriptorKind::Socket(index) = kind {
            if !socket::at(index).is_native() {
                demote::leave(fd, index, reason);
            }
        }
    }
}
