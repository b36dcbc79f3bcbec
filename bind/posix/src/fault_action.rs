//! rt_sigaction(2) for SIGSEGV and SIGBUS: our entry in the kernel, the program's own kept here.

use heliostat_base::sys::Errno;
use heliostat_stub_posix::thread;

use crate::actions::{self, KernelAction, SA_RESTORER};
use crate::{fault, handler};

// The kernel returns from a handler to this address; it ends the handler (rt_sigreturn is 15).
core::arch::global_asm!(
    ".hidden heliostat_posix_restorer",
    ".globl heliostat_posix_restorer",
    "heliostat_posix_restorer:",
    "mov rax, 15",
    "syscall",
);
extern "C" {
    fn heliostat_posix_restorer();
}

/// Puts our handler in, once. False when a handler stands there that did not come by libc: another
/// library has plans of its own with these signals.
pub fn install() -> bool {
    if fault::is_installed() {
        return true;
    }
    let mut program = fault::program();
    let numbers = [libc::SIGSEGV, libc::SIGBUS];
    let Some(found) = numbers.iter().map(|number| known(*number)).collect::<Option<Vec<_>>>()
    else {
        return false;
    };
    program.copy_from_slice(&found);
    // Before the kernel knows: what a handler of ours finds here must be complete.
    for (number, action) in numbers.iter().zip(&found) {
        actions::register(*number, action);
    }
    fault::note_installed();
    numbers.iter().zip(&found).all(|(number, action)| in_kernel(*number, Some(action)).is_ok())
}

/// What the program has set for a signal, if we know it.
fn known(number: i32) -> Option<KernelAction> {
    let action = in_kernel(number, None).ok()?;
    if action.handler == handler::entry_address() {
        let (handler, flags) = actions::registered(number)?;
        return Some(KernelAction { handler, flags, ..action });
    }
    (action.handler <= libc::SIG_IGN).then_some(action)
}

/// Has the kernel call our entry for `number` as it would call the program's own handler, and
/// answers what it has been told before. `None` changes nothing.
fn in_kernel(number: i32, action: Option<&KernelAction>) -> Result<KernelAction, Errno> {
    let given = action.map(|action| {
        let mut flags = action.flags | libc::SA_SIGINFO as u64 | SA_RESTORER;
        // Once means that the program's handler is called once; ours stays.
        flags &= !(libc::SA_RESETHAND as u32 as u64);
        if action.handler <= libc::SIG_IGN {
            flags = (libc::SA_SIGINFO | libc::SA_RESTART) as u64 | SA_RESTORER;
        }
        let restorer = match action.restorer {
            0 => heliostat_posix_restorer as *const () as usize,
            own => own,
        };
        KernelAction { handler: handler::entry_address(), flags, restorer, mask: action.mask }
    });
    actions::set(number, given.as_ref())
}

/// rt_sigaction(2) for one of the two, once ours stands.
pub fn action(number: i32, new: Option<KernelAction>) -> Result<KernelAction, Errno> {
    let place = fault::place(number).ok_or(Errno(libc::EINVAL))?;
    // A handler that interrupts this may set others.
    let _critical = thread::Critical::enter();
    let mut program = fault::program();
    let before = program[place];
    if let Some(new) = new {
        program[place] = new;
        actions::register(number, &new);
        in_kernel(number, Some(&new))?;
    }
    Ok(before)
}
