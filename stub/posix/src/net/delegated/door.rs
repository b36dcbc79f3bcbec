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

use super::duplicate;
use super::hidden::{self, put};
use crate::net::socket::{self, Socket};
use crate::net::{carried, watch};
use crate::owner;
use crate::table::{self, DescriptorKind};
use crate::thread::Critical;

/// A message: the connection's place, and which use of it.
const RECORD_BYTES: usize = 8;

static DOOR: Lock<Option<Door>> = Lock::new(None);
/// What children have shown of connections that have not left altogether.
static TWINS: Lock<Vec<(u64, OwnedFd)>> = Lock::new(Vec::new());
/// A child has taken a connection back.
static IS_DUE: AtomicBool = AtomicBool::new(false);

/// Two hidden numbers.
struct Door {
    parents: i32,
    childs: i32,
}

/// Before a child that shares our memory is made.
pub fn open() {
    duplicate::child_made();
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
    let record = record_of(index, socket::at(index));
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
pub fn follow_child() {
    // Whose child this is costs a system call; calls on every native connection come by here.
    if !is_due() || owner::is_borrowed() || !IS_DUE.swap(false, Acquire) {
        return;
    }
    let _critical = Critical::enter();
    // Before the door is emptied: who has left has shown its twin. What another child shows meanwhile is kept
    // until that has left, too, or its parent would go on beside the relay.
    let left: Vec<_> =
        socket::each_live().filter(|(_, it)| carried::is_left_by_child(it)).collect();
    let mut twins = TWINS.lock();
    take_twins(&mut twins);
    for (index, socket) in left {
        let _alone = socket.leaving.lock();
        let word = record_of(index, socket);
        let twin = twins.iter().rposition(|(record, _)| *record == word);
        let twin = twin.map(|at| twins.swap_remove(at).1);
        let hidden = socket.carried.load(Acquire);
        follow(index, socket, twin.as_ref().map_or(hidden, AsRawFd::as_raw_fd));
    }
    let lives = |record: u64| {
        socket::each_live().any(|(index, socket)| {
            record_of(index, socket) == record && carried::is_carried(socket)
        })
    };
    twins.retain(|(record, _)| lives(*record));
}

/// The connection at a place, told from others that have had it.
fn record_of(index: u32, socket: &Socket) -> u64 {
    u64::from(socket.generation()) << 32 | u64::from(index)
}

fn follow(index: u32, socket: &Socket, new: i32) {
    watch::life::withdraw_shadow(index);
    table::walk(0, u32::MAX)
        .filter(|(_, kind)| *kind == DescriptorKind::Socket(index))
        .for_each(|(number, _)| put(new, number));
    hidden::drop_hidden(socket);
    watch::life::became_native(index);
}

fn take_twins(twins: &mut Vec<(u64, OwnedFd)>) {
    let door = DOOR.lock();
    let Some(door) = &*door else { return };
    let mut record = [0; RECORD_BYTES];
    while let Ok((RECORD_BYTES, Some(twin))) = packet::receive_one(door.parents, &mut record, FLAGS)
    {
        twins.push((u64::from_le_bytes(record), twin));
    }
}

const FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;

/// In the child of a fork: the door is its parent's.
pub fn reset_in_forked_child() {
    DOOR.reset_in_forked_child();
    if let Some(door) = DOOR.lock().take() {
        door.close();
    }
    TWINS.reset_in_forked_child();
    TWINS.lock().clear();
    IS_DUE.store(false, Relaxed);
}
