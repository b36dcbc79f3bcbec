//! Processes: who we are, who the other end of a socket is, and whether it still lives.
//!
//! Identity comes from the kernel (SO_PEERCRED, SO_PEERPIDFD), never from what a message claims;
//! a [`PidFd`] names one process for ever, where a pid may be given to another.

use std::os::fd::{AsRawFd, RawFd};

use crate::fd::OwnedFd;
use crate::sys::{check, raw, Errno, Sysno};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU8};

/// Socket option that returns a pidfd of the peer (source: asm-generic/socket.h, Linux 6.5).
const SO_PEERPIDFD: usize = 77;

/// A descriptor that names one process for ever.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// Opens a process by number. The caller knows by other means that the number is current.
    pub fn open(pid: i32) -> Result<PidFd, Errno> {
        // SAFETY: pidfd_open takes no pointer.
        let fd = check(unsafe { raw(Sysno::pidfd_open as usize, [pid as usize, 0, 0, 0, 0, 0]) })?;
        // SAFETY: the kernel has just opened it for us.
        Ok(PidFd(unsafe { OwnedFd::adopt(fd as RawFd) }))
    }

    /// The process at the other end of a connected unix socket.
    pub fn of_peer(socket: RawFd) -> Result<PidFd, Errno> {
        let mut fd: RawFd = -1;
        socket_option(socket, SO_PEERPIDFD, &mut fd)?;
        // SAFETY: the kernel has just opened it for us.
        Ok(PidFd(unsafe { OwnedFd::adopt(fd) }))
    }

    /// Takes over a pidfd received from elsewhere.
    pub fn from_fd(fd: OwnedFd) -> PidFd {
        PidFd(fd)
    }

    /// Whether the process has not ended. A zombie has ended. An error counts as ended.
    pub fn is_alive(&self) -> bool {
        poll_readable(self.0.as_raw_fd(), 0) == Ok(false)
    }
}

impl AsRawFd for PidFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Who opened the other end of a unix socket, as the kernel knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Credentials {
    /// Process number at connect time.
    pub pid: i32,
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
}

/// Asks the kernel who opened the other end of a unix socket (SO_PEERCRED).
pub fn peer_credentials(socket: RawFd) -> Result<Credentials, Errno> {
    let mut found = Credentials::default();
    socket_option(socket, libc::SO_PEERCRED as usize, &mut found)?;
    Ok(found)
}

/// Which side of a detached fork this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detached {
    /// The process that forked.
    Parent,
    /// The new process, which is nobody's child to wait for and has all signals blocked.
    Child,
}

/// Forks a process that the caller's program never meets: no SIGCHLD, nothing to wait for. The new one has left
/// libc's heap, if the allocator is [`crate::heap::Heap`]: otherwise it must not allocate.
pub fn fork_detached() -> Result<Detached, Errno> {
    let all = u64::MAX;
    let mut before = 0u64;
    let (all_at, before_at) = (&all as *const u64 as usize, &mut before as *mut u64 as usize);
    let block = libc::SIG_SETMASK as usize;
    // SAFETY: both masks are live words of eight bytes.
    unsafe { raw(Sysno::rt_sigprocmask as usize, [block, all_at, before_at, 8, 0, 0]) };
    // SAFETY: clone without shared memory copies the address space; exit signal 0 tells nobody.
    let first = check(unsafe { raw(Sysno::clone as usize, [0; 6]) });
    if first == Ok(0) {
        // SAFETY: as above; the process in between ends at once, so the new one has no parent
        // here.
        if check(unsafe { raw(Sysno::clone as usize, [0; 6]) }) == Ok(0) {
            #[cfg(not(loom))]
            crate::heap::leave();
            return Ok(Detached::Child);
        }
        exit_now(0);
    }
    if let Ok(pid) = first {
        let args = [pid, 0, libc::__WALL as usize, 0, 0, 0];
        // SAFETY: wait4 with null pointers writes nothing.
        unsafe { raw(Sysno::wait4 as usize, args) };
    }
    // SAFETY: the mask read above is put back.
    unsafe { raw(Sysno::rt_sigprocmask as usize, [block, before_at, 0, 8, 0, 0]) };
    first.map(|_| Detached::Parent)
}

/// Runs another program to its end, of which this process's program hears nothing: no SIGCHLD, and
/// nobody else can wait for it. Its standard streams are `/dev/null`. The lists end with null.
///
/// # Safety
/// `program` and each element of the two lists are C strings.
pub unsafe fn run_unseen(
    program: *const libc::c_char,
    arguments: &[*const libc::c_char],
    environment: &[*const libc::c_char],
) -> Result<i32, Errno> {
    assert!(arguments.last().is_some_and(|last| last.is_null()), "the list ends with null");
    assert!(environment.last().is_some_and(|last| last.is_null()), "the list ends with null");
    let (all, mut before) = (u64::MAX, 0u64);
    let (all_at, before_at) = (&all as *const u64 as usize, &mut before as *mut u64 as usize);
    let block = libc::SIG_SETMASK as usize;
    // SAFETY: both masks are live words of eight bytes.
    unsafe { raw(Sysno::rt_sigprocmask as usize, [block, all_at, before_at, 8, 0, 0]) };
    // SAFETY: clone without shared memory copies the address space; exit signal 0 tells nobody. It
    // is SIGCHLD again after an exec, so the process that execs is the child of one that does not.
    let pid = check(unsafe { raw(Sysno::clone as usize, [0; 6]) });
    if pid == Ok(0) {
        // SAFETY: as above.
        let inner = check(unsafe { raw(Sysno::clone as usize, [0; 6]) });
        if inner == Ok(0) {
            // SAFETY: this process is one of its own; the strings and lists are the caller's promise.
            unsafe { become_unseen(program, arguments, environment, before_at) };
        }
        exit_now(inner.map_or(127, |pid| code_of(wait_for(pid))));
    }
    let status = pid.map(wait_for);
    // SAFETY: the mask read above is put back.
    unsafe { raw(Sysno::rt_sigprocmask as usize, [block, before_at, 0, 8, 0, 0]) };
    status
}

/// # Safety
/// As `run_unseen`'s; `mask_at` is the address of a signal mask. Called in a process of its own.
unsafe fn become_unseen(
    program: *const libc::c_char,
    arguments: &[*const libc::c_char],
    environment: &[*const libc::c_char],
    mask_at: usize,
) -> ! {
    let path = c"/dev/null".as_ptr() as usize;
    let lists = [arguments.as_ptr() as usize, environment.as_ptr() as usize];
    // SAFETY: live strings and lists, the caller's promise.
    unsafe {
        let null = raw(Sysno::open as usize, [path, libc::O_RDWR as usize, 0, 0, 0, 0]);
        for stream in 0..3 {
            raw(Sysno::dup2 as usize, [null as usize, stream, 0, 0, 0, 0]);
        }
        raw(Sysno::rt_sigprocmask as usize, [libc::SIG_SETMASK as usize, mask_at, 0, 8, 0, 0]);
        raw(Sysno::execve as usize, [program as usize, lists[0], lists[1], 0, 0, 0]);
    }
    exit_now(127)
}

/// The wait status of a child that tells nobody of its end.
fn wait_for(pid: usize) -> i32 {
    let mut status = 0i32;
    let args = [pid, &mut status as *mut i32 as usize, libc::__WALL as usize, 0, 0, 0];
    // SAFETY: the kernel writes a status of four bytes.
    while unsafe { raw(Sysno::wait4 as usize, args) } == -(libc::EINTR as isize) {}
    status
}

/// The exit code for a wait status: 127 for an end by a signal.
fn code_of(status: i32) -> i32 {
    match libc::WIFEXITED(status) {
        true => libc::WEXITSTATUS(status),
        false => 127,
    }
}

/// Ends this process without running anything of the program's.
pub fn exit_now(status: i32) -> ! {
    loop {
        // SAFETY: exit_group takes no pointer and does not return.
        unsafe { raw(Sysno::exit_group as usize, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

/// libc's own note, once looked up.
static SINGLE: AtomicPtr<AtomicU8> = AtomicPtr::new(std::ptr::null_mut());

/// Looks up libc's note of whether this process has one thread only; once, at start.
pub fn find_thread_note() {
    // SAFETY: a name that ends with a zero byte; looks at the loaded libraries' tables only.
    let note = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
    SINGLE.store(note.cast(), Release);
}

/// True when libc says that this is the only thread; false where it does not say (glibc < 2.32).
#[inline]
pub fn is_single_threaded() -> bool {
    // SAFETY: null, or libc's variable of one byte, which is never unloaded.
    let note = unsafe { SINGLE.load(Acquire).as_ref() };
    note.is_some_and(|note| note.load(Relaxed) != 0)
}

/// Has `prepare` called at each of libc's forks, before libc locks its allocator. Once, at start.
pub fn prepare_forks(prepare: extern "C" fn()) {
    // SAFETY: a function that takes nothing and lives as long as the library; libc copies its address.
    unsafe { libc::pthread_atfork(Some(erased(prepare)), None, None) };
}

/// The same function by libc's type for it.
fn erased(prepare: extern "C" fn()) -> unsafe extern "C" fn() {
    prepare
}

/// This process's number.
pub fn pid() -> i32 {
    // SAFETY: getpid takes nothing and cannot fail.
    unsafe { raw(Sysno::getpid as usize, [0; 6]) as i32 }
}

/// The user whose rights this process has.
pub fn effective_uid() -> u32 {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { raw(Sysno::geteuid as usize, [0; 6]) as u32 }
}

/// This thread's number.
pub fn tid() -> i32 {
    // SAFETY: gettid takes nothing and cannot fail.
    unsafe { raw(Sysno::gettid as usize, [0; 6]) as i32 }
}

/// Sleeps until `fd` is readable (or in error) or the time is over; -1 means no limit.
pub fn poll_readable(fd: RawFd, timeout_ms: i32) -> Result<bool, Errno> {
    let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let at = &mut entry as *mut libc::pollfd as usize;
    // SAFETY: `entry` is one writable pollfd for the whole call.
    match check(unsafe { raw(Sysno::poll as usize, [at, 1, timeout_ms as usize, 0, 0, 0]) }) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno(libc::EINTR)) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn socket_option<T>(socket: RawFd, option: usize, into: &mut T) -> Result<(), Errno> {
    let wanted = std::mem::size_of::<T>() as libc::socklen_t;
    let mut len = wanted;
    let (value_at, len_at) = (into as *mut T as usize, &mut len as *mut u32 as usize);
    let args = [socket as usize, libc::SOL_SOCKET as usize, option, value_at, len_at, 0];
    // SAFETY: the kernel writes at most `len` bytes into `into`, and its two users here are plain
    // integers for which every bit pattern is a value.
    check(unsafe { raw(Sysno::getsockopt as usize, args) })?;
    if len == wanted {
        Ok(())
    } else {
        Err(Errno(libc::EINVAL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_peer_of_our_own_socket_pair_is_ourselves() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        let found = peer_credentials(one.as_raw_fd()).expect("a unix socket");
        assert_eq!(found.pid, pid());
        assert_eq!(found.pid as u32, std::process::id());
        assert!(PidFd::of_peer(one.as_raw_fd()).expect("Linux 6.5").is_alive());
    }

    #[test]
    fn a_killed_child_is_not_alive() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().expect("starts");
        let pidfd = PidFd::open(child.id() as i32).expect("opens");
        assert!(pidfd.is_alive());
        child.kill().expect("ours");
        assert_eq!(poll_readable(pidfd.as_raw_fd(), 10_000), Ok(true));
        assert!(!pidfd.is_alive());
        child.wait().expect("reaped");
    }

    #[test]
    fn the_main_threads_number_differs_from_a_second_threads() {
        let here = tid();
        let there = std::thread::spawn(tid).join().expect("no panic");
        assert_ne!(here, there);
    }
}
