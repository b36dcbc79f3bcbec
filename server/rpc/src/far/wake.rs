//! Has the loop look again at a time: whoever of its sessions is there wakes it.

use heliostat_server_loop::Sessions;

use crate::rpcs::Rpcs;

/// Looks again at this time, or before.
pub(crate) fn wake_at(sessions: &mut Sessions<Rpcs>, at_ns: u64) {
    if sessions.engine.service.wake_ns.is_none_or(|wake_ns| at_ns < wake_ns) {
        set_wake(sessions, Some(at_ns));
    }
}

/// Looks again at this time, whatever was said before.
pub(crate) fn set_wake(sessions: &mut Sessions<Rpcs>, wake_ns: Option<u64>) {
    sessions.engine.service.wake_ns = wake_ns;
    sessions.resume_named(|member, _| {
        member.wake_ns = wake_ns;
        Vec::new()
    });
}
