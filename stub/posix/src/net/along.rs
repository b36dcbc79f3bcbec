//! A child of vfork takes a carried connection along: it is the kernel's before the child has it.
//!
//! The child's program knows no lane, and finds at its number what the kernel has. So it leaves before
//! the child duplicates it, or keeps it over its exec.

use heliostat_base::sync::Ordering::{Acquire, Relaxed};

use heliostat_abi::code::Native;
use heliostat_base::call;

use super::socket::{self, Socket};
use super::{carried, delegated, demote};

/// In a child of vfork: `fd`, which its parent knows as connection `index`, goes where no stub is.
#[cold]
pub fn take_along(fd: i32, index: u32) {
    let socket = socket::at(index);
    let is_shadow = call::inode(fd) == Some(socket.shadow_inode.load(Relaxed));
    if !carried::is_carried(socket) || !is_shadow {
        return; // the child has something else at this number by now
    }
    match socket.is_native() {
        false => demote::leave_at_once(fd, index, Native::Exec),
        // Another child has taken it back.
        true => delegated::put(socket.carried.load(Acquire), fd),
    }
}

/// The same of a number that no table knows: the shadow is told by its inode.
pub fn take_renamed_along(fd: i32) {
    let Some(inode) = call::inode(fd) else { return };
    let is_it =
        |socket: &Socket| carried::is_carried(socket) && socket.shadow_inode.load(Relaxed) == inode;
    if let Some((index, _)) = socket::each_live().find(|(_, socket)| is_it(socket)) {
        take_along(fd, index);
    }
}
