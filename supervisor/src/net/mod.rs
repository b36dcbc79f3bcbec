//! Calls with addresses: the supervisor makes them, on its own copy of the socket.
//!
//! An address in the program's memory could change between the look at it and its use, and so
//! could the socket behind a number. So both are copied first: the address once, the socket by
//! pidfd_getfd(2), or it was made by the supervisor (`kept`); what was judged is what is used.

pub mod address;
mod asked;
mod bind;
mod connect;
mod frozen;
mod holders;
mod kept;
pub mod message;
mod option;
mod reach;
mod send;
mod socket;
mod unix;

pub use frozen::is_alone;
pub use kept::keep;

use heliostat_base::sys::Sysno;

use crate::call::{Answer, Call};

/// The answer if the call is of this family.
pub fn answer(call: &Call<'_>) -> Option<Answer> {
    Some(match call.number {
        Sysno::socket | Sysno::socketpair => socket::make(call),
        Sysno::setsockopt => option::set(call),
        Sysno::connect => connect::connect(call),
        Sysno::bind => bind::bind(call),
        Sysno::listen => bind::listen(call),
        Sysno::sendto => send::to(call),
        Sysno::sendmsg => send::message(call),
        Sysno::sendmmsg => send::messages(call),
        _ => return None,
    })
}
