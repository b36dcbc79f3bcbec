//! Socket options that would lead packets elsewhere than the address says.

use heliostat_base::seal::Reply;
use heliostat_base::sys::Errno;

use crate::call::{Answer, Call};

/// Source routes: IP_OPTIONS of ip(7), and those of ipv6(7), old and new.
const V4_ROUTES: &[i32] = &[libc::IP_OPTIONS];
const V6_ROUTES: &[i32] = &[5, 6, 54, 57, 59];

/// setsockopt(2) at the levels that the filter asks about. The numbers are in registers: what
/// is judged is what the kernel goes on with.
pub fn set(call: &Call<'_>) -> Answer {
    let (level, option) = (call.int(1), call.int(2));
    let leads_elsewhere = match level {
        libc::IPPROTO_IP => V4_ROUTES.contains(&option),
        libc::IPPROTO_IPV6 => V6_ROUTES.contains(&option),
        _ => {
            call.house.note_call(call, &format!("options of level {level}"));
            return Err(Errno(libc::ENOPROTOOPT));
        }
    };
    if leads_elsewhere {
        call.house.note_call(call, "source routes");
        return Err(Errno(libc::EPERM));
    }
    Ok(Reply::Continue)
}
