//! The table itself: places are given out, found by index, and given back.

use std::sync::atomic::Ordering::{Acquire, Release};

use heliostat_base::lock::Lock;

use super::{Receiver, Sender, Socket};

/// Connections one process may have under the stub; further ones are native and not itemised.
pub const SOCKETS_MAX: usize = 1 << 16;

/// All zeros at first (`Side`, `BTreeSet`): 24 MB of which only what is used is ever touched.
static SOCKETS: [Socket; SOCKETS_MAX] = [const { Socket::new() }; SOCKETS_MAX];
static FREE: Lock<FreeList> = Lock::new(FreeList { back: Vec::new(), fresh: 0 });

struct FreeList {
    back: Vec<u32>,
    fresh: u32,
}

/// The connection at `index`; indices come from the descriptor table and are always in range.
#[inline]
pub fn at(index: u32) -> &'static Socket {
    &SOCKETS[index as usize % SOCKETS_MAX]
}

/// The index of a connection's place: what `at` was given for it.
pub fn index_of(socket: &Socket) -> u32 {
    let distance = std::ptr::from_ref(socket).addr() - SOCKETS.as_ptr().addr();
    (distance / size_of::<Socket>()) as u32
}

/// A fresh place with one descriptor, or `None` when all are used.
pub fn allocate() -> Option<u32> {
    let mut free = FREE.lock();
    let index = match free.back.pop() {
        Some(index) => index,
        None if (free.fresh as usize) < SOCKETS_MAX => {
            free.fresh += 1;
            free.fresh - 1
        }
        None => return None,
    };
    at(index).begin();
    Some(index)
}

/// Gives a place back; its halves are emptied under their locks, so that late users find nothing.
pub fn free(index: u32) {
    let socket = at(index);
    socket.live.store(false, Release);
    *socket.receiver.lock() = Receiver::empty();
    *socket.sender.lock() = Sender::empty();
    socket.sets.lock().clear();
    FREE.lock().back.push(index);
}

/// Every place in use.
pub fn each_live() -> impl Iterator<Item = (u32, &'static Socket)> {
    let fresh = FREE.lock().fresh;
    (0..fresh).map(|index| (index, at(index))).filter(|(_, socket)| socket.live.load(Acquire))
}

/// In the child of a fork.
pub fn reset_in_forked_child() {
    FREE.reset_in_forked_child();
    each_live().for_each(|(_, socket)| socket.reset_in_forked_child());
}
