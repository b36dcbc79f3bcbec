//! Calls of sealed programs that need no asking: the same, by a descriptor alone.
//!
//! Behind the fence every call with a path is a question to the supervisor. libc's fstat(3) asks
//! with an empty path, and what it asks has a call of its own without one.

use heliostat_base::sys::Sysno;
use heliostat_interpose::{is_constant_of_libc, Verdict};

use crate::dispatch::Call;

/// newfstatat(2): fstat(3) is one with an empty path.
pub fn newfstatat(call: &mut Call<'_>) -> Verdict {
    if let Some(result) = call.waited() {
        call.frame.rax = result as u64;
        return Verdict::Done;
    }
    let [fd, path, status, flags, ..] = call.frame.args;
    if !is_fstat(fd as i32, path, flags as i32) {
        return Verdict::Pass;
    }
    call.frame.wait = [Sysno::fstat as u64, fd, status, 0, 0, 0, 0];
    Verdict::Wait
}

/// Whether it is fstat(3): that path is a constant of libc's. Any other the kernel has to read,
/// since it may not be there.
fn is_fstat(fd: i32, path: u64, flags: i32) -> bool {
    if flags != libc::AT_EMPTY_PATH || fd < 0 || !is_constant_of_libc(path) {
        return false;
    }
    // SAFETY: libc's constants stay mapped and readable (`is_constant_of_libc`).
    unsafe { (path as *const u8).read() == 0 }
}
