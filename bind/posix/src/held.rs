//! Which calls go on while something is not flushed: they let nothing out, or what they write is held back.

use heliostat_base::call as kernel;
use heliostat_base::sys::Sysno;
use heliostat_stub_posix::flush;
use heliostat_stub_posix::net::watch::sets;
use heliostat_stub_posix::net::{socket, unflushed};
use heliostat_stub_posix::table::{self, DescriptorKind};

use crate::call::Call;
use crate::mappings;

/// Whether this call lets nothing out, or what it does is held back.
pub fn goes_on(kind: Sysno, call: &Call<'_>) -> bool {
    let fd = call.int(0);
    match kind {
        // A direct connection: bytes are read from memory, and a call that finds none settles itself.
        Sysno::read | Sysno::readv | Sysno::recvfrom | Sysno::recvmsg => direct(fd).is_some(),
        Sysno::write | Sysno::writev => match direct(fd) {
            Some(index) => unflushed::can_hold(index, 0),
            None => appends(fd, None),
        },
        Sysno::pwrite64 | Sysno::pwritev => appends(fd, Some(call.word(3))),
        Sysno::pwritev2 if call.int(5) == 0 => appends(fd, stated(call.word(3))),
        Sysno::pread64 | Sysno::preadv => flush::is_pending(fd),
        Sysno::sendto => direct(fd).is_some_and(|index| unflushed::can_hold(index, call.int(3))),
        // Others may have the same offset.
        Sysno::lseek => call.word(1) == 0 && call.int(2) == libc::SEEK_CUR,
        Sysno::epoll_ctl => sets::is_own_alone(fd),
        Sysno::rt_sigprocmask => delivers_nothing(call),
        Sysno::munmap | Sysno::mremap => !mappings::holds_files(),
        Sysno::fcntl => matches!(call.int(1), libc::F_GETFL | libc::F_GETFD),
        Sysno::futex => is_wake(call.int(1)),
        _ => false,
    }
}

/// Whether a write goes behind all that its file holds, and nothing but that file is to be flushed. Such
/// a write lets out no more than one before the flush: a log's reader expects a torn end. One that
/// overwrites, or is of another file, may rest on the order (a header after what it points to, data after
/// its log), and the kernel may write it back first.
fn appends(fd: i32, offset: Option<u64>) -> bool {
    if !flush::is_all_that_is_pending(fd) {
        return false;
    }
    let flags = kernel::fcntl(fd, libc::F_GETFL, 0).unwrap_or(0) as i32;
    if flags & libc::O_APPEND != 0 {
        return true; // wherever it says (pwrite(2), under BUGS)
    }
    let at = offset.or_else(|| kernel::offset(fd));
    at.zip(kernel::mode_and_bytes(fd)).is_some_and(|(at, (_, bytes))| at >= bytes)
}

/// The offset that pwritev2(2) names; -1 is where the descriptor stands.
fn stated(offset: u64) -> Option<u64> {
    (offset as i64 >= 0).then_some(offset)
}

/// Whether no signal waits for what this call unblocks: one that ends the process shows that it went on.
fn delivers_nothing(call: &Call<'_>) -> bool {
    call.word(1) == 0 || call.int(0) == libc::SIG_BLOCK || kernel::pending_signals() == 0
}

/// The connection of a descriptor whose bytes go by a ring.
pub fn direct(fd: i32) -> Option<u32> {
    match table::kind(fd) {
        DescriptorKind::Socket(index) if !socket::at(index).is_native() => Some(index),
        _ => None,
    }
}

/// Wakes threads of this process only, and waits for none.
fn is_wake(operation: i32) -> bool {
    let (command, is_private) =
        (operation & !FUTEX_FLAGS, operation & libc::FUTEX_PRIVATE_FLAG != 0);
    let wakes = [libc::FUTEX_WAKE, libc::FUTEX_WAKE_OP, libc::FUTEX_WAKE_BITSET];
    let moves = [libc::FUTEX_REQUEUE, libc::FUTEX_CMP_REQUEUE];
    is_private && (wakes.contains(&command) || moves.contains(&command))
}

const FUTEX_FLAGS: i32 = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;
