//! Waiting for readiness: epoll, poll and select.
//!
//! What a call points to is copied in, and the answer copied out. A pointer to nothing, or a time
//! that is none, is the kernel's to refuse: such a call passes.

use std::mem::MaybeUninit;

use heliostat_base::clock;
use heliostat_base::guarded::Fault;
use heliostat_base::sys::{check, Sysno};
use heliostat_interpose::Verdict;
use heliostat_stub_posix::event::epoll::{self, Waited};
use heliostat_stub_posix::event::{poll as stub_poll, select as stub_select};
use heliostat_stub_posix::net::{commit, listen};
use heliostat_stub_posix::table::{self, DescriptorKind};
use heliostat_stub_posix::{flush, Answer};
use libc::epoll_event;

use crate::call::{by_kernel, Call};
use crate::memory;

/// More descriptors than a process can have are the kernel's to refuse.
const POLL_FDS_MAX: u64 = 1 << 20;
/// Polled descriptors that lie on the stack while they are looked at; more are allocated, if any
/// of them is ours.
const POLL_FDS_FEW: usize = 32;
/// Events given at once; those that are left are the first of the next wait.
const EVENTS_MAX: usize = 128;
/// More events than this are refused (source: EP_MAX_EVENTS of fs/eventpoll.c).
const EVENTS_ASKED_MAX: i32 = i32::MAX / 12;
/// Words of a bitmap that lie on the stack: the 1024 descriptors of an fd_set.
const WORDS_FEW: usize = 16;

/// A timeout in ms as int: negative means none.
fn ms(value: i32) -> Option<u64> {
    u64::try_from(value).ok().map(|ms| ms * 1_000_000)
}

/// `scratch` holds the end of the wait over its sleeps: this value for none.
const NEVER: u64 = u64::MAX;

/// Looks, and sleeps in the kernel's own call with no frame of ours on the stack.
fn wait(
    call: &mut Call<'_>,
    timeout_ns: impl FnOnce(&Call<'_>) -> Result<Option<u64>, Fault>,
    mask: u64,
) -> Verdict {
    listen::renew_if_due();
    let asked = call.int(2);
    let is_plain = asked > 0 && asked <= EVENTS_ASKED_MAX;
    if !is_plain || !memory::is_below(call.word(1), asked as u64 * EVENT_BYTES) {
        return Verdict::Pass;
    }
    if call.frame.rounds == 0 {
        call.frame.scratch = match timeout_ns(call) {
            Err(Fault) => return Verdict::Pass,
            Ok(None) => NEVER,
            Ok(Some(0)) => 0,
            Ok(Some(ns)) => clock::monotonic_ns().saturating_add(ns),
        };
    }
    let ends = (call.frame.scratch != NEVER).then_some(call.frame.scratch);
    let mut room = [const { MaybeUninit::uninit() }; EVENTS_MAX];
    // An event is told once: none is taken for which there is no room to tell it.
    // SAFETY: the program's array.
    let fit =
        unsafe { memory::writable(call.word(1), (asked as usize).min(EVENTS_MAX), EVENT_BYTES) };
    let room = &mut room[..fit];
    if let Some(result) = call.waited() {
        let mut given = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        let count = usize::try_from(result).unwrap_or(0).min(EVENTS_MAX);
        // SAFETY: the kernel has just written them; an event is two numbers.
        let events = unsafe { memory::read_many(call.word(1), &mut given[..count]) };
        let events = check(result as isize).map(|_| events.map_or(&[][..], |events| &*events));
        let answer = epoll::woken(call.int(0), events, room, ends);
        if answer.is_some() {
            return give(call, room, answer);
        }
    }
    match epoll::look(call.int(0), room, ends, mask != 0) {
        Waited::Answer(answer) => give(call, room, answer),
        Waited::Sleep(ms) => {
            let number = Sysno::epoll_pwait as u64;
            let (fd, events_at) = (call.word(0), call.word(1));
            call.frame.wait =
                [number, fd, events_at, room.len().max(1) as u64, ms as i64 as u64, mask, 8];
            Verdict::Wait
        }
    }
}

const EVENT_BYTES: u64 = size_of::<epoll_event>() as u64;

/// Writes the events that were found to the program's array.
#[inline(always)]
fn give(call: &mut Call<'_>, found: &[MaybeUninit<epoll_event>], answer: Answer) -> Verdict {
    if let Some(Ok(count)) = answer {
        let found = &found[..count.min(found.len())];
        // SAFETY: the program's array, at least as long as the room for what was found.
        if count > 0 && unsafe { memory::write_many(call.word(1), found) }.is_err() {
            return call.answer(Some(Err(memory::FAULT)));
        }
    }
    call.answer(answer)
}

/// epoll_wait(2)
pub fn epoll_wait(call: &mut Call<'_>) -> Verdict {
    wait(call, |call| Ok(ms(call.int(3))), 0)
}

/// A signal mask that a call may bring; a null pointer is none.
///
/// # Errors
/// A fault, or a size that the kernel refuses.
fn mask(address: u64, bytes: u64) -> Result<Option<u64>, Fault> {
    match address {
        0 => Ok(None),
        _ if bytes != 8 => Err(Fault),
        // SAFETY: a mask is a number.
        _ => unsafe { memory::read(address) },
    }
}

/// epoll_pwait(2)
pub fn epoll_pwait(call: &mut Call<'_>) -> Verdict {
    let (mask_at, bytes) = (call.word(4), call.word(5));
    wait(call, |call| mask(mask_at, bytes).map(|_| ms(call.int(3))), mask_at)
}

/// epoll_pwait2(2); its sleeps are rounded up to whole milliseconds.
pub fn epoll_pwait2(call: &mut Call<'_>) -> Verdict {
    let (mask_at, bytes) = (call.word(4), call.word(5));
    let timeout = |call: &Call<'_>| {
        mask(mask_at, bytes)?;
        memory::timespec_ns(call.word(3))
    };
    wait(call, timeout, mask_at)
}

/// epoll_create(2) and epoll_create1(2): a set is known from its first descriptor on, so that copies
/// of that are known to be the same set.
pub fn epoll_create(call: &mut Call<'_>) -> Verdict {
    let answer = by_kernel(call);
    if let Ok(fd) = answer {
        epoll::created(fd as i32);
    }
    call.answer(Some(answer))
}

/// epoll_ctl(2)
pub fn epoll_ctl(call: &mut Call<'_>) -> Verdict {
    let (epoll, op, fd) = (call.int(0), call.int(1), call.int(2));
    let kind = table::kind(fd);
    let is_ours = op != libc::EPOLL_CTL_DEL
        && matches!(
            kind,
            DescriptorKind::Socket(_)
                | DescriptorKind::Early
                | DescriptorKind::Listener(_)
                | DescriptorKind::Unknown
        );
    let mut event = None;
    if is_ours {
        // SAFETY: an event is two numbers.
        event = match unsafe { memory::read(call.word(3)) } {
            Ok(event) => event,
            Err(Fault) => return Verdict::Pass,
        };
    }
    let answer = epoll::control(epoll, op, fd, event, || by_kernel(call));
    call.answer(answer)
}

/// True when the kernel's answer will do: none of the descriptors is known. What cannot be read is
/// the kernel's to refuse.
fn are_unknown(fds_at: u64, count: usize) -> bool {
    let mut room = [const { MaybeUninit::<libc::pollfd>::uninit() }; POLL_FDS_FEW];
    (0..count).step_by(POLL_FDS_FEW).all(|first| {
        let part = &mut room[..(count - first).min(POLL_FDS_FEW)];
        // SAFETY: a pollfd is three numbers.
        let part = unsafe { memory::read_many(fds_at + (first * POLLFD_BYTES) as u64, part) };
        part.is_ok_and(|part| part.iter().all(|entry| table::is_unknown(entry.fd)))
    })
}

const POLLFD_BYTES: usize = size_of::<libc::pollfd>();

fn poll_with(
    call: &mut Call<'_>,
    time: impl FnOnce(&Call<'_>) -> Result<(Option<u64>, Option<u64>), Fault>,
) -> Verdict {
    listen::renew_if_due();
    let (fds_at, count) = (call.word(0), u64::from(call.word(1) as u32));
    let is_plain = count > 0 && count <= POLL_FDS_MAX;
    if !table::is_used() || !is_plain || !memory::is_below(fds_at, count * POLLFD_BYTES as u64) {
        return pass_settled();
    }
    let count = count as usize;
    if count > POLL_FDS_FEW {
        if are_unknown(fds_at, count) {
            return pass_settled();
        }
        return poll_copy(call, time, &mut vec![MaybeUninit::uninit(); count]);
    }
    poll_copy(call, time, &mut [const { MaybeUninit::uninit() }; POLL_FDS_FEW][..count])
}

#[inline]
fn poll_copy(
    call: &mut Call<'_>,
    time: impl FnOnce(&Call<'_>) -> Result<(Option<u64>, Option<u64>), Fault>,
    room: &mut [MaybeUninit<libc::pollfd>],
) -> Verdict {
    let Ok((timeout_ns, mask)) = time(call) else { return pass_settled() };
    // SAFETY: a pollfd is three numbers.
    let Ok(fds) = (unsafe { memory::read_many(call.word(0), room) }) else {
        return pass_settled();
    };
    let answer = stub_poll::poll(fds, timeout_ns, mask);
    // SAFETY: where they were read from, with nothing but their events changed.
    let is_given = || unsafe { memory::write_many(call.word(0), fds) }.is_ok();
    if matches!(answer, Some(Ok(_))) && !is_given() {
        return call.answer(Some(Err(memory::FAULT)));
    }
    call.answer(answer)
}

/// The kernel's own wait, which publishes nothing: all is flushed before it.
fn pass_settled() -> Verdict {
    if flush::is_busy() {
        commit::settle();
    }
    Verdict::Pass
}

/// poll(2)
pub fn poll(call: &mut Call<'_>) -> Verdict {
    poll_with(call, |call| Ok((ms(call.int(2)), None)))
}

/// ppoll(2)
pub fn ppoll(call: &mut Call<'_>) -> Verdict {
    poll_with(call, |call| {
        Ok((memory::timespec_ns(call.word(2))?, mask(call.word(3), call.word(4))?))
    })
}

/// One of select's bitmaps while the call lasts.
struct Bitmap {
    address: u64,
    few: [u64; WORDS_FEW],
    many: Vec<u64>,
    words: usize,
}

impl Bitmap {
    /// A copy of what the program points to.
    fn copied(address: u64, words: usize) -> Result<Self, Fault> {
        let mut map = Self { address, few: [0; WORDS_FEW], many: Vec::new(), words };
        if words > WORDS_FEW {
            map.many.resize(words, 0);
        }
        if let Some(words) = map.words() {
            // SAFETY: live words of ours; what lies at the address is the program's, or a fault.
            let room =
                unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len()) };
            // SAFETY: words are numbers.
            unsafe { memory::read_many::<u64>(address, room) }?;
        }
        Ok(map)
    }

    /// `None` where the program passed a null pointer.
    fn words(&mut self) -> Option<&mut [u64]> {
        let words = match self.words > WORDS_FEW {
            true => &mut self.many,
            false => &mut self.few[..self.words],
        };
        (self.address != 0).then_some(words)
    }

    /// Writes it back.
    fn give(&mut self) -> Result<(), Fault> {
        let address = self.address;
        // SAFETY: where it was read from.
        self.words().map_or(Ok(()), |words| unsafe { memory::write_many(address, words) })
    }
}

fn select_with(
    call: &mut Call<'_>,
    time: impl FnOnce(&Call<'_>) -> Result<(Option<u64>, Option<u64>), Fault>,
) -> Verdict {
    listen::renew_if_due();
    let count = call.int(0);
    if !table::is_used() || count <= 0 || count as usize > table::FDS_MAX {
        return pass_settled();
    }
    let words = (count as usize).div_ceil(64);
    let copied = || -> Result<_, Fault> {
        let map = |place| Bitmap::copied(call.word(place), words);
        Ok((time(call)?, [map(1)?, map(2)?, map(3)?]))
    };
    let Ok(((timeout_ns, mask), mut maps)) = copied() else { return pass_settled() };
    let [read, write, except] = &mut maps;
    let mut bitmaps =
        stub_select::Bitmaps { read: read.words(), write: write.words(), except: except.words() };
    let answer = stub_select::select(count as usize, &mut bitmaps, timeout_ns, mask);
    if matches!(answer, Some(Ok(_))) && maps.iter_mut().any(|map| map.give().is_err()) {
        return call.answer(Some(Err(memory::FAULT)));
    }
    call.answer(answer)
}

/// select(2)
pub fn select(call: &mut Call<'_>) -> Verdict {
    let Ok(given) = timeval_ns(call.word(4)) else { return pass_settled() };
    let ends = given.map(|ns| clock::monotonic_ns().saturating_add(ns));
    let verdict = select_with(call, |_| Ok((given, None)));
    if let (Verdict::Done, Some(ends)) = (verdict, ends) {
        let left = ends.saturating_sub(clock::monotonic_ns()) / 1000;
        // The time left, as Linux tells it. Where it cannot be written, the kernel does not care.
        // SAFETY: the program's timeval, two numbers.
        let _ = unsafe { memory::write(call.word(4), [left / 1_000_000, left % 1_000_000]) };
    }
    verdict
}

/// A timeval in ns, of which the microseconds may be more than a second.
fn timeval_ns(address: u64) -> Result<Option<u64>, Fault> {
    if !table::is_used() {
        return Ok(None);
    }
    // SAFETY: any bytes are two numbers.
    let Some([seconds, us]) = (unsafe { memory::read::<[i64; 2]>(address) })? else {
        return Ok(None);
    };
    if seconds < 0 || us < 0 {
        return Err(Fault);
    }
    let ns = (us as u64).saturating_mul(1000);
    Ok(Some((seconds as u64).saturating_mul(1_000_000_000).saturating_add(ns)))
}

/// pselect6(2): the sixth argument points to a mask's address and size.
pub fn pselect(call: &mut Call<'_>) -> Verdict {
    select_with(call, |call| {
        let timeout = memory::timespec_ns(call.word(4))?;
        // SAFETY: any bytes are two numbers.
        let pair = unsafe { memory::read::<[u64; 2]>(call.word(5)) }?;
        Ok((timeout, pair.map_or(Ok(None), |[address, bytes]| mask(address, bytes))?))
    })
}
