//! Whose connection is it? An offer is believed only for a socket of its own maker.
//!
//! Anybody may write any address into a channel of their own. Within one user that gains
//! nothing (the same user may trace the process anyway); across users the kernel is asked who
//! owns the other end of the shadow.

use heliostat_abi::code::Native;
use heliostat_abi::name::NetAddress;
use heliostat_base::{process, socket_owner};

use super::channel::Channel;

/// Refuses an offer whose shadow belongs to another user, or is another socket, than it says.
pub fn check(channel: &Channel, inode: u64, client: NetAddress) -> Result<(), Native> {
    if channel.entry.peer_uid == process::effective_uid_cached() {
        return Ok(());
    }
    match socket_owner::find(client.ip, client.port) {
        Some(owner) if owner.uid == channel.entry.peer_uid && owner.inode == inode => Ok(()),
        _ => Err(Native::Identity),
    }
}
