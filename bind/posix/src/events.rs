//! Waiting for readiness: epoll, poll and select.

use heliostat_base::clock;
use heliostat_base::sys::{check, Sysno};
use heliostat_interpose::Verdict;
use heliostat_stub::event::epoll::{self, Waited};
use heliostat_stub::event::{poll as stub_poll, select as stub_select};
use heliostat_stub::net::listen;
use heliostat_stub::table;

use crate::dispatch::Call;
use crate::memory;

/// More descriptors than a process can have are the kernel's to refuse.
const POLL_FDS_MAX: u64 = 1 << 20;
/// More events than this are never given at once.
const EVENTS_MAX: usize = 1 << 16;

/// A timeout in ms as int: negative means none.
fn ms(value: i32) -> Option<u64> {
    u64::try_from(value).ok().map(|ms| ms * 1_000_000)
}

/// `scratch` holds the end of the wait over its sleeps: this value for none.
const NEVER: u64 = u64::MAX;

/// Looks, and sleeps in the kernel's own call with no frame of ours on the stack.
fn wait(
    call: &mut Call<'_>,
    timeout_ns: impl FnOnce(&Call<'_>) -> Option<u64>,
    mask: u64,
) -> Verdict {
    listen::renew_if_due();
    if call.int(2) <= 0 {
        return Verdict::Pass;
    }
    if call.frame.rounds == 0 {
        call.frame.scratch = match timeout_ns(call) {
            None => NEVER,
            Some(0) => 0,
            Some(ns) => clock::monotonic_ns().saturating_add(ns),
        };
    }
    let ends = (call.frame.scratch != NEVER).then_some(call.frame.scratch);
    let count = (call.int(2) as usize).min(EVENTS_MAX);
    // SAFETY: the program's array of epoll_events, of the length it states.
    let events =
        unsafe { std::slice::from_raw_parts_mut(call.word(1) as *mut libc::epoll_event, count) };
    if let Some(result) = call.waited() {
        let answer = epoll::woken(call.int(0), events, check(result as isize), ends);
        if answer.is_some() {
            return call.answer(answer);
        }
    }
    match epoll::look(call.int(0), events, ends, mask != 0) {
        Waited::Answer(answer) => call.answer(answer),
        Waited::Sleep(ms) => {
            let room = count.min(SLEEP_EVENTS_MAX) as u64;
            let number = Sysno::epoll_pwait as u64;
            let (fd, events_at) = (call.word(0), call.word(1));
            call.frame.wait = [number, fd, events_at, room, ms as i64 as u64, mask, 8];
            Verdict::Wait
        }
    }
}

/// Events taken from one sleep; what is more stays in the kernel's set.
const SLEEP_EVENTS_MAX: usize = 128;

/// epoll_wait(2)
pub fn epoll_wait(call: &mut Call<'_>) -> Verdict {
    wait(call, |call| ms(call.int(3)), 0)
}

/// epoll_pwait(2)
pub fn epoll_pwait(call: &mut Call<'_>) -> Verdict {
    let mask = call.word(4);
    wait(call, |call| ms(call.int(3)), mask)
}

/// epoll_pwait2(2); its sleeps are rounded up to whole milliseconds.
pub fn epoll_pwait2(call: &mut Call<'_>) -> Verdict {
    let mask = call.word(4);
    // SAFETY: null or the program's timespec.
    wait(call, |call| unsafe { memory::timespec_ns(call.word(3)) }, mask)
}

/// epoll_ctl(2)
pub fn epoll_ctl(call: &mut Call<'_>) -> Verdict {
    // SAFETY: null or the program's event.
    let event = unsafe { memory::read(call.word(3)) };
    let answer = epoll::control(call.int(0), call.int(1), call.int(2), event);
    call.answer(answer)
}

fn poll_with(call: &mut Call<'_>, timeout_ns: Option<u64>, mask: Option<u64>) -> Verdict {
    listen::renew_if_due();
    if call.word(1) == 0 || call.word(1) > POLL_FDS_MAX || call.word(0) == 0 {
        return Verdict::Pass;
    }
    // SAFETY: the program's array of pollfds, of the length it states.
    let fds = unsafe {
        std::slice::from_raw_parts_mut(call.word(0) as *mut libc::pollfd, call.word(1) as usize)
    };
    let answer = stub_poll::poll(fds, timeout_ns, mask);
    call.answer(answer)
}

/// poll(2)
pub fn poll(call: &mut Call<'_>) -> Verdict {
    poll_with(call, ms(call.int(2)), None)
}

/// ppoll(2)
pub fn ppoll(call: &mut Call<'_>) -> Verdict {
    // SAFETY: null or the program's timespec and signal mask.
    let (timeout, mask) =
        unsafe { (memory::timespec_ns(call.word(2)), memory::read(call.word(3))) };
    poll_with(call, timeout, mask)
}

fn select_with(call: &mut Call<'_>, timeout_ns: Option<u64>, mask: Option<u64>) -> Verdict {
    listen::renew_if_due();
    let count = call.int(0);
    if count <= 0 || count as usize > table::FDS_MAX {
        return Verdict::Pass;
    }
    let words = (count as usize).div_ceil(64);
    let map = |address: u64| {
        (address != 0)
            // SAFETY: the program's bitmaps, which hold at least `count` bits in whole longs.
            .then(|| unsafe { std::slice::from_raw_parts_mut(address as *mut u64, words) })
    };
    let mut maps = stub_select::Bitmaps {
        read: map(call.word(1)),
        write: map(call.word(2)),
        except: map(call.word(3)),
    };
    let answer = stub_select::select(count as usize, &mut maps, timeout_ns, mask);
    call.answer(answer)
}

/// select(2); the time left is not written back, as select(2) allows.
pub fn select(call: &mut Call<'_>) -> Verdict {
    // SAFETY: null or the program's timeval.
    let timeout = unsafe { memory::read::<libc::timeval>(call.word(4)) };
    let ns = timeout.map(|time| {
        (time.tv_sec.max(0) as u64)
            .saturating_mul(1_000_000_000)
            .saturating_add(time.tv_usec.max(0) as u64 * 1000)
    });
    select_with(call, ns, None)
}

/// pselect6(2): the sixth argument points to a mask's address and size.
pub fn pselect(call: &mut Call<'_>) -> Verdict {
    // SAFETY: null or the program's timespec, and null or the pair the kernel documents.
    let (timeout, pair) =
        unsafe { (memory::timespec_ns(call.word(4)), memory::read::<[u64; 2]>(call.word(5))) };
    // SAFETY: null or the program's signal mask.
    let mask = pair.and_then(|[address, _]| unsafe { memory::read(address) });
    select_with(call, timeout, mask)
}
