//! The memory that versions are made of, of every kind that a program may have.

use std::ffi::c_void;
use std::io::Error;

use heliostat_backend_pages::live::LiveMemory;

use crate::plan::PAGE;

/// Where the memory comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryKind {
    /// malloc(3): a page and a bit in, so that region and pages do not agree.
    Malloc,
    /// Private and anonymous.
    Anonymous,
    /// The same, on huge pages where the kernel gives them.
    Huge,
    /// A private mapping of a file of zeros.
    File,
    /// A shared mapping of a memfd.
    Shared,
    /// On the stack of a thread.
    Stack,
    /// Made by the library together with its region; not for the asking.
    Region,
}

/// By name.
pub const KINDS: [(&str, MemoryKind); 6] = [
    ("malloc", MemoryKind::Malloc),
    ("anonymous", MemoryKind::Anonymous),
    ("huge", MemoryKind::Huge),
    ("file", MemoryKind::File),
    ("memfd", MemoryKind::Shared),
    ("stack", MemoryKind::Stack),
];

/// Bytes of this process that nothing else uses. Never given back: the process ends with them.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Address of the first byte.
    pub start: usize,
    /// Bytes.
    pub len: usize,
    /// What it is.
    pub kind: MemoryKind,
}

impl Memory {
    /// `len` bytes of zeros. On a stack they are the calling thread's, which must not return.
    pub fn new(kind: MemoryKind, len: usize) -> Result<Self, Error> {
        let start = match kind {
            // SAFETY: an allocation of its own, never freed.
            MemoryKind::Malloc => unsafe { libc::calloc(1, len + 2 * PAGE) as usize + 16 },
            MemoryKind::Stack => on_stack(len)?,
            MemoryKind::Region => return Err(Error::other("it comes with a region")),
            _ => mapped(kind, len)? as usize,
        };
        Ok(Self { start, len, kind })
    }

    /// True where single pages can be dropped, moved and protected without harm to others.
    pub fn allows_surgery(&self) -> bool {
        matches!(self.kind, MemoryKind::Anonymous | MemoryKind::Huge | MemoryKind::File)
    }

    /// Address of a page as the plan counts them.
    pub fn page(&self, page: usize) -> *mut u8 {
        assert!((page + 1) * PAGE <= self.len, "page {page} is not in the region");
        (self.start + page * PAGE) as *mut u8
    }

    /// For a region.
    pub fn live(&self) -> LiveMemory {
        // SAFETY: mapped until the process ends; what is unmapped for a moment is mapped again
        // before the next version, by the one thread that publishes.
        unsafe { LiveMemory::new(self.start, self.len) }
    }
}

/// A mapping of the kind, aligned to huge pages.
fn mapped(kind: MemoryKind, len: usize) -> Result<*mut c_void, Error> {
    const HUGE: usize = 2 << 20;
    let (access, free) = (libc::PROT_READ | libc::PROT_WRITE, std::ptr::null_mut());
    let room = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: no address is asked for; afterwards a part of what was just mapped is replaced. The
    // memfd is fresh, and its descriptor is kept by the mapping alone.
    unsafe {
        let at = check(libc::mmap(free, len + HUGE, access, room, -1, 0))?;
        let start = (at as usize).next_multiple_of(HUGE) as *mut c_void;
        if kind == MemoryKind::Huge {
            libc::madvise(start, len, libc::MADV_HUGEPAGE);
        }
        if matches!(kind, MemoryKind::File | MemoryKind::Shared) {
            let fd = libc::memfd_create(c"source".as_ptr(), libc::MFD_CLOEXEC);
            let whole = len.next_multiple_of(PAGE);
            if fd < 0 || libc::ftruncate(fd, whole as i64) != 0 {
                return Err(Error::last_os_error());
            }
            let share = if kind == MemoryKind::File { libc::MAP_PRIVATE } else { libc::MAP_SHARED };
            check(libc::mmap(start, whole, access, share | libc::MAP_FIXED, fd, 0))?;
            libc::close(fd);
        }
        Ok(start)
    }
}

fn check(at: *mut c_void) -> Result<*mut c_void, Error> {
    if at == libc::MAP_FAILED {
        Err(Error::last_os_error())
    } else {
        Ok(at)
    }
}

/// Room on the stack of a thread that sleeps until the process ends.
fn on_stack(len: usize) -> Result<usize, Error> {
    const MOST: usize = 1 << 20;
    if len > MOST {
        return Err(Error::other("a stack has at most 1 MiB for the region"));
    }
    let (tell, hear) = std::sync::mpsc::channel();
    std::thread::Builder::new().stack_size(4 * MOST).spawn(move || {
        let mut room = [0u8; MOST];
        let _ = tell.send(std::hint::black_box(&mut room).as_mut_ptr() as usize);
        loop {
            std::thread::park();
            std::hint::black_box(&mut room);
        }
    })?;
    hear.recv().map_err(Error::other)
}
