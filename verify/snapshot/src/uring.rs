//! The least of io_uring: one read at a time, into plain memory or into a registered buffer.

use std::io::Error;
use std::os::fd::RawFd;
use std::sync::atomic::{fence, AtomicU32, Ordering};

const ENTRIES: u32 = 4;
const OFFSET_ENTRIES: i64 = 0x1000_0000;
const GETEVENTS: u32 = 1;
const SINGLE_MMAP: u32 = 1;
const REGISTER_BUFFERS: u32 = 0;
const READ: u8 = 22;
const WRITE: u8 = 23;
const READ_FIXED: u8 = 4;
const ENTRY_BYTES: usize = 64;

/// `io_uring_params`: sizes, then ten words of offsets for each queue.
#[derive(Default)]
#[repr(C)]
struct Parameters {
    sq_entries: u32,
    cq_entries: u32,
    flags: u32,
    other: [u32; 2],
    features: u32,
    rest: [u32; 4],
    /// head, tail, ring_mask, ring_entries, flags, dropped, array, reserved, address.
    sq: [u32; 10],
    /// head, tail, ring_mask, ring_entries, overflow, cqes, flags, reserved, address.
    cq: [u32; 10],
}

/// One ring of this process; a forked child must not use it.
pub struct Uring {
    fd: RawFd,
    rings: *mut u8,
    entries: *mut u8,
    parameters: Parameters,
}

impl Uring {
    /// A ring, or why the machine has none.
    pub fn new() -> Result<Self, Error> {
        let mut parameters = Parameters::default();
        // SAFETY: live parameters of the kernel's size.
        let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, ENTRIES, &raw mut parameters) };
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        if parameters.features & SINGLE_MMAP == 0 {
            return Err(Error::other("io_uring of before Linux 5.4"));
        }
        let submitted = parameters.sq[6] as usize + ENTRIES as usize * 4;
        let completed = parameters.cq[5] as usize + parameters.cq_entries as usize * 16;
        let rings = map(fd as RawFd, submitted.max(completed), 0)?;
        let entries = map(fd as RawFd, ENTRIES as usize * ENTRY_BYTES, OFFSET_ENTRIES)?;
        Ok(Self { fd: fd as RawFd, rings, entries, parameters })
    }

    /// Pins `len` bytes at `start` for `read` into fixed memory.
    pub fn register(&self, start: *mut u8, len: usize) -> Result<(), Error> {
        let buffer = libc::iovec { iov_base: start.cast(), iov_len: len };
        let (call, what) = (libc::SYS_io_uring_register, REGISTER_BUFFERS);
        // SAFETY: one live iovec; the memory stays mapped while the ring lives.
        let answer = unsafe { libc::syscall(call, self.fd, what, &raw const buffer, 1) };
        if answer < 0 {
            return Err(Error::last_os_error());
        }
        Ok(())
    }

    fn word(&self, offset: u32) -> &AtomicU32 {
        // SAFETY: an offset that the kernel gave, inside its mapping, which lives as long as we.
        unsafe { &*self.rings.add(offset as usize).cast() }
    }

    /// Reads from `fd` to `at` and waits for it; `fixed` memory must be registered.
    pub fn read(&mut self, fd: RawFd, at: *mut u8, len: usize, fixed: bool) -> Result<i32, Error> {
        self.transfer(if fixed { READ_FIXED } else { READ }, fd, at, len)
    }

    /// Writes to `fd` from `at` and waits for it.
    pub fn write(&mut self, fd: RawFd, at: *mut u8, len: usize) -> Result<i32, Error> {
        self.transfer(WRITE, fd, at, len)
    }

    fn transfer(&mut self, what: u8, fd: RawFd, at: *mut u8, len: usize) -> Result<i32, Error> {
        let (sq, cq) = (self.parameters.sq, self.parameters.cq);
        let tail = self.word(sq[1]).load(Ordering::Relaxed);
        let slot = tail & self.word(sq[2]).load(Ordering::Relaxed);
        let mut entry = [0u8; ENTRY_BYTES];
        entry[0] = what;
        entry[4..8].copy_from_slice(&fd.to_ne_bytes());
        entry[8..16].copy_from_slice(&u64::MAX.to_ne_bytes());
        entry[16..24].copy_from_slice(&(at as u64).to_ne_bytes());
        entry[24..28].copy_from_slice(&(len as u32).to_ne_bytes());
        // SAFETY: the slot is masked to the ring's size.
        let place = unsafe { self.entries.add(slot as usize * ENTRY_BYTES) };
        // SAFETY: one entry of 64 bytes at its place.
        unsafe { std::ptr::copy(entry.as_ptr(), place, ENTRY_BYTES) };
        self.word(sq[6] + slot * 4).store(slot, Ordering::Relaxed);
        self.word(sq[1]).store(tail.wrapping_add(1), Ordering::Release);
        let none = std::ptr::null::<u8>();
        // SAFETY: no signal mask is passed; the entry was just filled.
        let entered =
            unsafe { libc::syscall(libc::SYS_io_uring_enter, self.fd, 1, 1, GETEVENTS, none, 0) };
        if entered < 0 {
            return Err(Error::last_os_error());
        }
        fence(Ordering::Acquire);
        let head = self.word(cq[0]).load(Ordering::Relaxed);
        let place = cq[5] + (head & self.word(cq[2]).load(Ordering::Relaxed)) * 16;
        let result = self.word(place + 8).load(Ordering::Relaxed) as i32;
        self.word(cq[0]).store(head.wrapping_add(1), Ordering::Release);
        match result {
            0.. => Ok(result),
            _ => Err(Error::from_raw_os_error(-result)),
        }
    }
}

fn map(fd: RawFd, len: usize, offset: i64) -> Result<*mut u8, Error> {
    let (access, how) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
    // SAFETY: no address is asked for; the mapping is never undone.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), len, access, how, fd, offset) };
    if at == libc::MAP_FAILED {
        return Err(Error::last_os_error());
    }
    Ok(at.cast())
}
