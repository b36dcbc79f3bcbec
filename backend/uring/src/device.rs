//! What block devices ask for beside reads: writes that last, flushes, ranges given back or zeroed.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::{opcode, types};

use heliostat_base::mapping::SharedMapping;

use crate::threads::make_transfer;
use crate::{flags_of, pieces_of, Flight, InFlight, Manner, NotPrepared, Range, Uring};

/// What becomes of a range of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocation {
    /// Given back; it reads as zero (FALLOC_FL_PUNCH_HOLE).
    Discard,
    /// It reads as zero, and the file system or the device keeps room for it (FALLOC_FL_ZERO_RANGE).
    Zero,
}

impl Allocation {
    /// The mode of fallocate(2). The file never becomes longer.
    pub(crate) const fn mode(self) -> i32 {
        let what = match self {
            Allocation::Discard => libc::FALLOC_FL_PUNCH_HOLE,
            Allocation::Zero => libc::FALLOC_FL_ZERO_RANGE,
        };
        what | libc::FALLOC_FL_KEEP_SIZE
    }
}

/// Which way bytes go in a transfer that is made at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the file.
    Read,
    /// To the file.
    Write,
}

/// Makes one transfer by a system call of its own, and waits for it. For a lone one this takes less
/// than a ring does. Returns bytes, or minus an errno.
///
/// # Errors
/// The range does not lie in the mapping, or may not be written.
pub fn transfer(
    direction: Direction,
    file: &OwnedFd,
    offset: u64,
    memory: (&SharedMapping, Range),
    manner: Manner,
) -> Result<i32, NotPrepared> {
    let place = match direction {
        Direction::Read => SharedMapping::writable_at,
        Direction::Write => SharedMapping::bytes_at,
    };
    let Range { offset: at, len } = memory.1;
    let piece = [libc::iovec { iov_base: place(memory.0, at, len)?.cast(), iov_len: len }];
    // SAFETY: the piece lies in the mapping, which the caller holds until this returns, and may be
    // written where it is read into.
    Ok(unsafe { make_transfer(direction, file.as_raw_fd(), &piece, offset, manner) })
}

impl<T> Uring<T> {
    /// Writes ranges of a mapping to `offset` of a file, in order.
    pub fn write(
        &mut self,
        token: T,
        file: &Arc<OwnedFd>,
        offset: u64,
        from: (&Arc<SharedMapping>, &[Range]),
        manner: Manner,
    ) -> Result<Flight, NotPrepared> {
        let fd = types::Fd(file.as_raw_fd());
        let flags = flags_of(manner);
        let pinned = match from.1 {
            [one] if matches!(manner, Manner::Direct | Manner::Durable) => {
                self.pinned.number(&self.ring.submitter(), from.0, *one)
            }
            _ => None,
        };
        let (entry, pieces) = match (from.1, pinned) {
            ([one], Some(number)) => {
                let (start, len) = (from.0.bytes_at(one.offset, one.len)?, one.len as u32);
                let entry = opcode::WriteFixed::new(fd, start, len, number);
                (entry.offset(offset).rw_flags(flags).build(), Box::default())
            }
            ([one], None) => {
                let (start, len) = (from.0.bytes_at(one.offset, one.len)?, one.len as u32);
                let entry = opcode::Write::new(fd, start, len);
                (entry.offset(offset).rw_flags(flags).build(), Box::default())
            }
            (all, _) => {
                let pieces = pieces_of(from.0, all, SharedMapping::bytes_at)?;
                let entry = opcode::Writev::new(fd, pieces.as_ptr(), pieces.len() as u32);
                (entry.offset(offset).rw_flags(flags).build(), pieces)
            }
        };
        let (_file, _memory) = (Some(file.clone()), Some(from.0.clone()));
        self.prepare(entry, InFlight { token, _file, _memory, _pieces: pieces, outcome: None })
    }

    /// Brings a file's bytes to the disk, and of what describes it what it takes to read them.
    pub fn fdatasync(&mut self, token: T, file: &Arc<OwnedFd>) -> Result<Flight, NotPrepared> {
        let fd = types::Fd(file.as_raw_fd());
        let entry = opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build();
        self.prepare(entry, InFlight::of(token, Some(file.clone()), None))
    }

    /// Gives a range of a file back, or makes it read as zero.
    pub fn allocate(
        &mut self,
        token: T,
        file: &Arc<OwnedFd>,
        (offset, bytes): (u64, u64),
        what: Allocation,
    ) -> Result<Flight, NotPrepared> {
        let entry = opcode::Fallocate::new(types::Fd(file.as_raw_fd()), bytes);
        let entry = entry.offset(offset).mode(what.mode()).build();
        self.prepare(entry, InFlight::of(token, Some(file.clone()), None))
    }
}
