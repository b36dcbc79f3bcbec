//! A ring of a namespace's commands: entries of 128 bytes, which hold a command each.
//!
//! What it is asked is what `heliostat_backend_uring::Requests` is asked; a request that is too large for one
//! command is several, and ends when the last of them has.
#![allow(unsafe_code)] // the kernel is handed addresses of this process

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_backend_uring::{Direction, NotPrepared, Range};
use heliostat_base::mapping::SharedMapping;
use io_uring::{cqueue, opcode, squeue, types, IoUring};

use super::admin::{of_status, GivesBack, Namespace};
use super::command::{Command, Sectors};
use super::SECTORS_MAX;
use crate::Buffer;

/// linux/nvme_ioctl.h.
const NVME_URING_CMD_IO: u32 = 0xc048_4e80;
/// How long a device is waited for that is tried out.
const TRIAL: Duration = Duration::from_secs(10);

type Ring = IoUring<squeue::Entry128, cqueue::Entry32>;

/// Commands of one namespace.
pub(crate) struct NamespaceRing {
    ring: Ring,
    file: Arc<OwnedFd>,
    is: Namespace,
    /// By place: what is under way.
    requests: Vec<Option<Asked>>,
    free: Vec<usize>,
    /// Commands that the ring had no room for.
    waiting: VecDeque<Part>,
    /// Commands that the kernel has.
    under_way: usize,
    room: usize,
    done: VecDeque<(usize, i32)>,
}

/// A request, with what the device touches until it has ended.
struct Asked {
    token: usize,
    left: usize,
    /// Commands that go to the device when the others have ended well.
    then: Vec<(Command, u64)>,
    bytes: i32,
    failed: i32,
    _memory: Option<Arc<SharedMapping>>,
    /// Ranges that are given back, one for each command.
    _ranges: Box<[[u8; 16]]>,
}

struct Part {
    place: usize,
    command: Command,
    address: u64,
}

/// What a request does with bytes of memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) direction: Direction,
    pub(crate) durable: bool,
}

impl NamespaceRing {
    /// A ring for `most` requests at once, of which commands for `entries` go to the kernel in one call.
    ///
    /// # Errors
    /// What io_uring_setup(2) answers; EINVAL before Linux 5.19, which has no such entries.
    pub(crate) fn create(
        file: Arc<OwnedFd>,
        is: Namespace,
        entries: u32,
        most: usize,
    ) -> io::Result<NamespaceRing> {
        let ring = Ring::builder().setup_cqsize(entries * 8).build(entries)?;
        Ok(NamespaceRing {
            ring,
            file,
            is,
            requests: (0..most).map(|_| None).collect(),
            free: (0..most).rev().collect(),
            // Lists keep their memory: beneath a program's own libc transfers and flushes allocate nothing.
            waiting: VecDeque::with_capacity(most * 2),
            under_way: 0,
            room: entries as usize * 8,
            done: VecDeque::with_capacity(most),
        })
    }

    /// Readable when something has completed that nobody has reaped.
    pub(crate) fn descriptor(&self) -> i32 {
        self.ring.as_raw_fd()
    }

    /// The same, of its own.
    pub(crate) fn event(&self) -> Option<OwnedFd> {
        // SAFETY: the ring is open as long as this has it, and nobody closes it meanwhile.
        let ring = unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) };
        ring.try_clone_to_owned().ok()
    }

    /// Requests under way or prepared.
    pub(crate) fn under_way(&self) -> usize {
        self.requests.len() - self.free.len()
    }

    /// Reads or writes a range of a mapping.
    pub(crate) fn transfer(
        &mut self,
        token: usize,
        offset: u64,
        memory: (&Arc<SharedMapping>, Range),
        how: Transfer,
    ) -> Result<(), NotPrepared> {
        let commands = transfers(&self.is, offset, memory, how)?;
        let asked = Asked {
            token,
            left: 0,
            then: Vec::new(),
            bytes: i32::try_from(memory.1.len).unwrap_or(i32::MAX),
            failed: 0,
            _memory: Some(memory.0.clone()),
            _ranges: Box::default(),
        };
        self.ask(asked, commands)
    }

    /// Makes what has ended last.
    pub(crate) fn flush(&mut self, token: usize) -> Result<(), NotPrepared> {
        self.ask(Asked::of(token), std::iter::once((Command::flush(self.is.number), 0)))
    }

    /// Makes sectors read as zero; EOPNOTSUPP where the device does not do that by itself.
    pub(crate) fn zero(&mut self, token: usize, range: (u64, u64)) -> Result<(), NotPrepared> {
        if !self.is.zeroes {
            return self.refuse(token);
        }
        let commands = self.zeroes(range, false);
        self.ask(Asked::of(token), commands)
    }

    /// Gives sectors back, which read as zero then; EOPNOTSUPP where the device cannot.
    pub(crate) fn discard(&mut self, token: usize, range: (u64, u64)) -> Result<(), NotPrepared> {
        let Some(how) = self.is.gives_back else { return self.refuse(token) };
        let commands = self.zeroes(range, how == GivesBack::Zeroing);
        if how == GivesBack::Zeroing {
            return self.ask(Asked::of(token), commands);
        }
        let ranges: Box<[_]> = self.pieces(range, SECTORS_MAX).map(Sectors::range).collect();
        let command = Command::deallocate(self.is.number);
        // The ranges lie in a box, which stays where it is when it is moved.
        let then = ranges.iter().map(|range| (command, range.as_ptr() as u64)).collect();
        self.ask(Asked { then, _ranges: ranges, ..Asked::of(token) }, commands)
    }

    fn zeroes(&self, range: (u64, u64), gives_back: bool) -> impl Iterator<Item = (Command, u64)> {
        let number = self.is.number;
        let command = move |sectors| (Command::zero(number, sectors, gives_back), 0);
        self.pieces(range, self.is.zeroed_sectors_max).map(command)
    }

    fn refuse(&mut self, token: usize) -> Result<(), NotPrepared> {
        self.done.push_back((token, -libc::EOPNOTSUPP));
        Ok(())
    }

    /// Sectors by so many at most.
    fn pieces(&self, (offset, bytes): (u64, u64), most: u64) -> impl Iterator<Item = Sectors> {
        let sector = u64::from(self.is.sector_bytes);
        let (first, end) = (offset / sector, (offset + bytes) / sector);
        (first..end).step_by(most as usize).map(move |first| {
            let count = (end - first).min(most) as u32;
            Sectors { first, count }
        })
    }

    fn ask(
        &mut self,
        asked: Asked,
        commands: impl Iterator<Item = (Command, u64)>,
    ) -> Result<(), NotPrepared> {
        let place = self.free.pop().ok_or(NotPrepared::Full)?;
        let before = self.waiting.len();
        self.waiting.extend(parts(place, commands));
        self.requests[place] = Some(Asked { left: self.waiting.len() - before, ..asked });
        Ok(())
    }

    /// Gives the kernel what is prepared and it has room for.
    ///
    /// # Errors
    /// EBUSY and the like: the next call tries again.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        let before = self.waiting.len();
        while self.under_way < self.room {
            let Some(part) = self.waiting.front() else { break };
            if !self.push(part.place, &part.command, part.address) {
                self.ring.submit()?;
                let Some(part) = self.waiting.front() else { break };
                if !self.push(part.place, &part.command, part.address) {
                    break;
                }
            }
            self.waiting.pop_front();
            self.under_way += 1;
        }
        if before > self.waiting.len() || !self.ring.submission().is_empty() {
            self.ring.submit()?;
        }
        Ok(())
    }

    fn push(&self, place: usize, command: &Command, address: u64) -> bool {
        let mut bytes = [0; 80];
        bytes[..72].copy_from_slice(&command.encode(address));
        let entry = opcode::UringCmd80::new(types::Fd(self.file.as_raw_fd()), NVME_URING_CMD_IO);
        let entry = entry.cmd(bytes).build().user_data(place as u64);
        // SAFETY: the data lies in what the request holds until its last command has ended, or for ever when
        // this is dropped; one thread pushes at a time, which has this exclusively.
        unsafe { self.ring.submission_shared().push(&entry) }.is_ok()
    }

    /// Takes one request that has ended: what it was for, and bytes or minus an errno.
    pub(crate) fn reap(&mut self) -> Option<(usize, i32)> {
        loop {
            if let Some(done) = self.done.pop_front() {
                return Some(done);
            }
            let entry = self.ring.completion().next()?;
            self.under_way -= 1;
            let place = entry.user_data() as usize;
            let Some(Some(asked)) = self.requests.get_mut(place) else { continue };
            asked.left -= 1;
            asked.failed = match entry.result() {
                0 => asked.failed,
                errno if errno < 0 => errno,
                status => -of_status(status),
            };
            if asked.left == 0 && asked.failed == 0 && !asked.then.is_empty() {
                let then = std::mem::take(&mut asked.then);
                asked.left = then.len();
                self.waiting.extend(parts(place, then.into_iter()));
                continue;
            }
            if asked.left == 0 {
                let result = if asked.failed < 0 { asked.failed } else { asked.bytes };
                let token = asked.token;
                self.requests[place] = None;
                self.free.push(place);
                return Some((token, result));
            }
        }
    }

    /// Submits and sleeps until a command completes, `limit` at most.
    ///
    /// # Errors
    /// As `submit`; an interrupted or timed out sleep is none.
    pub(crate) fn sleep(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.submit()?;
        if !self.done.is_empty() || self.under_way == 0 {
            return Ok(());
        }
        let spec = limit.map(types::Timespec::from);
        let mut args = types::SubmitArgs::new();
        if let Some(spec) = &spec {
            args = args.timespec(spec);
        }
        match self.ring.submitter().submit_with_args(1, &args) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => Ok(()),
            answer => answer.map(|_| ()),
        }
    }
}

impl Drop for NamespaceRing {
    /// What the device may still touch is never given back.
    fn drop(&mut self) {
        let under_way = self.requests.drain(..).flatten();
        under_way.for_each(std::mem::forget);
    }
}

impl Asked {
    fn of(token: usize) -> Asked {
        Asked {
            token,
            left: 0,
            then: Vec::new(),
            bytes: 0,
            failed: 0,
            _memory: None,
            _ranges: Box::default(),
        }
    }
}

fn parts(
    place: usize,
    commands: impl Iterator<Item = (Command, u64)>,
) -> impl Iterator<Item = Part> {
    commands.map(move |(command, address)| Part { place, command, address })
}

/// The commands of a transfer, each with where its data lies.
fn transfers(
    is: &Namespace,
    offset: u64,
    (memory, range): (&Arc<SharedMapping>, Range),
    how: Transfer,
) -> Result<impl Iterator<Item = (Command, u64)>, NotPrepared> {
    let is = *is;
    let start = match how.direction {
        Direction::Read => memory.writable_at(range.offset, range.len)? as u64,
        Direction::Write => memory.bytes_at(range.offset, range.len)? as u64,
    };
    let (sector, most) = (u64::from(is.sector_bytes), is.command_bytes_max as usize);
    Ok((0..range.len).step_by(most).map(move |at| {
        let bytes = (range.len - at).min(most) as u32;
        let sectors =
            Sectors { first: (offset + at as u64) / sector, count: bytes / is.sector_bytes };
        let command = match how.direction {
            Direction::Read => Command::read(is.number, sectors, bytes),
            Direction::Write => Command::write(is.number, sectors, bytes, how.durable),
        };
        (command, start + at as u64)
    }))
}

/// Makes one transfer by system calls, and waits for it: bytes, or minus an errno.
///
/// # Errors
/// The range does not lie in the mapping, or may not be written.
pub(crate) fn transfer_now(
    file: &OwnedFd,
    is: &Namespace,
    offset: u64,
    memory: (&Arc<SharedMapping>, Range),
    how: Transfer,
) -> Result<i32, NotPrepared> {
    for (command, address) in transfers(is, offset, memory, how)? {
        // SAFETY: the data lies in the mapping, which the caller holds until this returns, and may be
        // written where it is read into (`transfers`).
        match unsafe { Namespace::perform(file, &command, address) } {
            0 => {}
            failed => return Ok(failed),
        }
    }
    Ok(i32::try_from(memory.1.len).unwrap_or(i32::MAX))
}

/// Reads the first sector by a command in a ring, as all of them go: whether this process may send them.
///
/// # Errors
/// An errno: the kernel has no such ring or carries no commands, refuses them to this process, or the
/// device does not answer.
pub(crate) fn try_out(file: &Arc<OwnedFd>, is: Namespace) -> Result<(), i32> {
    let told = |error: io::Error| error.raw_os_error().unwrap_or(libc::EIO);
    let mut ring = NamespaceRing::create(file.clone(), is, 1, 1).map_err(told)?;
    let buffer = Buffer::new(is.sector_bytes as usize).map_err(|_| libc::ENOMEM)?;
    let range = Range { offset: buffer.at, len: buffer.bytes };
    let how = Transfer { direction: Direction::Read, durable: false };
    ring.transfer(0, 0, (&buffer.memory, range), how).map_err(|_| libc::EINVAL)?;
    let until = Instant::now() + TRIAL;
    while Instant::now() < until {
        ring.sleep(Some(TRIAL)).map_err(told)?;
        match ring.reap() {
            Some((_, failed)) if failed < 0 => return Err(-failed),
            Some(_) => return Ok(()),
            None => {}
        }
    }
    Err(libc::ETIME)
}

/// Makes what has ended last, and waits for it: 0, or minus an errno.
pub(crate) fn flush_now(file: &OwnedFd, is: &Namespace) -> i32 {
    // SAFETY: it has no data.
    unsafe { Namespace::perform(file, &Command::flush(is.number), 0) }
}
