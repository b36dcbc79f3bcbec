//! Means of writing to a descriptor or a mapping that one has for reading. Each answers whether it
//! got anywhere: wrote a byte, or has a place to write one.

use std::os::fd::RawFd;

use super::address;
use crate::uring::Uring;

const PAGE: usize = 4096;
const BOTH: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// A descriptor, and its first pages as they were.
pub struct Target {
    fd: RawFd,
    seen: *const u8,
    before: [u8; 64],
}

impl Target {
    /// Maps it for reading, which a consumer may.
    pub fn new(fd: RawFd) -> Result<Self, String> {
        let seen = mapped(fd, libc::PROT_READ, libc::MAP_SHARED).ok_or("not even readable")?;
        let mut before = [0; 64];
        // SAFETY: a page of the mapping; these bytes, a head or a pinned version, stay.
        unsafe { std::ptr::copy(seen.add(0), before.as_mut_ptr(), 32) };
        Ok(Self { fd, seen, before })
    }

    /// True when its first bytes, which nobody changes, are others.
    pub fn has_changed(&self) -> bool {
        // SAFETY: as above.
        (0..32).any(|at| unsafe { self.seen.add(at).read_volatile() } != self.before[at])
    }

    fn path(&self) -> std::ffi::CString {
        std::ffi::CString::new(format!("/proc/self/fd/{}", self.fd)).unwrap_or_default()
    }
}

fn mapped(fd: RawFd, access: i32, how: i32) -> Option<*mut u8> {
    // SAFETY: no address is asked for; never unmapped, as the attempt ends with its process.
    address(unsafe { libc::mmap(std::ptr::null_mut(), 2 * PAGE, access, how, fd, 0) })
}

fn readable(target: &Target) -> *mut u8 {
    mapped(target.fd, libc::PROT_READ, libc::MAP_SHARED).unwrap_or(std::ptr::null_mut())
}

fn can_write(fd: RawFd) -> bool {
    // SAFETY: a live byte; where it is not refused, the tests have failed anyway.
    let wrote = unsafe { libc::pwrite(fd, [9u8].as_ptr().cast(), 1, 0) };
    wrote == 1 || mapped(fd, BOTH, libc::MAP_SHARED).is_some()
}

/// One system call of an attempt.
macro_rules! kernel {
    ($call:expr) => {{
        // SAFETY: what an attempt names is a fresh mapping of its own, a live path or a live byte;
        // it runs in a child of its own, and what it might break ends with that.
        unsafe { $call }
    }};
}

/// One way of trying.
pub type Means = fn(&Target) -> bool;

/// All of them, by name.
pub const MEANS: [(&str, Means); 23] = [
    ("mmap for writing", |it| mapped(it.fd, BOTH, libc::MAP_SHARED).is_some()),
    ("mmap with MAP_SHARED_VALIDATE", |it| {
        mapped(it.fd, BOTH, libc::MAP_SHARED_VALIDATE).is_some()
    }),
    ("mprotect", |it| is_done(kernel!(libc::mprotect(readable(it).cast(), PAGE, BOTH)))),
    ("pwrite", |it| can_write(it.fd)),
    ("write", |it| kernel!(libc::write(it.fd, [9u8].as_ptr().cast(), 1)) == 1),
    ("ftruncate to nothing", |it| is_done(kernel!(libc::ftruncate(it.fd, 0)))),
    ("ftruncate to more", |it| is_done(kernel!(libc::ftruncate(it.fd, 1 << 40)))),
    ("fallocate punching a hole", |it| {
        let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        is_done(kernel!(libc::fallocate(it.fd, how, 0, PAGE as i64)))
    }),
    ("fallocate of zeros", |it| {
        is_done(kernel!(libc::fallocate(it.fd, libc::FALLOC_FL_ZERO_RANGE, 0, PAGE as i64)))
    }),
    ("MADV_REMOVE", |it| advice(it, libc::MADV_REMOVE)),
    ("MADV_POPULATE_WRITE", |it| advice(it, libc::MADV_POPULATE_WRITE)),
    ("reopening for writing", |it| reopened(it, libc::O_RDWR)),
    ("reopening with O_TRUNC", |it| reopened(it, libc::O_RDWR | libc::O_TRUNC)),
    ("truncate by path", |it| is_done(kernel!(libc::truncate(it.path().as_ptr(), 0)))),
    ("taking seals off", |it| {
        let more = libc::F_SEAL_WRITE | libc::F_SEAL_FUTURE_WRITE;
        is_done(kernel!(libc::fcntl(it.fd, libc::F_ADD_SEALS, 0)))
            || is_done(kernel!(libc::fcntl(it.fd, libc::F_ADD_SEALS, more)))
    }),
    ("sendfile into it", copied_into),
    ("io_uring", |it| by_ring(it).unwrap_or(false)),
    ("mremap of a second view", |it| {
        let how = libc::MREMAP_MAYMOVE;
        let again = kernel!(libc::mremap(readable(it).cast(), 0, PAGE, how));
        address(again).is_some_and(|at| is_done(kernel!(libc::mprotect(at.cast(), PAGE, BOTH))))
    }),
    ("userfaultfd on the mapping", |it| faulted(it)),
    ("/proc/self/mem", |it| {
        let mem = kernel!(libc::open(c"/proc/self/mem".as_ptr(), libc::O_RDWR));
        kernel!(libc::pwrite(mem, [9u8].as_ptr().cast(), 1, readable(it) as i64) == 1)
    }),
    ("process_vm_writev to oneself", |it| {
        let from = libc::iovec { iov_base: [9u8].as_mut_ptr().cast(), iov_len: 1 };
        let to = libc::iovec { iov_base: readable(it).cast(), iov_len: 1 };
        kernel!(libc::process_vm_writev(libc::getpid(), &from, 1, &to, 1, 0) == 1)
    }),
    ("a debugger's poke", poked),
    ("a descriptor that went through a socket", travelled),
];

fn is_done(answer: i32) -> bool {
    answer == 0
}

fn advice(target: &Target, advice: i32) -> bool {
    // SAFETY: a page of a fresh mapping.
    is_done(unsafe { libc::madvise(readable(target).cast(), PAGE, advice) })
}

/// A descriptor of the same memory that was opened for writing is no use either.
fn reopened(target: &Target, how: i32) -> bool {
    // SAFETY: a live path.
    let fd = unsafe { libc::open(target.path().as_ptr(), how) };
    fd >= 0 && (can_write(fd) || target.has_changed())
}

fn copied_into(target: &Target) -> bool {
    // SAFETY: live paths and descriptors; sizes of a page at most.
    unsafe {
        let from = libc::open(c"/proc/self/exe".as_ptr(), libc::O_RDONLY);
        libc::sendfile(target.fd, from, std::ptr::null_mut(), 64) > 0
            || libc::copy_file_range(from, &mut 0, target.fd, &mut 0, 64, 0) > 0
    }
}

fn by_ring(target: &Target) -> Result<bool, std::io::Error> {
    let mut ring = Uring::new()?;
    let mut byte = [9u8];
    let wrote = ring.write(target.fd, byte.as_mut_ptr(), 1).is_ok();
    // Its memory as the buffer of a read, and as a registered one.
    let (mut ends, at) = ([-1; 2], readable(target));
    // SAFETY: a live array of two, and a live byte.
    unsafe {
        libc::pipe(ends.as_mut_ptr());
        libc::write(ends[1], byte.as_ptr().cast(), 1);
    }
    let read = ring.read(ends[0], at, 1, false).is_ok();
    Ok(wrote || read || ring.register(at, PAGE).is_ok())
}

/// Filling pages by userfaultfd needs a registered range, and that one that may be written.
fn faulted(target: &Target) -> bool {
    const USER_ONLY: i32 = 1;
    const API: libc::Ioctl = 0xc018_aa3f;
    const REGISTER: libc::Ioctl = 0xc020_aa00;
    let (mut api, at) = ([0xaau64, 0, 0], readable(target) as u64);
    // Missing pages, write protection, and minor faults.
    [1u64, 2, 4].into_iter().any(|mode| {
        let mut range = [at, PAGE as u64, mode, 0];
        // SAFETY: live structures of the kernel's sizes; the range is a fresh mapping.
        unsafe {
            let fd = libc::syscall(libc::SYS_userfaultfd, USER_ONLY | libc::O_CLOEXEC) as RawFd;
            fd >= 0
                && is_done(libc::ioctl(fd, API, api.as_mut_ptr()))
                && is_done(libc::ioctl(fd, REGISTER, range.as_mut_ptr()))
        }
    })
}

/// Sends the descriptor to itself (SCM_RIGHTS): what arrives can do no more.
fn travelled(target: &Target) -> bool {
    let (mut ends, mut byte, mut control) = ([-1; 2], [9u8], [0u64; 3]);
    let mut piece = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // Length 20, SOL_SOCKET, SCM_RIGHTS, the descriptor.
    control[0] = 20;
    control[1] = u64::from(libc::SOL_SOCKET as u32) | u64::from(libc::SCM_RIGHTS as u32) << 32;
    control[2] = u64::from(target.fd as u32);
    // SAFETY: everything that the header names lives until both calls are over.
    unsafe {
        libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0, ends.as_mut_ptr());
        let mut header: libc::msghdr = std::mem::zeroed();
        (header.msg_iov, header.msg_iovlen) = (&raw mut piece, 1);
        (header.msg_control, header.msg_controllen) = (control.as_mut_ptr().cast(), 24);
        if libc::sendmsg(ends[0], &header, 0) != 1 || libc::recvmsg(ends[1], &mut header, 0) != 1 {
            return false;
        }
    }
    can_write(control[2] as RawFd)
}

/// A traced child pokes through protection where the page is its own copy; here it is not.
fn poked(target: &Target) -> bool {
    let at = readable(target);
    // SAFETY: the child stops itself and is killed; addresses are those of a live mapping.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::raise(libc::SIGSTOP);
            libc::_exit(0);
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, libc::WUNTRACED);
        let poked = libc::ptrace(libc::PTRACE_POKEDATA, child, at, 9usize) == 0;
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, &mut status, 0);
        poked
    }
}
