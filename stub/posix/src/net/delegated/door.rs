//! A child of vfork takes a carried connection back, and its parent's numbers follow.
//!
//! ```text
//! child:   socket to its own number; a relay's twin, if there is one, through the door; then "due"
//! parent:  at its next call: the twin, or else the socket, to each of its numbers
//! ```
//! The child has its parent's memory and descriptors of its own, so it changes nothing but those: no
//! table, no epoll set of the parent. The door is a local pair that both have, made before the child.

use std::os::fd::AsRawFd;

use heliostat_base::fd::OwnedFd;
use heliostat_base::lock::Lock;
use heliostat_base::sync::AtomicBool;
use heliostat_base::sync::Ordering::{Acquire, Relaxed, Release};
use heliostat_base::{call, packet};

use super::hidden::{self, put};
use crate::net::socket::{self, Socket};
use crate::net::{carried, watch};
use crate::owner;
use crate::table::{self, DescriptorKind};
use crate::thread::Critical;

/// A message: the connection's place, and which use of it.
const RECORD_BYTES: usize = 8;

static DOOR: Lock<Option<Door>> = Lock::new(None);
/// A child has taken a connection back.
static IS_DUE: AtomicBool = AtomicBool::new(false);

/// Two hidden numbers.
struct Door {
    parents: i32,
    childs: i32,
}

/// Before a child that shares our memory is made.
pub fn open() {
    if owner::is_borrowed() || !hidden::is_any() {
        return;
    }
    let _critical = Critical::enter();
    let mut door = DOOR.lock();
    if door.is_none() {
        *door = Door::make();
    }
}

impl Door {
    fn make() -> Option<Door> {
        let (one, other) = call::local_pair().ok()?;
        let hidden = [one, other].map(|fd| {
            // Nobody waits at a door that is full, or empty.
            let _ = call::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK as usize);
            let hidden = hidden::hide(fd).ok();
            let _ = call::close(fd);
            hidden
        });
        match hidden {
            [Some(parents), Some(childs)] => Some(Door { parents, childs }),
            hidden => {
                hidden.into_iter().flatten().for_each(hidden::close_hidden);
                None
            }
        }
    }

    fn close(self) {
        [self.parents, self.childs].into_iter().for_each(hidden::close_hidden);
    }
}

/// In the child: a twin stands at `fd` for its connection, for the parent too.
pub fn show_twin(fd: i32, index: u32) {
    let record = u64::from(socket::at(index).generation()) << 32 | u64::from(index);
    if let Some(door) = &*DOOR.lock() {
        // Where it is full the parent gets the socket itself.
        let _ = packet::send(door.childs, &record.to_le_bytes(), &[fd]);
    }
}

/// In the child: the connection has left, as far as the child can do it.
pub fn note_left() {
    IS_DUE.store(true, Release);
}

/// Whether the process's own numbers are still those of shadows that a child has left.
#[inline]
pub fn is_due() -> bool {
    IS_DUE.load(Relaxed)
}

/// Gives the process's own numbers what a child has taken back.
#[cold]
pub fn follow_child() {
    if owner::is_borrowed() || !IS_DUE.swap(false, Acquire) {
        return;
    }
    let _critical = Critical::enter();
    let twins = take_twins();
    for (index, socket) in socket::each_live().filter(|(_, it)| carried::is_left_by_child(it)) {
        let _alone = socket.leaving.lock();
        let word = u64::from(socket.generation()) << 32 | u64::from(index);
        let twin = twins.iter().rfind(|(record, _)| *record == word);
        let hidden = socket.carried.load(Acquire);
        follow(index, socket, twin.map_or(hidden, |(_, twin)| twin.as_raw_fd()));
    }
}

fn follow(index: u32, socket: &Socket, new: i32) {
    watch::life::withdraw_shadow(index);
    table::walk(0, u32::MAX)
        .filter(|(_, kind)| *kind == DescriptorKind::Socket(index))
        .for_each(|(number, _)| put(new, number));
    hidden::drop_hidden(socket);
    watch::life::became_native(index);
}

fn take_twins() -> Vec<(u64, OwnedFd)> {
    let door = DOOR.lock();
    let Some(door) = &*door else { return Vec::new() };
    let mut record = [0; RECORD_BYTES];
    let mut next = || match packet::receive_one(door.parents, &mut record, FLAGS) {
        Ok((RECORD_BYTES, Some(twin))) => Some((u64::from_le_bytes(record), twin)),
        _ => None,
    };
    std::iter::from_fn(&mut next).collect()
}

const FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;

/// In the child of a fork: the door is its parent's.
pub fn reset_in_forked_child() {
    DOOR.reset_in_forked_child();
    if let Some(door) = DOOR.lock().take() {
        door.close();
    }
    IS_DUE.store(false, Relaxed);
}
