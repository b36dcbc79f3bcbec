//! The rights by which an opener's thread acts: those of the user whose program has asked.
//!
//! The thread takes the user's and groups' numbers on as the effective ones. For an ordinary user the
//! kernel takes all capabilities away with that; of root's program the thread keeps those that the
//! program has itself. The real user stays root, which is the way back.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{getuid, Gid, Uid};
use rustix::thread::{
    capabilities, set_capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
    CapabilitySet, CapabilitySets,
};

use super::super::task::Refusal;
use super::named::Caller;

/// Does something as the program would: with its user's rights, from its root folder, which is given.
/// Waits as long as that does.
pub fn act<T>(
    caller: &Caller,
    work: impl FnOnce(&OwnedFd) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    // Before its root folder is opened, with which it is seen that the process lives.
    let its = if caller.uid == 0 { caller.capabilities() } else { CapabilitySet::empty() };
    let root = caller.root()?;
    // The real user: the effective one is another's where a thread could not come back.
    if !getuid().is_root() {
        return work(&root);
    }
    let own = capabilities(None)?;
    let answer = match become_user(caller, its, &own) {
        Ok(()) => work(&root),
        Err(errno) => Err(errno.into()),
    };
    // Until that works the thread becomes nobody else either.
    set_thread_res_uid(None::<Uid>, Uid::ROOT, None::<Uid>)?;
    set_effective(own.permitted, &own)?;
    answer
}

/// This thread's rights are the program's from now on.
fn become_user(caller: &Caller, its: CapabilitySet, own: &CapabilitySets) -> Result<(), Errno> {
    let groups: Vec<Gid> = caller.groups.iter().map(|group| Gid::from_raw(*group)).collect();
    set_thread_groups(&groups)?;
    set_thread_res_gid(None::<Gid>, Gid::from_raw(caller.gid), None::<Gid>)?;
    set_thread_res_uid(None::<Uid>, Uid::from_raw(caller.uid), None::<Uid>)?;
    set_effective(own.permitted & its, own)
}

fn set_effective(effective: CapabilitySet, own: &CapabilitySets) -> Result<(), Errno> {
    let CapabilitySets { permitted, inheritable, .. } = *own;
    set_capabilities(None, CapabilitySets { effective, permitted, inheritable })
}
