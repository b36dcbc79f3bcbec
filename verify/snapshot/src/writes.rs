//! Ways in which bytes get into memory: stores, and every way in which the kernel writes.

use std::io::Error;
use std::os::fd::RawFd;

use crate::plan::{Plan, PAGE, SECTOR};
use crate::uring::Uring;

/// How a page is written. All but `Store` are the kernel's doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Single stores of the program.
    Store,
    /// read(2) from a pipe.
    Read,
    /// readv(2), in two pieces.
    Readv,
    /// pread(2) from a file that was opened with O_DIRECT.
    Direct,
    /// recvmsg(2) from a socket.
    Receive,
    /// process_vm_writev(2), as a debugger does it.
    VmWrite,
    /// /proc/self/mem, as another debugger does it.
    ProcMem,
    /// io_uring, a plain read.
    Uring,
}

const WAYS: [Way; 8] = [
    Way::Store,
    Way::Read,
    Way::Readv,
    Way::Direct,
    Way::Receive,
    Way::VmWrite,
    Way::ProcMem,
    Way::Uring,
];
/// One write in so many is the kernel's.
const KERNEL_EVERY: u32 = 8;

/// What the ways need, made once.
pub struct Writer {
    image: Box<Image>,
    /// Ways that work here, and why the others do not.
    pub ways: Vec<Way>,
    /// Ways that do not work here, with the reason.
    pub missing: Vec<(Way, Error)>,
    pipe: [RawFd; 2],
    socket: [RawFd; 2],
    file: RawFd,
    mem: RawFd,
    uring: Option<Uring>,
}

#[repr(align(4096))]
struct Image([u8; PAGE]);

impl Writer {
    /// Tries every way on a page of its own, which is aligned as O_DIRECT wants it.
    pub fn new() -> Result<Self, Error> {
        let (mut pipe, mut socket) = ([-1; 2], [-1; 2]);
        // SAFETY: live arrays of two descriptors each, and a live path.
        let mem = unsafe {
            if libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) != 0
                || libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, socket.as_mut_ptr()) != 0
            {
                return Err(Error::last_os_error());
            }
            libc::open(c"/proc/self/mem".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC)
        };
        let (image, uring) = (Box::new(Image([0; PAGE])), Uring::new().ok());
        let (ways, missing, file) = (vec![], vec![], direct_file());
        let mut it = Self { image, ways, missing, pipe, socket, file, mem, uring };
        let mut trial = Box::new(Image([0; PAGE]));
        for way in WAYS {
            match it.write(way, trial.0.as_mut_ptr(), PAGE) {
                Ok(()) => it.ways.push(way),
                Err(error) => it.missing.push((way, error)),
            }
        }
        Ok(it)
    }

    /// The way that a number stands for.
    pub fn way(&self, luck: u32, at: *mut u8) -> Way {
        let kernel = self.ways.len() as u32 - 1;
        if luck % KERNEL_EVERY != 0 || kernel == 0 {
            return Way::Store;
        }
        match self.ways[1 + (luck / KERNEL_EVERY % kernel) as usize] {
            // Direct transfers go to whole sectors of memory only.
            Way::Direct if at as usize % SECTOR != 0 => Way::Store,
            way => way,
        }
    }

    /// Writes the stamps of `round` into a page at `at`.
    pub fn stamp(
        &mut self,
        plan: &Plan,
        (round, page): (u32, usize),
        at: *mut u8,
        way: Way,
    ) -> Result<(), Error> {
        if way != Way::Store {
            for sector in Plan::sectors(page) {
                let stamp = plan.stamp(round, page, sector).to_ne_bytes();
                self.image.0[sector * SECTOR..sector * SECTOR + 8].copy_from_slice(&stamp);
            }
            return self.write(way, at, PAGE);
        }
        for sector in Plan::sectors(page) {
            let stamp = plan.stamp(round, page, sector);
            // SAFETY: inside a page of the region, which this thread alone writes.
            unsafe { at.add(sector * SECTOR).cast::<u64>().write_volatile(stamp) };
        }
        Ok(())
    }

    /// Writes the first `len` bytes of the image to `at`, which the caller owns.
    fn write(&mut self, way: Way, at: *mut u8, len: usize) -> Result<(), Error> {
        let image = self.image.0.as_ptr();
        let half = len / 2;
        let piece = |base: *mut u8, len| libc::iovec { iov_base: base.cast(), iov_len: len };
        let halves = [piece(at, half), piece(at.wrapping_add(half), len - half)];
        // SAFETY: `at` is good for `len` bytes by the caller's promise, the image for a page; all
        // structures live until the calls are over, and none is kept by the kernel.
        let moved = unsafe {
            match way {
                Way::Store => {
                    std::ptr::copy(image, at, len);
                    len as isize
                }
                Way::Read | Way::Readv => {
                    expect(libc::write(self.pipe[1], image.cast(), len), len)?;
                    match way {
                        Way::Read => libc::read(self.pipe[0], at.cast(), len),
                        _ => libc::readv(self.pipe[0], halves.as_ptr(), 2),
                    }
                }
                Way::Receive => {
                    expect(libc::write(self.socket[1], image.cast(), len), len)?;
                    let mut header: libc::msghdr = std::mem::zeroed();
                    (header.msg_iov, header.msg_iovlen) = (halves.as_ptr().cast_mut(), 2);
                    libc::recvmsg(self.socket[0], &mut header, libc::MSG_WAITALL)
                }
                Way::Direct => {
                    expect(libc::pwrite(self.file, image.cast(), len, 0), len)?;
                    libc::pread(self.file, at.cast(), len, 0)
                }
                Way::VmWrite => {
                    let from = piece(image.cast_mut(), len);
                    libc::process_vm_writev(libc::getpid(), &from, 1, halves.as_ptr(), 2, 0)
                }
                Way::ProcMem => libc::pwrite(self.mem, image.cast(), len, at as i64),
                Way::Uring => {
                    // Before the pipe is filled, which another way would read.
                    let ring = self.uring.as_mut().ok_or(Error::from_raw_os_error(libc::ENOSYS))?;
                    expect(libc::write(self.pipe[1], image.cast(), len), len)?;
                    ring.read(self.pipe[0], at, len, false)? as isize
                }
            }
        };
        expect(moved, len)
    }
}

fn expect(moved: isize, len: usize) -> Result<(), Error> {
    match usize::try_from(moved) {
        Ok(moved) if moved == len => Ok(()),
        Ok(moved) => Err(Error::other(format!("{moved} of {len} bytes"))),
        Err(_) => Err(Error::last_os_error()),
    }
}

/// A file without a name that is read around the page cache; -1 where there is none.
fn direct_file() -> RawFd {
    let folder = std::env::temp_dir().into_os_string().into_encoded_bytes();
    let Ok(folder) = std::ffi::CString::new(folder) else { return -1 };
    let flags = libc::O_RDWR | libc::O_TMPFILE | libc::O_DIRECT | libc::O_CLOEXEC;
    // SAFETY: a live path.
    unsafe { libc::open(folder.as_ptr(), flags, 0o600) }
}
