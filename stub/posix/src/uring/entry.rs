//! One entry of a ring: which descriptors it names, and what becomes of them and of it.
//!
//! An entry that changes an epoll set is carried out here, as epoll_ctl(2) is, and then turned into
//! one that does nothing and gives the answer. That is possible only where nothing that comes
//! before it in a chain decides about it, and an answer that is an error only since Linux 6.10;
//! otherwise the connection leaves, and the kernel answers by itself.

use std::sync::OnceLock;

use heliostat_abi::code::Native;
use heliostat_base::call;
use heliostat_base::sys::Errno;

use crate::event::epoll;
use crate::net::{demote, kernel, listen, shared_set, socket};
use crate::program_rings::{Program, ENTRY_BYTES};
use crate::table::{self, DescriptorKind};
use crate::{file, process, report};

/// Kinds of entries (source: linux/io_uring.h).
mod kind {
    pub const NOP: u8 = 0;
    pub const READV: u8 = 1;
    pub const READ_FIXED: u8 = 4;
    pub const POLL_ADD: u8 = 6;
    pub const ACCEPT: u8 = 13;
    pub const CONNECT: u8 = 16;
    pub const CLOSE: u8 = 19;
    pub const FILES_UPDATE: u8 = 20;
    pub const READ: u8 = 22;
    pub const EPOLL_CTL: u8 = 29;
    pub const SPLICE: u8 = 30;
    pub const TEE: u8 = 33;
    pub const EPOLL_WAIT: u8 = 59;
    /// Those whose descriptor field is a folder, a ring, a process, a family, or not looked at:
    /// NOP, POLL_REMOVE, timeouts, ASYNC_CANCEL, OPENAT, STATX, MADVISE, OPENAT2, buffers, renames
    /// and links, MSG_RING, SOCKET, WAITID, futexes, FIXED_FD_INSTALL, PIPE.
    pub const WITHOUT_FILE: [u8; 27] = [
        0, 7, 11, 12, 14, 15, 18, 21, 25, 28, 31, 32, 35, 36, 37, 38, 39, 40, 45, 50, 51, 52, 53,
        54, 62, 42, 44,
    ];
}

const FLAG_FIXED_FILE: u8 = 1 << 0;
const FLAG_DRAIN: u8 = 1 << 1;
const FLAGS_LINK: u8 = 1 << 2 | 1 << 3;
/// The first descriptor of SPLICE and TEE is a registered one.
const SPLICE_FIXED: u32 = 1 << 31;
/// NOP answers what its length says.
const NOP_INJECT_RESULT: u32 = 1;
/// The file's own offset.
const OFFSET_OF_FILE: u64 = u64::MAX;
/// Descriptors of one FILES_UPDATE that are looked at; the kernel takes no more.
const FILES_MAX: u64 = 1 << 20;

/// What becomes of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// The kernel carries it out as it is.
    Kernels,
    /// It has been carried out, with this answer.
    Answered(Result<usize, Errno>),
    /// It names a descriptor that is not the program's: the kernel shall find none.
    NoDescriptor,
}

/// Why a descriptor is named.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// By an entry of this kind, at this offset.
    Entry(u8, u64),
    /// To be registered.
    Registered,
}

fn word(bytes: &[u8; ENTRY_BYTES], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|place| bytes[at + place]))
}

fn long(bytes: &[u8; ENTRY_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|place| bytes[at + place]))
}

const AT_FLAGS: usize = 1;
const AT_FD: usize = 4;
const AT_OFFSET: usize = 8;
const AT_ADDRESS: usize = 16;
const AT_LENGTH: usize = 24;
const AT_OWN_FLAGS: usize = 28;
const AT_BUFFER: usize = 40;
/// Second descriptor, or the place of a registered file.
const AT_SECOND_FD: usize = 44;

/// True when the entry after it waits for its end.
pub(super) fn is_linked(bytes: &[u8; ENTRY_BYTES]) -> bool {
    bytes[AT_FLAGS] & FLAGS_LINK != 0
}

/// Does what has to be done before the kernel takes the entry. `is_free` when it is carried out at
/// once, and the ring takes entries of every kind.
pub(super) fn judge(bytes: &[u8; ENTRY_BYTES], is_free: bool, program: &impl Program) -> Fate {
    let (what, fd) = (bytes[0], word(bytes, AT_FD) as i32);
    let is_fixed = bytes[AT_FLAGS] & FLAG_FIXED_FILE != 0;
    let is_free = is_free && bytes[AT_FLAGS] & FLAG_DRAIN == 0;
    match what {
        kind::CLOSE => return close(bytes, fd, is_free),
        kind::EPOLL_CTL => return change_set(bytes, fd, is_free, program),
        kind::FILES_UPDATE => {
            let (array, count) = (long(bytes, AT_ADDRESS), word(bytes, AT_LENGTH));
            register_all(array, u64::from(count), program);
        }
        kind::SPLICE | kind::TEE => {
            if word(bytes, AT_OWN_FLAGS) & SPLICE_FIXED == 0 {
                let from = word(bytes, AT_SECOND_FD) as i32;
                named(from, Use::Entry(what, long(bytes, AT_ADDRESS)));
            }
            if !is_fixed {
                named(fd, Use::Entry(what, long(bytes, AT_OFFSET)));
            }
        }
        _ if is_fixed || kind::WITHOUT_FILE.contains(&what) => {}
        _ => named(fd, Use::Entry(what, long(bytes, AT_OFFSET))),
    }
    Fate::Kernels
}

/// Turns the entry into what `fate` asks for; false when nothing is to be changed.
pub(super) fn rewrite(bytes: &mut [u8; ENTRY_BYTES], fate: Fate) -> bool {
    let mut put = |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    match fate {
        Fate::Kernels => return false,
        Fate::NoDescriptor => put(AT_FD, u32::MAX),
        Fate::Answered(answer) => {
            let inject = u32::from(answer.is_err());
            let result = answer.map_or_else(|Errno(errno)| -errno, |value| value as i32);
            put(AT_LENGTH, result as u32);
            put(AT_OWN_FLAGS, inject * NOP_INJECT_RESULT);
            bytes[0] = kind::NOP;
        }
    }
    true
}

/// CLOSE. Where something before it in its chain may use the descriptor, it leaves first.
fn close(bytes: &[u8; ENTRY_BYTES], fd: i32, is_free: bool) -> Fate {
    let is_of_place = word(bytes, AT_SECOND_FD) != 0 || bytes[AT_FLAGS] & FLAG_FIXED_FILE != 0;
    let others = [AT_OFFSET, AT_OFFSET + 4, AT_ADDRESS, AT_ADDRESS + 4, AT_LENGTH, AT_OWN_FLAGS];
    let is_refused = others.iter().any(|at| word(bytes, *at) != 0);
    if is_of_place || is_refused {
        return Fate::Kernels;
    }
    if let (DescriptorKind::Socket(index), false) = (table::kind(fd), is_free) {
        leave(fd, index);
    }
    match process::closing(fd) {
        Some(_) => Fate::NoDescriptor,
        None => Fate::Kernels,
    }
}

/// EPOLL_CTL: the set in the descriptor field, the descriptor in the offset, the operation in the
/// length, the event at the address.
fn change_set(bytes: &[u8; ENTRY_BYTES], set: i32, is_free: bool, program: &impl Program) -> Fate {
    let (fd, op) = (word(bytes, AT_OFFSET) as i32, word(bytes, AT_LENGTH) as i32);
    // The kernel refuses an entry with these.
    if word(bytes, AT_BUFFER) as u16 != 0 || word(bytes, AT_SECOND_FD) != 0 {
        return Fate::Kernels;
    }
    let mut raw = [0; 12];
    let is_there = op == libc::EPOLL_CTL_DEL || program.fetch(long(bytes, AT_ADDRESS), &mut raw);
    if !is_there {
        return Fate::Kernels;
    }
    if !is_free {
        named(fd, Use::Registered);
        return Fate::Kernels;
    }
    let events = u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]);
    let data = u64::from_le_bytes(std::array::from_fn(|place| raw[4 + place]));
    let event = (op != libc::EPOLL_CTL_DEL).then_some(libc::epoll_event { events, u64: data });
    let by_kernel = || call::epoll_ctl(set, op, fd, event);
    // All of them at once: the kernel would come to those left to it after those that were not.
    let answer = epoll::control(set, op, fd, event, by_kernel).unwrap_or_else(by_kernel);
    if answer.is_err() && !can_answer_errors() {
        if let DescriptorKind::Socket(index) = table::kind(fd) {
            leave(fd, index);
        }
        return Fate::Kernels;
    }
    Fate::Answered(answer)
}

/// Since Linux 6.10 NOP answers what it is told to.
fn can_answer_errors() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| call::kernel_version() >= (6, 10))
}

/// Each descriptor of an array that is about to be registered.
pub(super) fn register_all(array: u64, count: u64, program: &impl Program) {
    for place in 0..count.min(FILES_MAX) {
        let mut bytes = [0; 4];
        if !program.fetch(array.wrapping_add(place * 4), &mut bytes) {
            return;
        }
        named(i32::from_le_bytes(bytes), Use::Registered);
    }
}

/// A descriptor that the ring will use: what the stub has of it becomes the kernel's.
fn named(fd: i32, by: Use) {
    let is_file = table::file(fd) != 0;
    match (table::kind(fd), by) {
        (DescriptorKind::Socket(index), _) => leave(fd, index),
        (DescriptorKind::Epoll(index), _) => shared_set::leave_to_kernel(index, Native::Ring),
        (DescriptorKind::Listener(_), Use::Registered | Use::Entry(kind::ACCEPT, _)) => {
            listen::withdraw(fd)
        }
        _ if is_file && !is_positioned_read(by) => file::passing(fd),
        // A socket that is connected later, or an epoll set, would be watched unseen.
        (
            DescriptorKind::Unknown,
            Use::Registered | Use::Entry(kind::POLL_ADD | kind::EPOLL_WAIT, _),
        ) if fd >= 0 && !is_file => {
            table::set(fd, DescriptorKind::Polled);
        }
        _ => {}
    }
    if matches!(by, Use::Entry(kind::ACCEPT | kind::CONNECT, _)) && kernel::is_tcp(fd) {
        report::count_native(Native::Ring);
    }
}

fn is_positioned_read(by: Use) -> bool {
    match by {
        Use::Entry(kind::READ | kind::READV | kind::READ_FIXED, at) => at != OFFSET_OF_FILE,
        _ => false,
    }
}

fn leave(fd: i32, index: u32) {
    if !socket::at(index).is_native() {
        demote::leave(fd, index, Native::Ring);
    }
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
