//! Whose connection is it? What the kernel says of an offer, before it is claimed.
//!
//! Anybody may write any address into a channel of their own, so that every offer has to be proven
//! by who holds the connection (`early::proof`). Across users the kernel is asked beside that who owns
//! the other end of the shadow. A server that listens as root and then becomes another user is asked
//! for its user now, not for what it was.

use heliostat_abi::code::Native;
use heliostat_abi::name::NetAddress;
use heliostat_backend_socket::owner;
use heliostat_base::process;

use super::channel::Channel;

const ROOT: u32 = 0;

/// Refuses an offer whose shadow belongs to another user, or is another socket, than it says.
pub fn check(channel: &Channel, inode: u64, client: NetAddress) -> Result<(), Native> {
    if [ROOT, process::effective_uid()].contains(&channel.entry.peer_uid) {
        return Ok(());
    }
    match owner::find(client.ip, client.port) {
        Some(owner) if owner.uid == channel.entry.peer_uid && owner.inode == inode => Ok(()),
        _ => Err(Native::Identity),
    }
}
