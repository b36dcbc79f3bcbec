//! Epoll sets that are left to the kernel: several processes use them, or another set holds them.

use heliostat_abi::code::Native;

use super::watch::family;
use super::watch::sets::{Set, SETS, SETS_MAX};
use super::{switch, unflushed};
use crate::flush;

/// Before the set is used: one that several processes use is the kernel's from then on.
#[inline]
pub fn enter(index: u32, set: &Set) {
    if !family::may_use(set) {
        leave_to_kernel(index, Native::SharedSet);
    }
}

/// Only the kernel looks at the set from now on: its streams go native.
pub fn leave_to_kernel(index: u32, reason: Native) {
    let mut inner = SETS[index as usize % SETS_MAX].inner.lock();
    if inner.kernel_only.is_some() {
        return;
    }
    inner.kernel_only = Some(reason);
    let direct: Vec<(i32, u32)> =
        inner.all().map(|interest| (interest.fd, interest.socket)).collect();
    drop(inner);
    if flush::is_busy() {
        unflushed::settle();
    }
    for (fd, socket) in direct {
        switch::leave(fd, socket, reason);
    }
}
