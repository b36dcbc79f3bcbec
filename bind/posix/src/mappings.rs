//! Durable files: memory by which something gets out of the program without a call.
//!
//! Stores into what others have mapped, or the kernel still reads, cannot be held back; nor can faults that a
//! file system's server, or whoever has the program's userfaultfd, is told of; and code that is made at run
//! time makes calls that nobody has caught. From then on flushes are waited for, with a reason.

use heliostat_abi::code::Unheld;
use heliostat_base::call as kernel;
use heliostat_base::sync::AtomicBool;
use heliostat_base::sync::Ordering::Relaxed;
use heliostat_base::sys::Errno;
use heliostat_interpose::Verdict;
use heliostat_stub_posix::flush::{self, names};
use heliostat_stub_posix::net::commit;
use heliostat_stub_posix::thread;

use crate::call::Call;

/// File systems of this kernel alone (source: linux/magic.h, and bcachefs, XFS, ZFS): no server is asked.
#[rustfmt::skip]
const LOCAL: [u64; 13] = [
    0xef53, 0x0102_1994, 0x8584_58f6, 0x794c_7630, 0x9123_683e, 0x5846_5342, 0xf2f5_2010,
    0x2fc1_2fc1, 0x7371_7368, 0xe0f5_e1e2, 0x9584_58f6, 0xca45_1a4e, 0x4d44,
];
/// ioctl(2) of /dev/userfaultfd that makes one (source: linux/userfaultfd.h).
const USERFAULTFD_IOC_NEW: u32 = 0xaa00;
/// setsockopt(2) that lets a socket send from the program's pages (source: asm-generic/socket.h).
const SO_ZEROCOPY: i32 = 60;

/// The program has mapped a file: taking it out may let the file go, with its locks.
static HOLDS_FILES: AtomicBool = AtomicBool::new(false);

/// From now on something is seen of this program that no call of its own lets out: nothing is held
/// back for any more.
pub fn give_up(reason: Unheld) {
    if !names::is_none() {
        flush::refuse(reason);
        if flush::is_busy() {
            commit::settle();
        }
        // What is written from now on goes by the log no more.
        flush::forget_logged();
    }
}

/// Whether to unmap may let go of a file. Libraries do not count: the linker alone has them open.
pub fn holds_files() -> bool {
    HOLDS_FILES.load(Relaxed)
}

/// mmap(2)
pub fn mmap(call: &mut Call<'_>) -> Verdict {
    // The stub maps for itself in its sections.
    if names::is_none() || thread::is_in_section() {
        return Verdict::Pass;
    }
    let (protection, flags, fd) = (call.int(2), call.int(3), call.int(4));
    let is_librarys = flags & libc::MAP_DENYWRITE != 0;
    if protection & libc::PROT_EXEC != 0 && !is_librarys {
        give_up(Unheld::Uncaught);
    }
    if is_shared(fd, flags) || flags & libc::MAP_ANONYMOUS == 0 && !is_local(fd) {
        give_up(Unheld::Shared);
        if flush::is_untold() {
            // Its stores could not be refused.
            return call.answer(Some(Err(Errno(libc::EIO))));
        }
    }
    if flags & libc::MAP_FIXED != 0 && holds_files() && flush::is_busy() {
        commit::settle();
    }
    if flags & libc::MAP_ANONYMOUS == 0 && !is_librarys {
        HOLDS_FILES.store(true, Relaxed);
    }
    Verdict::Pass
}

/// What is open for reading only can never be mapped for writing (source: mprotect(2), EACCES).
fn is_shared(fd: i32, flags: i32) -> bool {
    let is_read_only = |mode: usize| mode as i32 & libc::O_ACCMODE == libc::O_RDONLY;
    let may_be_written = || {
        flags & libc::MAP_ANONYMOUS != 0
            || !kernel::fcntl(fd, libc::F_GETFL, 0).is_ok_and(is_read_only)
    };
    matches!(flags & libc::MAP_TYPE, libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE)
        && may_be_written()
}

/// An ordinary file of a file system whose pages come from this kernel.
fn is_local(fd: i32) -> bool {
    kernel::is_regular_file(fd) && kernel::file_system(fd).is_some_and(|kind| LOCAL.contains(&kind))
}

/// mprotect(2), pkey_mprotect(2): code that is made, or changed.
pub fn mprotect(call: &mut Call<'_>) -> Verdict {
    if call.int(2) & libc::PROT_EXEC != 0 {
        give_up(Unheld::Uncaught);
    }
    Verdict::Pass
}

/// shmat(2), vmsplice(2), userfaultfd(2)
pub fn shared(_call: &mut Call<'_>) -> Verdict {
    give_up(Unheld::Shared);
    Verdict::Pass
}

/// ioctl(2), before it is answered
pub fn before_ioctl(call: &Call<'_>) {
    if call.word(1) as u32 == USERFAULTFD_IOC_NEW {
        give_up(Unheld::Shared);
    }
}

/// setsockopt(2), before it is answered
pub fn before_option(call: &Call<'_>) {
    if (call.int(1), call.int(2)) == (libc::SOL_SOCKET, SO_ZEROCOPY) {
        give_up(Unheld::Shared);
    }
}
