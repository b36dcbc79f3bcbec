//! Calls with addresses.

use heliostat_base::sys::{Errno, Sysno};

use crate::call::{Answer, Call};

/// The answer if the call is of this family.
pub fn answer(call: &Call<'_>) -> Option<Answer> {
    match call.number {
        Sysno::connect
        | Sysno::bind
        | Sysno::listen
        | Sysno::sendto
        | Sysno::sendmsg
        | Sysno::sendmmsg => {
            call.house.note_call(call, "no address is granted");
            Some(Err(Errno(libc::EACCES)))
        }
        _ => None,
    }
}
