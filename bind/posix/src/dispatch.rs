//! From a caught system call to the function that answers it.
//!
//! The first question is always whether the descriptor is known; for all others the cost of
//! being caught is this match and one load.

use heliostat_base::sync::AtomicU32;
use heliostat_base::sys::Sysno;
use heliostat_interpose::{SyscallFrame, Verdict};
use heliostat_stub_posix::net::{delegated, shared};
use heliostat_stub_posix::offload::gates;
use heliostat_stub_posix::{flush, table};

use crate::call::Call;
use crate::{
    descriptors, durable, events, fault, files, harmless, mappings, messages, offload, queues,
    sealed, signal, sockets, spawn, transfer, uring,
};

/// The calls that are caught; all others stay libc's own instruction, untouched.
const CAUGHT: &[Sysno] = &[
    Sysno::read,
    Sysno::write,
    Sysno::pread64,
    Sysno::readv,
    Sysno::preadv,
    Sysno::lseek,
    Sysno::open,
    Sysno::openat,
    Sysno::openat2,
    Sysno::creat,
    Sysno::copy_file_range,
    Sysno::writev,
    Sysno::recvfrom,
    Sysno::sendto,
    Sysno::recvmsg,
    Sysno::sendmsg,
    Sysno::recvmmsg,
    Sysno::sendmmsg,
    Sysno::sendfile,
    Sysno::splice,
    Sysno::preadv2,
    Sysno::pwritev2,
    Sysno::connect,
    Sysno::accept,
    Sysno::accept4,
    Sysno::listen,
    Sysno::shutdown,
    Sysno::getsockopt,
    Sysno::getsockname,
    Sysno::getpeername,
    Sysno::setsockopt,
    Sysno::close,
    Sysno::close_range,
    Sysno::dup,
    Sysno::dup2,
    Sysno::dup3,
    Sysno::fcntl,
    Sysno::ioctl,
    Sysno::poll,
    Sysno::ppoll,
    Sysno::select,
    Sysno::pselect6,
    Sysno::epoll_wait,
    Sysno::epoll_pwait,
    Sysno::epoll_pwait2,
    Sysno::epoll_ctl,
    Sysno::epoll_create,
    Sysno::epoll_create1,
    Sysno::clone,
    Sysno::fork,
    // These two are announced only: `spawn::before_spawn`.
    Sysno::vfork,
    Sysno::clone3,
    Sysno::execve,
    Sysno::execveat,
    Sysno::exit_group,
    Sysno::rt_sigaction,
    Sysno::rt_sigprocmask,
    Sysno::bind,
    Sysno::io_uring_setup,
    Sysno::io_uring_enter,
    Sysno::io_uring_register,
    Sysno::unshare,
    Sysno::setuid,
    Sysno::setreuid,
    Sysno::setresuid,
    Sysno::setfsuid,
];

/// Chooses the sites to be patched; sites whose number shows only at run time are all caught.
pub fn is_caught(number: Option<u32>) -> bool {
    number.is_none_or(|number| CAUGHT.iter().any(|nr| *nr as u32 == number))
}

/// As `is_caught`, behind the fence of a sealed program.
pub fn is_caught_sealed(number: Option<u32>) -> bool {
    is_caught(number) || number.is_some_and(sealed::is_asked)
}

/// As `is_caught`, where files are durable: all that may let something out.
pub fn is_caught_durable(number: Option<u32>) -> bool {
    is_caught(number) || number.is_some_and(harmless::is_to_be_caught)
}

/// As `is_caught`, where calls are offloaded: those that may be, and those that end it.
pub fn is_caught_offload(number: Option<u32>) -> bool {
    is_caught(number) || number.is_some_and(offload::is_caught)
}

/// The gate of sites that are caught for offload alone: shut while their calls are made plainly.
pub fn gate(number: u32) -> Option<&'static AtomicU32> {
    gates::of(number).filter(|_| !is_caught(Some(number)))
}

/// Sealed and durable.
pub fn is_caught_sealed_durable(number: Option<u32>) -> bool {
    is_caught_sealed(number) || is_caught_durable(number)
}

/// Receives every caught call.
pub extern "C" fn hook(frame: *mut SyscallFrame) -> Verdict {
    // SAFETY: the trampoline passes its own live frame, exclusively, for the time of this call.
    let frame = unsafe { &mut *frame };
    if heliostat_stub_posix::offload::is_on() {
        return offload::hook(frame, answered);
    }
    answered(frame)
}

/// Answers a caught call, or says that the kernel is to make it.
#[inline(always)]
fn answered(frame: &mut SyscallFrame) -> Verdict {
    let call = &mut Call { frame };
    if flush::is_watched() {
        if let Some(verdict) = durable::gate(call) {
            return verdict;
        }
    }
    if delegated::is_due() {
        delegated::follow_child();
    }
    // Those that are worth a place before all others: some 10 ns of a mapped read's 30, and of the
    // price of being caught, which files that are read once only pay. No more than these, or they
    // become a table of jumps again.
    if transfer::is_after_sleep(call) && table::is_unknown(call.int(0)) {
        return transfer::end_elsewhere(call);
    }
    match call.frame.rax {
        PREAD => files::pread(call),
        READ if table::is_unknown(call.int(0)) => files::read(call),
        OPENAT => files::open(call, |call| call.int(2)),
        CLOSE => descriptors::close(call),
        _ => dispatch_other(call),
    }
}

const PREAD: u64 = Sysno::pread64 as u64;
const READ: u64 = Sysno::read as u64;
const OPENAT: u64 = Sysno::openat as u64;
const CLOSE: u64 = Sysno::close as u64;

#[inline(never)]
fn dispatch_other(call: &mut Call<'_>) -> Verdict {
    let Some(number) = Sysno::new(call.frame.rax as usize) else { return Verdict::Pass };
    dispatch(number, call)
}

#[inline(always)]
fn dispatch(number: Sysno, call: &mut Call<'_>) -> Verdict {
    let first_is_known = || !table::is_unknown(call.frame.args[0] as i32);
    match number {
        Sysno::read => transfer::read(call),
        Sysno::lseek => files::lseek(call),
        Sysno::write if first_is_known() => transfer::write(call),
        Sysno::recvfrom if first_is_known() => transfer::recvfrom(call),
        Sysno::sendto if first_is_known() => transfer::sendto(call),
        Sysno::epoll_wait => events::epoll_wait(call),
        Sysno::readv if first_is_known() => transfer::readv(call),
        Sysno::readv => files::readv(call),
        Sysno::writev if first_is_known() => transfer::writev(call),
        Sysno::recvmsg if first_is_known() => messages::recvmsg(call),
        Sysno::sendmsg => messages::sendmsg(call),
        Sysno::recvmmsg if first_is_known() => messages::recvmmsg(call),
        Sysno::sendmmsg => messages::sendmmsg(call),
        Sysno::sendfile => files::sendfile(call),
        Sysno::splice => files::moving(call, 0, 1, transfer::splice),
        Sysno::preadv2 | Sysno::pwritev2 if first_is_known() => transfer::positioned(call),
        Sysno::preadv | Sysno::preadv2 => files::preadv(call),
        Sysno::epoll_pwait => events::epoll_pwait(call),
        Sysno::epoll_pwait2 => events::epoll_pwait2(call),
        Sysno::epoll_ctl => events::epoll_ctl(call),
        Sysno::poll => events::poll(call),
        Sysno::ppoll => events::ppoll(call),
        Sysno::select => events::select(call),
        Sysno::pselect6 => events::pselect(call),
        Sysno::connect => sockets::connect(call),
        Sysno::accept | Sysno::accept4 => sockets::accept(call),
        Sysno::listen => sockets::listen(call),
        Sysno::shutdown if first_is_known() => sockets::shutdown(call),
        Sysno::getsockopt if first_is_known() => sockets::getsockopt(call),
        Sysno::getsockname | Sysno::getpeername if first_is_known() => sockets::name(call),
        other => dispatch_cold(other, call),
    }
}

fn dispatch_cold(number: Sysno, call: &mut Call<'_>) -> Verdict {
    let fd = call.int(0);
    let is_known = || !table::is_unknown(fd) || table::file(fd) != 0;
    match number {
        Sysno::setsockopt => {
            mappings::before_option(call);
            sockets::setsockopt(call)
        }
        Sysno::open => files::open(call, |call| call.int(1)),
        Sysno::openat2 => files::open(call, files::flags_of_openat2),
        Sysno::creat => files::open(call, |_| libc::O_WRONLY),
        Sysno::copy_file_range => files::moving(call, 0, 1, |_| Verdict::Pass),
        Sysno::close_range => descriptors::close_range(call),
        Sysno::dup => descriptors::dup(call),
        Sysno::dup2 | Sysno::dup3 => descriptors::dup_onto(call, number == Sysno::dup3),
        Sysno::fcntl | Sysno::ioctl if shared::is_bound_nonblocking(fd).is_some() => {
            queues::mode(call)
        }
        Sysno::fcntl if is_known() => descriptors::fcntl(call),
        Sysno::ioctl => {
            mappings::before_ioctl(call);
            match is_known() {
                true => descriptors::ioctl(call),
                false => sealed::again(call),
            }
        }
        Sysno::epoll_create | Sysno::epoll_create1 => events::epoll_create(call),
        Sysno::clone | Sysno::fork => spawn::fork(call),
        Sysno::execve | Sysno::execveat => spawn::exec(call),
        Sysno::exit_group => spawn::exit(call),
        Sysno::io_setup => uring::aio(call),
        Sysno::io_uring_setup => uring::setup(call),
        Sysno::io_uring_enter => uring::enter(call),
        Sysno::io_uring_register => uring::register(call),
        Sysno::bind => sockets::bind(call),
        Sysno::unshare => spawn::unshare(call),
        Sysno::setuid | Sysno::setreuid | Sysno::setresuid | Sysno::setfsuid => {
            spawn::change_user(call)
        }
        Sysno::rt_sigaction => signal::action(call),
        Sysno::rt_sigprocmask => fault::mask(call),
        Sysno::fdatasync => durable::sync(call, true),
        Sysno::fsync => durable::sync(call, false),
        Sysno::mmap => mappings::mmap(call),
        Sysno::mprotect | Sysno::pkey_mprotect => mappings::mprotect(call),
        Sysno::shmat | Sysno::vmsplice | Sysno::userfaultfd => mappings::shared(call),
        Sysno::newfstatat => sealed::newfstatat(call),
        _ => sealed::again(call),
    }
}
