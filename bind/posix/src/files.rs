//! Opening, reading and seeking files; calls that need the kernel's own offset of one.
//!
//! A call that is not answered from a mapping and moves the kernel's offset is made by the
//! trampoline, so that its end is seen: until then nobody takes the offset over.

use std::io::IoSliceMut;

use heliostat_base::guarded;
use heliostat_base::process::is_single_threaded;
use heliostat_base::spin::sleep_ns;
use heliostat_base::sys::{check, Errno, Sysno};
use heliostat_interpose::Verdict;
use heliostat_stub_posix::file::{self, Next, Seek, Ticket};
use heliostat_stub_posix::{table, thread};

use crate::call::Call;
use crate::memory;
use crate::offload::by_kernel;
use crate::sealed;
use crate::transfer;

/// The kernel cuts longer reads (source: MAX_RW_COUNT, read(2)).
const BYTES_MAX: u64 = 0x7fff_f000;
/// Above this no buffer ends (source: TASK_SIZE, x86-64 with 4 levels of page tables).
const ADDRESS_MAX: u64 = 0x7fff_ffff_f000;
/// Buffers of one call that are read here; more are the kernel's. 1 KiB of the program's stack.
const BUFFERS_MAX: usize = 64;

/// How often a call is made again that a lease stands in the way of, and how long between: the
/// control plane gives one back within a millisecond unless it has more to do.
const LEASE_TRIES: u32 = 20;
const LEASE_PAUSE_NS: u64 = 1_000_000;

/// Marks `scratch` where it holds a ticket's number; a wait of another kind writes other bytes.
const TICKET: u64 = 0x7469_636b << 32;
const INTERRUPTED: Result<usize, Errno> = Err(Errno(libc::EINTR));
const TICKET_MASK: u64 = !0 << 32;

/// open(2), openat(2), openat2(2), creat(2); `flags` reads the call's flags.
pub fn open(call: &mut Call<'_>, flags: impl Fn(&Call<'_>) -> i32) -> Verdict {
    let made = match call.waited() {
        Some(result) => check(result as isize),
        None if !file::is_enabled() && !sealed::is_sealed() => return Verdict::Pass,
        // It may wait, for the other end of a FIFO: where another thread could cancel this one, no
        // frame of ours may be on the stack.
        None if !is_single_threaded() => return call.wait_in_kernel(),
        None => by_kernel(call),
    };
    if made == INTERRUPTED && sealed::opens_again(call, flags(call)) {
        return call.wait_in_kernel();
    }
    let answer = match made {
        // A lease keeps a writer out who does not wait; plainly there would be none.
        Err(Errno(libc::EAGAIN)) if file::is_enabled() && flags(call) & libc::O_NONBLOCK != 0 => {
            patiently(|| by_kernel(call))
        }
        made => made,
    };
    if let Ok(fd) = answer {
        file::opened(fd as i32, flags(call));
    }
    call.answer(Some(answer))
}

/// The flags of openat2(2), which the kernel has just read.
pub fn flags_of_openat2(call: &Call<'_>) -> i32 {
    // SAFETY: open_how begins with the flags, a number.
    unsafe { memory::read_early::<u64>(call.word(2)) }.ok().flatten().unwrap_or(0) as i32
}

/// A buffer that could be read into: not empty, not cut, not beyond user space.
#[inline(always)]
fn is_plain(address: u64, length: u64) -> bool {
    let is_below = address.wrapping_sub(1) < ADDRESS_MAX && length <= ADDRESS_MAX - address;
    length.wrapping_sub(1) < BYTES_MAX && is_below
}

/// The bytes that a plain buffer names, to be touched by guarded copies only.
#[inline(always)]
fn buffer<'a>(call: &Call<'_>) -> &'a mut [u8] {
    // SAFETY: the program's buffer, neither null nor longer than a slice may be (`is_plain`); where
    // it is none, the copy into it is a fault that is caught.
    unsafe { std::slice::from_raw_parts_mut(call.word(1) as *mut u8, call.word(2) as usize) }
}

/// pread64(2)
#[inline(always)]
pub fn pread(call: &mut Call<'_>) -> Verdict {
    let fd = call.int(0);
    if thread::is_guarded() && is_plain(call.word(1), call.word(2)) && call.word(3) >> 62 == 0 {
        if let Some(bytes) = file::at(fd, call.word(3), buffer(call)) {
            return call.answer(Some(Ok(bytes)));
        }
    }
    match table::file(fd) {
        0 => Verdict::Pass,
        _ => pread_missed(call),
    }
}

#[cold]
fn pread_missed(call: &mut Call<'_>) -> Verdict {
    let is_plain = is_plain(call.word(1), call.word(2)) && call.word(3) >> 62 == 0;
    missed(call, false, is_plain.then(|| call.word(2)), |call| {
        file::at(call.int(0), call.word(3), buffer(call))
    })
}

/// read(2) of what is no socket
#[inline(always)]
pub fn read(call: &mut Call<'_>) -> Verdict {
    let fd = call.int(0);
    if call.frame.rounds > 0 {
        return finish(call, fd);
    }
    let is_described = file::Word::of(fd).index().is_some();
    if is_described && thread::is_guarded() && is_plain(call.word(1), call.word(2)) {
        if let Some(bytes) = file::next(fd, buffer(call)) {
            return call.answer(Some(Ok(bytes)));
        }
    }
    match table::file(fd) {
        0 => Verdict::Pass,
        _ => read_missed(call),
    }
}

#[cold]
fn read_missed(call: &mut Call<'_>) -> Verdict {
    let is_plain = is_plain(call.word(1), call.word(2));
    missed(call, true, is_plain.then(|| call.word(2)), |call| file::next(call.int(0), buffer(call)))
}

/// Tries once more if that helps, else lets the kernel read. No `bytes`: never answered here.
fn missed(
    call: &mut Call<'_>,
    moves: bool,
    bytes: Option<u64>,
    again: impl FnOnce(&Call<'_>) -> Option<usize>,
) -> Verdict {
    let fd = call.int(0);
    if let Some(ticket) = bytes.and_then(|bytes| file::count_early(fd, bytes as usize, moves)) {
        return in_kernel(call, ticket);
    }
    let Some(bytes) = bytes else {
        let ticket = if moves { file::needs_offset(fd) } else { Ticket::None };
        return in_kernel(call, ticket);
    };
    let ticket = match file::missed(fd, bytes as usize, moves, false) {
        Next::Kernel(ticket) => ticket,
        Next::Again => {
            if let Some(bytes) = again(call) {
                return call.answer(Some(Ok(bytes)));
            }
            match file::missed(fd, bytes as usize, moves, true) {
                Next::Kernel(ticket) => ticket,
                Next::Again => Ticket::None,
            }
        }
    };
    in_kernel(call, ticket)
}

/// Lets the kernel do the call; with a ticket, so that its end is seen.
fn in_kernel(call: &mut Call<'_>, ticket: Ticket) -> Verdict {
    if ticket == Ticket::None {
        return Verdict::Pass;
    }
    call.frame.scratch = TICKET | ticket.number();
    call.wait_in_kernel()
}

/// The ticket of a call that comes back.
fn ticket_of(call: &Call<'_>) -> Ticket {
    match call.frame.scratch & TICKET_MASK {
        TICKET => Ticket::from_number(call.frame.scratch & !TICKET_MASK),
        _ => Ticket::None,
    }
}

/// After that.
fn finish(call: &mut Call<'_>, fd: i32) -> Verdict {
    file::done(fd, ticket_of(call));
    call.frame.rax = call.frame.waited as u64;
    Verdict::Done
}

/// readv(2) of what is no socket
pub fn readv(call: &mut Call<'_>) -> Verdict {
    let fd = call.int(0);
    if call.frame.rounds > 0 {
        return finish(call, fd);
    }
    many(call, true, |buffers| file::next_many(fd, buffers))
}

/// preadv(2), and preadv2(2) without flags
pub fn preadv(call: &mut Call<'_>) -> Verdict {
    let (fd, offset) = (call.int(0), call.word(3));
    let is_v2 = call.frame.rax == Sysno::preadv2 as u64;
    if call.frame.rounds > 0 {
        return finish(call, fd);
    }
    let moves = is_v2 && offset == u64::MAX;
    if is_v2 && call.word(5) as u32 != 0 {
        let ticket = if moves { file::needs_offset(fd) } else { Ticket::None };
        return in_kernel(call, ticket);
    }
    match offset >> 62 {
        _ if moves => many(call, true, |buffers| file::next_many(fd, buffers)),
        0 => many(call, false, |buffers| file::at_many(fd, offset, buffers)),
        _ => Verdict::Pass,
    }
}

/// A call with an array of buffers.
fn many(
    call: &mut Call<'_>,
    moves: bool,
    mut read: impl FnMut(&mut [IoSliceMut<'_>]) -> Option<usize>,
) -> Verdict {
    let fd = call.int(0);
    if table::file(fd) == 0 {
        return Verdict::Pass;
    }
    let mut answer = |call: &Call<'_>| -> Option<usize> {
        let mut room = [[0u64; 2]; BUFFERS_MAX];
        with_buffers(call, &mut room, &mut read)
    };
    if thread::is_guarded() {
        if let Some(bytes) = answer(call) {
            return call.answer(Some(Ok(bytes)));
        }
    }
    // How much it asks for is not known before its array is read, for which a guard is needed.
    let is_few = call.word(2).wrapping_sub(1) < BUFFERS_MAX as u64;
    missed(call, moves, is_few.then_some(1), answer)
}

/// Reads the call's array, checks it, and lets `read` fill the buffers; `None` for what is the
/// kernel's to refuse. Only in a guarded thread.
fn with_buffers(
    call: &Call<'_>,
    room: &mut [[u64; 2]; BUFFERS_MAX],
    read: impl FnOnce(&mut [IoSliceMut<'_>]) -> Option<usize>,
) -> Option<usize> {
    let count = call.word(2) as usize;
    let given = room.get_mut(..count).filter(|given| !given.is_empty())?;
    // SAFETY: plain numbers, seen as the bytes they are.
    let bytes = unsafe { std::slice::from_raw_parts_mut(given.as_mut_ptr().cast(), count * 16) };
    // SAFETY: the program's array; where there is none, that is a fault.
    unsafe { guarded::fetch(call.word(1) as usize, bytes) }.ok()?;
    let total: u64 = given.iter().try_fold(0u64, |sum, [_, length]| sum.checked_add(*length))?;
    let is_plain = |[address, length]: &[u64; 2]| *length == 0 || is_plain(*address, *length);
    if total == 0 || total > BYTES_MAX || !given.iter().all(is_plain) {
        return None;
    }
    for [address, length] in given.iter_mut().filter(|[_, length]| *length == 0) {
        (*address, *length) = (8, 0);
    }
    // SAFETY: IoSliceMut has iovec's layout (its documentation promises that). The buffers are the
    // program's, touched by guarded copies only; where they are none, that is a fault.
    let buffers = unsafe {
        std::slice::from_raw_parts_mut(given.as_mut_ptr().cast::<IoSliceMut<'_>>(), count)
    };
    read(buffers)
}

/// lseek(2)
pub fn lseek(call: &mut Call<'_>) -> Verdict {
    let fd = call.int(0);
    if table::file(fd) == 0 {
        return Verdict::Pass;
    }
    match file::seek(fd, call.word(1) as i64, call.int(2)) {
        Seek::Answer(answer) => call.answer(Some(answer)),
        Seek::Kernel(ticket) => {
            let answer = by_kernel(call);
            file::done(fd, ticket);
            call.answer(Some(answer))
        }
    }
}

/// splice(2), copy_file_range(2) and the like, which move the offset of the file at argument
/// `place` when argument `offset` is null; `otherwise` for all other descriptors.
pub fn moving(
    call: &mut Call<'_>,
    place: usize,
    offset: usize,
    otherwise: impl FnOnce(&mut Call<'_>) -> Verdict,
) -> Verdict {
    let fd = call.int(place);
    if table::file(fd) == 0 || call.word(offset) != 0 {
        return otherwise(call);
    }
    match call.frame.rounds {
        0 => match file::needs_offset(fd) {
            Ticket::None => otherwise(call),
            ticket => in_kernel(call, ticket),
        },
        _ => finish(call, fd),
    }
}

/// sendfile(2): from a file whose offset it moves to a connection or to anything else.
pub fn sendfile(call: &mut Call<'_>) -> Verdict {
    let is_to_socket = !table::is_unknown(call.int(0));
    let fd = call.int(1);
    match is_to_socket {
        true => {}
        false if call.frame.rounds > 0 => return finish(call, fd),
        false => return moving(call, 1, 2, |_| Verdict::Pass),
    }
    if call.frame.rounds == 0 {
        let moves = call.word(2) == 0 && table::file(fd) != 0;
        let ticket = if moves { file::needs_offset(fd) } else { Ticket::None };
        call.frame.scratch = TICKET | ticket.number();
    }
    let verdict = transfer::sendfile(call);
    if verdict != Verdict::Wait {
        file::done(fd, ticket_of(call));
    }
    verdict
}

/// fcntl(2), record locks: one that is relative to the offset needs the kernel's own.
pub fn lock(call: &mut Call<'_>) -> Verdict {
    let fd = call.int(0);
    if call.frame.rounds > 0 {
        return finish(call, fd);
    }
    // SAFETY: a flock is numbers; l_whence is its second, of 16 bits.
    let whence = unsafe { memory::read::<[i16; 2]>(call.word(2)) };
    let whence = whence.ok().flatten().map_or(libc::SEEK_SET as i16, |words| words[1]);
    match i32::from(whence) {
        libc::SEEK_CUR => {
            let ticket = file::needs_offset(fd);
            in_kernel(call, ticket)
        }
        _ => Verdict::Pass,
    }
}

/// fcntl(2), F_SETLEASE: the program wants a lease of its own. The control plane's must not stand in
/// the way, nor the descriptors that it closes a moment later.
pub fn lease(call: &mut Call<'_>) -> Verdict {
    file::stop(call.int(0));
    let answer = patiently(|| by_kernel(call));
    call.answer(Some(answer))
}

/// Makes a call again that the kernel refuses while the control plane gives a lease back, for as
/// long as that may take.
fn patiently(mut make: impl FnMut() -> Result<usize, Errno>) -> Result<usize, Errno> {
    for _ in 0..LEASE_TRIES {
        match make() {
            Err(Errno(libc::EAGAIN)) => sleep_ns(LEASE_PAUSE_NS),
            answer => return answer,
        }
    }
    make()
}

/// ioctl(2) on a file: bytes left from the offset on, and closing on exec.
pub fn ioctl(call: &mut Call<'_>) -> Verdict {
    let fd = call.int(0);
    match u64::from(call.word(1) as u32) {
        libc::FIONREAD => {
            let ticket = file::needs_offset(fd);
            let answer = by_kernel(call);
            file::done(fd, ticket);
            call.answer(Some(answer))
        }
        request @ (libc::FIOCLEX | libc::FIONCLEX) => {
            let answer = by_kernel(call);
            if answer.is_ok() {
                file::kept_changed(fd, request == libc::FIONCLEX);
            }
            call.answer(Some(answer))
        }
        _ => Verdict::Pass,
    }
}
