//! rt_sigaction(2): the program's handlers are kept here, and the kernel has our entry.

use heliostat_base::sys::{check, raw, Errno, Sysno};
use heliostat_interpose::Verdict;
use heliostat_stub_posix::owner;

use crate::actions::{self, KernelAction};
use crate::call::Call;
use crate::{fault, fault_action, handler, memory};

/// libc's cancellation and set-user-id signals: their handlers unwind or must run at once.
const LIBC_OWN: [i32; 2] = [32, 33];

/// rt_sigaction(2): the program's handler is kept here, ours goes to the kernel.
pub fn action(call: &mut Call<'_>) -> Verdict {
    let number = call.int(0);
    if LIBC_OWN.contains(&number) {
        return Verdict::Pass;
    }
    let Some(before) = actions::registered(number) else { return Verdict::Pass };
    if !memory::is_readable(call.word(1)) {
        return call.answer(Some(Err(memory::FAULT)));
    }
    // SAFETY: the kernel's sigaction is four numbers.
    let Ok(new) = (unsafe { memory::read_early::<KernelAction>(call.word(1)) }) else {
        return call.answer(Some(Err(memory::FAULT)));
    };
    let old_at = call.word(2);
    if fault::is_kept_here(number) && !owner::is_borrowed() && call.word(3) == 8 {
        let answer = fault_action::action(number, new);
        return call.answer(Some(answer.and_then(|old| tell(number, old_at, old))));
    }
    // A child of vfork sets its own handlers; our table is its parent's.
    let is_ours = !owner::is_borrowed();
    let given = new.map(|action| match is_ours && handler::is_function(action.handler) {
        true => {
            actions::register(number, &action);
            let flags = action.flags | libc::SA_SIGINFO as u64;
            KernelAction { handler: handler::entry_address(), flags, ..action }
        }
        false => action,
    });
    let mut old: KernelAction = memory::zeroed();
    let given_at = given.as_ref().map_or(0, |action| action as *const KernelAction as usize);
    let old_here = &mut old as *mut KernelAction as usize;
    let args = [number as usize, given_at, old_here, call.word(3) as usize, 0, 0];
    // SAFETY: both structures are live here; the size is the program's, and the kernel checks it.
    let answer = check(unsafe { raw(Sysno::rt_sigaction as usize, args) });
    if answer.is_ok() {
        if old.handler == handler::entry_address() {
            (old.handler, old.flags) = before;
        }
        return call.answer(Some(tell(number, old_at, old)));
    }
    if new.is_some_and(|action| is_ours && handler::is_function(action.handler)) {
        let (handler, flags) = before;
        actions::register(number, &KernelAction { handler, flags, ..KernelAction::DEFAULT });
    }
    call.answer(Some(answer))
}

/// Gives the program its old action; the new one stands whether there is room for it or not.
fn tell(number: i32, old_at: u64, old: KernelAction) -> Result<usize, Errno> {
    if !memory::is_writable_by(number, old_at) {
        return Err(memory::FAULT);
    }
    // SAFETY: null or the program's room for the old action, four numbers.
    unsafe { memory::write_early(old_at, old) }.map(|()| 0).map_err(|_| memory::FAULT)
}
