//! Whether this thread acts for another user, and what it does as the supervisor all the same.
//!
//! When and for whom: `behalf`.

use std::cell::Cell;
use std::sync::OnceLock;

use heliostat_base::sys::Errno;
use rustix::process::Uid;
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::errno::errno;

/// What of its rights a thread keeps while it acts for another user: none of them is about files.
const KEPT: CapabilitySet =
    CapabilitySet::SYS_PTRACE.union(CapabilitySet::SETUID).union(CapabilitySet::SETGID);

thread_local! {
    /// This thread acts for a caller with other ids.
    static ACTS: Cell<bool> = const { Cell::new(false) };
    /// And that is another user.
    static USER: Cell<Option<u32>> = const { Cell::new(None) };
}

/// From now on this thread has ids of somebody else's.
pub fn begin() {
    ACTS.set(true);
}

/// Becomes another user from now on.
///
/// # Errors
/// Those of setresuid(2) and capset(2).
pub fn begin_for(user: u32) -> Result<(), Errno> {
    become_user(user)?;
    USER.set(Some(user));
    Ok(())
}

/// Takes the supervisor's own user back.
pub fn end(own: u32) -> rustix::io::Result<()> {
    USER.set(None);
    ACTS.set(false);
    rustix::thread::set_thread_res_uid(None, Uid::from_raw(own), None)
}

/// Whether this thread acts with ids of somebody else's.
pub fn acts() -> bool {
    ACTS.get()
}

/// The user for whom this thread acts, if that is another one.
pub fn user() -> Option<u32> {
    USER.get()
}

/// Does something of the supervisor's own, which the caller has no part in: with its own rights, also
/// while the thread acts for another user.
pub fn as_supervisor<T>(work: impl FnOnce() -> T) -> T {
    let Some(user) = USER.get() else { return work() };
    // Where that fails the work has fewer rights.
    let _ = rustix::thread::set_thread_res_uid(None, Uid::ROOT, None);
    let done = work();
    or_end(become_user(user));
    done
}

/// Takes a user's id as the effective one, and gives the rights about files up. The kernel takes the
/// others away with the id of root, and gives all back with it (capabilities(7)).
fn become_user(user: u32) -> Result<(), Errno> {
    let permitted = permitted()?;
    rustix::thread::set_thread_res_uid(None, Uid::from_raw(user), None).map_err(errno)?;
    let effective = permitted & KEPT;
    let sets = CapabilitySets { effective, permitted, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).map_err(errno)
}

/// The rights that this process may have; they never change.
fn permitted() -> Result<CapabilitySet, Errno> {
    static PERMITTED: OnceLock<CapabilitySet> = OnceLock::new();
    if let Some(known) = PERMITTED.get() {
        return Ok(*known);
    }
    let own = rustix::thread::capabilities(None).map_err(errno)?.permitted;
    Ok(*PERMITTED.get_or_init(|| own))
}

/// A thread that cannot give rights up, or not take its own back, must not go on: the supervisor ends,
/// and so do all sealed processes.
pub fn or_end(done: Result<(), Errno>) {
    if done.is_err() {
        std::process::abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_acts_for_nobody_works_as_it_is() {
        assert!(!acts() && user().is_none());
        assert_eq!(as_supervisor(rustix::process::geteuid), rustix::process::geteuid());
    }
}
