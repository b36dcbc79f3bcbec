//! What the kernel says of a snapshot region's memory, of a page of pins and of a bell, that were
//! shown.
//!
//! The seals are asked first: only memory files have any, so whatever else a descriptor is, nobody
//! but the kernel has answered, and the questions after it cannot be made to wait.

use std::os::fd::{AsFd, BorrowedFd};

use heliostat_abi::snapshot::memory::{Shape, HEAD_BYTES, PINS_BYTES};
use heliostat_abi::snapshot::queue;
use heliostat_base::mapping::has_huge_pages;
use rustix::fs::{fcntl_get_seals, fstat, SealFlags};
use rustix::net::{sockopt::socket_domain, AddressFamily};

/// Why shown memory is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoMemory {
    /// It is no memory file, or one that may still shrink.
    MayShrink,
    /// Whoever gets it could write it.
    Writable,
    /// It is no table of this version.
    NoTable,
    /// It is shorter than it has to be.
    Short,
    /// It is of huge pages, which may run out under whoever reads it.
    HugePages,
    /// It is no end of a bell: only a unix socket can be rung without waiting.
    NoBell,
}

impl std::fmt::Display for NoMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::MayShrink => "it is no memory file, or not sealed against shrinking",
            Self::Writable => "it is not sealed against further writers",
            Self::NoTable => "its head is no table's of this version",
            Self::Short => "it is shorter than it has to be",
            Self::HugePages => "it is memory of huge pages (MFD_HUGETLB)",
            Self::NoBell => "the bell is no unix socket",
        })
    }
}

/// Bytes of a region, or of a queue's window, whose table and pool were shown, both closed to all
/// other writers. The mark at the table's head tells one from the other.
pub fn region(table: BorrowedFd<'_>, pool: BorrowedFd<'_>) -> Result<u64, NoMemory> {
    for fd in [table, pool] {
        let is_closed = sealed(fd)?.intersects(SealFlags::FUTURE_WRITE | SealFlags::WRITE);
        is_closed.then_some(()).ok_or(NoMemory::Writable)?;
    }
    let mut head = [0; HEAD_BYTES];
    let read = rustix::io::pread(table, &mut head, 0).unwrap_or(0);
    if read != HEAD_BYTES {
        return Err(NoMemory::NoTable);
    }
    let (table_bytes, pool_bytes, length) = measures(&head).ok_or(NoMemory::NoTable)?;
    has(table, table_bytes)?;
    has(pool, pool_bytes)?;
    Ok(length)
}

/// Bytes of table, pool and content, by a table's head.
fn measures(head: &[u8; HEAD_BYTES]) -> Option<(usize, usize, u64)> {
    if let Some(shape) = Shape::decode(head) {
        return Some((shape.table_bytes(), shape.pool_bytes(), shape.length));
    }
    let shape = queue::Shape::decode(head.first_chunk()?)?;
    Some((shape.table_bytes(), shape.pool_bytes(), shape.pool_bytes() as u64))
}

/// Whether a consumer's page of pins was shown, and after it, if anything, an end of a bell.
pub fn consumer(shown: &[impl AsFd]) -> Result<(), NoMemory> {
    let (page, bell) = shown.split_first().ok_or(NoMemory::Short)?;
    pins(page.as_fd())?;
    bell.iter().all(is_bell).then_some(()).ok_or(NoMemory::NoBell)
}

/// Whether an end of a bell was shown.
pub fn is_bell(shown: &impl AsFd) -> bool {
    socket_domain(shown) == Ok(AddressFamily::UNIX)
}

/// Whether a page of pins was shown. What stands in it is the producer's to look at.
fn pins(page: BorrowedFd<'_>) -> Result<(), NoMemory> {
    sealed(page)?;
    has(page, PINS_BYTES)
}

fn sealed(fd: BorrowedFd<'_>) -> Result<SealFlags, NoMemory> {
    let seals = fcntl_get_seals(fd).map_err(|_| NoMemory::MayShrink)?;
    match has_huge_pages(&fd) {
        Ok(false) => seals.contains(SealFlags::SHRINK).then_some(seals).ok_or(NoMemory::MayShrink),
        _ => Err(NoMemory::HugePages),
    }
}

fn has(fd: BorrowedFd<'_>, bytes: usize) -> Result<(), NoMemory> {
    let found = fstat(fd).map_or(0, |status| status.st_size);
    (found >= bytes as i64).then_some(()).ok_or(NoMemory::Short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use heliostat_base::fd::OwnedFd;
    use heliostat_base::mapping::{SharedMapping, Writers};

    fn memory(bytes: usize, head: &[u8], writers: Writers) -> (OwnedFd, SharedMapping) {
        let memory = SharedMapping::create_for(c"test", bytes, writers).unwrap();
        memory.1.copy_in(0, head).unwrap();
        memory
    }

    #[test]
    fn only_sealed_memory_of_the_right_length_is_a_region() {
        let shape = Shape::new(1, 5000, 0, 2).unwrap();
        let own = Writers::CreatorOnly;
        let (table, _mapped) = memory(shape.table_bytes(), &shape.encode(), own);
        let (pool, _mapped) = memory(shape.pool_bytes(), &[], own);
        let (short, _mapped) = memory(4096, &[], own);
        let (open, _mapped) = memory(shape.pool_bytes(), &[], Writers::Everyone);
        let null = std::fs::File::open("/dev/null").unwrap();
        let judge = |table: BorrowedFd<'_>, pool: BorrowedFd<'_>| region(table, pool);
        assert_eq!(judge(table.as_fd(), pool.as_fd()), Ok(shape.length));
        assert_eq!(judge(table.as_fd(), short.as_fd()), Err(NoMemory::Short));
        assert_eq!(judge(table.as_fd(), open.as_fd()), Err(NoMemory::Writable));
        assert_eq!(judge(short.as_fd(), pool.as_fd()), Err(NoMemory::NoTable));
        assert_eq!(judge(table.as_fd(), null.as_fd()), Err(NoMemory::MayShrink));
        let shape = queue::Shape::new(1, 5000, 2, false).unwrap();
        let (table, _mapped) = memory(shape.table_bytes(), &shape.encode(), own);
        assert_eq!(judge(table.as_fd(), pool.as_fd()), Ok(shape.pool_bytes() as u64));
        assert_eq!(judge(table.as_fd(), short.as_fd()), Err(NoMemory::Short));
        assert_eq!(pins(short.as_fd()), Ok(()));
        assert_eq!(pins(null.as_fd()), Err(NoMemory::MayShrink));
    }

    #[test]
    fn memory_of_huge_pages_is_no_page_of_pins() {
        use rustix::fs::{fcntl_add_seals, ftruncate, memfd_create, MemfdFlags};
        let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
        let Ok(huge) = memfd_create(c"huge", flags) else { return println!("skipped: none here") };
        ftruncate(&huge, 2 << 20).unwrap();
        fcntl_add_seals(&huge, SealFlags::SHRINK).unwrap();
        assert_eq!(pins(huge.as_fd()), Err(NoMemory::HugePages));
    }
}
