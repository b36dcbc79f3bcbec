//! Shared memory that several processes map: sealed memfds and their mappings.
//!
//! Every region handed to another process is a memfd sealed against shrinking, growing and further
//! seals, because a peer that may shrink it can kill us with SIGBUS at any load. A region that
//! comes *from* another process is mapped only after the kernel has confirmed its length and its
//! seals. The typed views are in [`view`]; this file creates, maps and unmaps.
//!
//! ```text
//! map            fd  [offset .. offset+len)   ->  one view
//! double_mapped  fd  [offset .. offset+len)   ->  the same pages twice, back to back:
//!                    | 0 ........ len | 0 ........ len |   no element ever wraps
//! ```

mod foreign;
mod huge;
mod patchwork;
mod pieces;
mod view;

use std::ffi::CStr;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;

use crate::fd::OwnedFd;
use crate::place;
use crate::sys::{check, raw, Errno, Sysno};
use foreign::{check_len, check_region};

pub use foreign::has_huge_pages;
pub use huge::HUGE_BYTES;
pub use patchwork::Patchwork;
pub use pieces::Pieces;
pub use view::{settle, OutOfRange, PAGE_BYTES};

/// The largest region that is created or mapped. Offsets then fit every 48-bit address space.
pub const REGION_BYTES_MAX: usize = 1 << 40;

const SEALS_SIZE: usize = (libc::F_SEAL_SHRINK | libc::F_SEAL_GROW) as usize;

/// What the mapping process may do with the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Loads only; a store is a fault.
    Read,
    /// Loads and stores.
    ReadWrite,
}

/// Who besides the creator may map the region writable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writers {
    /// Every holder of the descriptor.
    Everyone,
    /// Only the mapping that exists at creation (F_SEAL_FUTURE_WRITE).
    CreatorOnly,
}

/// Why a region could not be created or mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MappingError {
    /// The length is zero, beyond the limit, or (for a double mapping) not whole pages.
    Length {
        /// Bytes asked for.
        wanted: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The offset is not a multiple of the page size.
    Misaligned {
        /// Offset asked for.
        offset: usize,
    },
    /// The file is shorter than what its owner claimed. The owner of the descriptor is at fault.
    Short {
        /// Last byte wanted, plus one.
        wanted: usize,
        /// Bytes the kernel says there are.
        found: usize,
    },
    /// The file may still shrink under us. The owner of the descriptor is at fault.
    Unsealed {
        /// Seals found (F_GET_SEALS), or -1 where the file cannot carry seals.
        found: i32,
    },
    /// It is memory of huge pages (hugetlbfs), of which the kernel may have none left when one is
    /// touched. The owner of the descriptor is at fault.
    HugePages,
    /// The kernel refused.
    System {
        /// System call that failed.
        call: &'static str,
        /// Its error number.
        errno: Errno,
    },
}

impl std::fmt::Display for MappingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MappingError::Length { wanted, limit } => {
                write!(f, "region of {wanted} bytes refused (limit {limit}, whole pages)")
            }
            MappingError::Misaligned { offset } => write!(f, "offset {offset} is inside a page"),
            MappingError::Short { wanted, found } => {
                write!(f, "region has {found} bytes where {wanted} were promised")
            }
            MappingError::Unsealed { found } => {
                write!(f, "region may shrink (seals {found:#x})")
            }
            MappingError::HugePages => f.write_str(
                "region is of huge pages, which may run out under its readers; make it without \
                 MFD_HUGETLB",
            ),
            MappingError::System { call, errno } => write!(f, "{call}: {errno}"),
        }
    }
}
impl std::error::Error for MappingError {}

/// A mapped piece of memory that other processes may map too. Unmapped on drop.
#[derive(Debug)]
pub struct SharedMapping {
    start: NonNull<u8>,
    len: usize,
    access: Access,
}

// SAFETY: the value owns an address range, not thread-bound state; every access that its safe
// methods make is atomic or an opaque copy, which are as sound from two threads as from two
// processes.
unsafe impl Send for SharedMapping {}
// SAFETY: as for Send.
unsafe impl Sync for SharedMapping {}

impl SharedMapping {
    /// Creates a zeroed region of `len` bytes that every holder of the descriptor may write.
    pub fn create(name: &CStr, len: usize) -> Result<(OwnedFd, SharedMapping), MappingError> {
        SharedMapping::create_for(name, len, Writers::Everyone)
    }

    /// Creates a zeroed region and says who may map it writable from now on.
    pub fn create_for(
        name: &CStr,
        len: usize,
        writers: Writers,
    ) -> Result<(OwnedFd, SharedMapping), MappingError> {
        let fd = sized_memfd(name, len)?;
        let mapping = SharedMapping::map_unchecked(fd.as_raw_fd(), 0, len, Access::ReadWrite)?;
        let future = match writers {
            Writers::Everyone => 0,
            Writers::CreatorOnly => libc::F_SEAL_FUTURE_WRITE as usize,
        };
        seal(fd.as_raw_fd(), SEALS_SIZE | libc::F_SEAL_SEAL as usize | future)?;
        Ok((fd, mapping))
    }

    /// Creates the descriptor only, sealed against any change of size.
    pub fn create_fd(name: &CStr, len: usize) -> Result<OwnedFd, MappingError> {
        let fd = sized_memfd(name, len)?;
        seal(fd.as_raw_fd(), SEALS_SIZE | libc::F_SEAL_SEAL as usize)?;
        Ok(fd)
    }

    /// Memory of `len` zeroed bytes that this process shares with whom it forks from now on. There is
    /// no descriptor of it by which others could come to it.
    pub fn for_descendants(len: usize) -> Result<SharedMapping, MappingError> {
        check_len(len)?;
        let (access, flags) = (Access::ReadWrite, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: no address is asked for, so no existing mapping is touched.
        let start = unsafe { mmap(0, len, protection(access), flags, -1, 0) }?;
        Ok(SharedMapping { start, len, access })
    }

    /// Maps the first `len` bytes of a descriptor that may come from somebody we do not trust.
    pub fn from_fd(fd: RawFd, len: usize, access: Access) -> Result<SharedMapping, MappingError> {
        SharedMapping::map(fd, 0, len, access)
    }

    /// Maps `[offset, offset + len)` after the kernel has confirmed size and seals.
    pub fn map(
        fd: RawFd,
        offset: usize,
        len: usize,
        access: Access,
    ) -> Result<SharedMapping, MappingError> {
        check_region(fd, offset, len)?;
        SharedMapping::map_unchecked(fd, offset, len, access)
    }

    /// Maps `[offset, offset + len)` twice, back to back; `len()` of the result is `2 * len`.
    pub fn double_mapped(
        fd: RawFd,
        offset: usize,
        len: usize,
        access: Access,
    ) -> Result<SharedMapping, MappingError> {
        check_region(fd, offset, len)?;
        if len % PAGE_BYTES != 0 {
            return Err(MappingError::Length { wanted: len, limit: REGION_BYTES_MAX });
        }
        // The address range is reserved first, so that both halves are certain to be neighbours.
        // From here on `whole` owns it: an error below unmaps whatever exists.
        let reserved = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: no address is asked for, so no existing mapping is touched.
        let start = unsafe { mmap(0, 2 * len, libc::PROT_NONE, reserved, -1, 0) }?;
        let whole = SharedMapping { start, len: 2 * len, access };
        for half in 0..2 {
            let at = start.as_ptr() as usize + half * len;
            let flags = libc::MAP_SHARED | libc::MAP_FIXED;
            // SAFETY: MAP_FIXED replaces pages inside the range reserved above, which is ours.
            unsafe { mmap(at, len, protection(access), flags, fd, offset) }?;
        }
        Ok(whole)
    }

    /// Maps a part of an io_uring of this process, which keeps its memory while it is mapped. A
    /// forked child has no such mapping.
    pub fn of_ring(fd: RawFd, offset: usize, len: usize) -> Result<SharedMapping, MappingError> {
        check_len(len)?;
        let access = Access::ReadWrite;
        let args =
            [0, len, protection(access) as usize, libc::MAP_SHARED as usize, fd as usize, offset];
        // SAFETY: no address is asked for, so no existing mapping is touched. The kernel refuses
        // one for a ring.
        let start = check(unsafe { raw(Sysno::mmap as usize, args) })
            .map_err(|errno| MappingError::System { call: "mmap", errno })?;
        let start = NonNull::new(start as *mut u8)
            .ok_or(MappingError::System { call: "mmap", errno: Errno(libc::ENOMEM) })?;
        let mapping = SharedMapping { start, len, access };
        let args = [mapping.as_ptr() as usize, len, libc::MADV_DONTFORK as usize, 0, 0, 0];
        // SAFETY: the range is this mapping's own, whole pages as the kernel counts them.
        check(unsafe { raw(Sysno::madvise as usize, args) })
            .map_err(|errno| MappingError::System { call: "madvise(MADV_DONTFORK)", errno })?;
        Ok(mapping)
    }

    fn map_unchecked(
        fd: RawFd,
        offset: usize,
        len: usize,
        access: Access,
    ) -> Result<SharedMapping, MappingError> {
        let start = huge::map_file(fd, offset, len, access)?;
        Ok(SharedMapping { start, len, access })
    }

    /// First byte. The pointer is valid for `len()` bytes as long as this value lives.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Mapped bytes.
    #[allow(clippy::len_without_is_empty)] // a mapping is never empty
    pub fn len(&self) -> usize {
        self.len
    }

    /// What this process may do with the bytes.
    pub fn access(&self) -> Access {
        self.access
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        let args = [self.start.as_ptr() as usize, self.len, 0, 0, 0, 0];
        // SAFETY: the range was mapped by this value and no view outlives it (views borrow it).
        let _ = unsafe { raw(Sysno::munmap as usize, args) };
    }
}

fn sized_memfd(name: &CStr, len: usize) -> Result<OwnedFd, MappingError> {
    check_len(len)?;
    let base = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // Kernels before 6.3 do not know MFD_NOEXEC_SEAL and answer EINVAL.
    let fd = match memfd(name, base | libc::MFD_NOEXEC_SEAL) {
        Err(Errno(libc::EINVAL)) => memfd(name, base),
        answer => answer,
    }
    .map_err(|errno| MappingError::System { call: "memfd_create", errno })?;
    let args = [fd.as_raw_fd() as usize, len, 0, 0, 0, 0];
    // SAFETY: ftruncate takes no pointer.
    check(unsafe { raw(Sysno::ftruncate as usize, args) })
        .map_err(|errno| MappingError::System { call: "ftruncate", errno })?;
    Ok(fd)
}

fn memfd(name: &CStr, flags: u32) -> Result<OwnedFd, Errno> {
    let args = [name.as_ptr() as usize, flags as usize, 0, 0, 0, 0];
    // SAFETY: `name` is a C string that outlives the call.
    let fd = check(unsafe { raw(Sysno::memfd_create as usize, args) })?;
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::adopt(fd as RawFd) })
}

fn seal(fd: RawFd, seals: usize) -> Result<(), MappingError> {
    let args = [fd as usize, libc::F_ADD_SEALS as usize, seals, 0, 0, 0];
    // SAFETY: F_ADD_SEALS takes no pointer.
    check(unsafe { raw(Sysno::fcntl as usize, args) })
        .map(|_| ())
        .map_err(|errno| MappingError::System { call: "fcntl(F_ADD_SEALS)", errno })
}

fn protection(access: Access) -> i32 {
    match access {
        Access::Read => libc::PROT_READ,
        Access::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
    }
}

/// # Safety
/// With MAP_FIXED in `flags` the caller owns the pages at `at`.
unsafe fn mmap(
    at: usize,
    len: usize,
    prot: i32,
    flags: i32,
    fd: RawFd,
    offset: usize,
) -> Result<NonNull<u8>, MappingError> {
    // Shared memory, and what is reserved for it.
    let is_free = at == 0 && flags & (libc::MAP_SHARED | libc::MAP_NORESERVE) != 0;
    let map = |at| {
        let args = [at, len, prot as usize, flags as usize, fd as usize, offset];
        // SAFETY: the caller's promise about `at`, and a place out of the way is taken only if it
        // is free; the other arguments are plain numbers.
        check(unsafe { raw(Sysno::mmap as usize, args) })
    };
    let start = match map(if is_free { place::out_of_the_way(len) } else { at }) {
        // An io_uring is mapped where the kernel chooses, or not at all.
        Err(Errno(libc::EINVAL)) if is_free => map(at),
        answer => answer,
    }
    .map_err(|errno| MappingError::System { call: "mmap", errno })?;
    // mmap never returns page 0 unless asked for it.
    NonNull::new(start as *mut u8)
        .ok_or(MappingError::System { call: "mmap", errno: Errno(libc::ENOMEM) })
}

#[cfg(test)]
#[path = "mapping/tests.rs"]
mod tests;
