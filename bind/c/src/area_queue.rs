//! Operations on areas over C that are begun now and end later.

use std::ffi::c_void;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use heliostat_stub_store::{AreaQueue, Ended};

use crate::border::{give, hand_out, lend, limit, show, take_back, to_fill, to_read, ProcessOwned};
use crate::code::{guard, heliostat_code, *};
use crate::store::{code_of, heliostat_area, open_one, told};

/// Operations on an area that are under way, each with the caller's token. For one thread at a time. Its
/// area stays open as long as it is there.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_area_queue(ProcessOwned<Queue>);

struct Queue {
    operations: AreaQueue<Aim>,
    /// Of the last question for it.
    descriptor: Option<Arc<OwnedFd>>,
}

/// What an operation is for.
struct Aim {
    token: u64,
    /// Where a read's bytes go.
    into: *mut c_void,
    bytes: usize,
}

/// An operation that has ended.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_area_ended {
    /// Of the operation, as it was begun.
    pub token: u64,
    /// `HELIOSTAT_OK` where it was done as a whole. After a write that failed its sectors hold the old
    /// bytes or the new ones.
    pub code: i32,
}

/// Makes a queue for so many operations at once, 1 to 1,024. `*queue` is the caller's.
///
/// # Safety
/// `area` is null or live, `queue` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_area_queue_open(
    area: *const heliostat_area,
    depth: u32,
    queue: *mut *mut heliostat_area_queue,
) -> heliostat_code {
    guard(|| {
        if queue.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        let depth = usize::try_from(depth).ok().filter(|depth| (1..=1024).contains(depth));
        let depth = depth.ok_or(HELIOSTAT_INVALID)?;
        // SAFETY: the caller's promise.
        let operations = unsafe { open_one(area)? }.queue(depth).map_err(|error| told(&error))?;
        let opened = ProcessOwned::new(Queue { operations, descriptor: None });
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(queue, heliostat_area_queue(opened)) }
    })
}

/// Begins to read whole sectors to `into`, which is the queue's until this operation has ended.
///
/// `HELIOSTAT_FULL` while as many operations are under way as may be; `HELIOSTAT_INVALID` for bytes that
/// are no whole sectors of the area; `HELIOSTAT_DEVICE`. Then nothing was begun.
///
/// # Safety
/// `queue` is null or live; `into` is null or valid for writing `bytes` bytes until the operation has
/// ended or the queue was closed.
#[no_mangle]
pub unsafe extern "C" fn heliostat_area_queue_read(
    queue: *mut heliostat_area_queue,
    token: u64,
    offset: u64,
    into: *mut c_void,
    bytes: usize,
) -> heliostat_code {
    guard(|| {
        if into.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promise.
        let queue = unsafe { of(queue)? };
        let aim = Aim { token, into, bytes };
        queue.operations.begin_read(aim, offset, bytes).map_err(|error| told(&error))
    })
}

/// Begins to write whole sectors, which are copied before this returns; with `is_durable` not 0 they
/// survive a loss of power when it has ended. Answers as `heliostat_area_queue_read`.
///
/// # Safety
/// `queue` is null or live; `from` is null or valid for reading `bytes` bytes that nobody changes.
#[no_mangle]
pub unsafe extern "C" fn heliostat_area_queue_write(
    queue: *mut heliostat_area_queue,
    token: u64,
    offset: u64,
    from: *const c_void,
    bytes: usize,
    is_durable: i32,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let (queue, from) = unsafe { (of(queue)?, to_read(from, bytes)?) };
        let begun = queue.operations.begin_write(plain(token), offset, from, is_durable != 0);
        begun.map_err(|error| told(&error))
    })
}

/// Begins to make last what was written by operations that had ended before. Answers as
/// `heliostat_area_queue_read`.
///
/// # Safety
/// `queue` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_area_queue_flush(
    queue: *mut heliostat_area_queue,
    token: u64,
) -> heliostat_code {
    // SAFETY: the caller's promise.
    guard(|| unsafe { of(queue)? }.operations.begin_flush(plain(token)).map_err(|it| told(&it)))
}

/// The next operation that has ended, in any order, waited for up to `timeout_ms` (0 for not at all,
/// negative for ever).
///
/// `HELIOSTAT_EMPTY` where nothing is under way, `HELIOSTAT_TIMED_OUT` where none has ended by then.
/// `HELIOSTAT_DEVICE` and `HELIOSTAT_PEER_GONE` where nothing that is under way will end.
///
/// # Safety
/// `queue` is null or live, `ended` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_area_queue_next(
    queue: *mut heliostat_area_queue,
    timeout_ms: i64,
    ended: *mut heliostat_area_ended,
) -> heliostat_code {
    guard(|| {
        if ended.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promise.
        let queue = unsafe { of(queue)? };
        if queue.operations.under_way() == 0 {
            return Err(HELIOSTAT_EMPTY);
        }
        let found = queue.operations.next(limit(timeout_ms)).map_err(|error| told(&error))?;
        let Some(Ended { of, result, read }) = found else { return Err(HELIOSTAT_TIMED_OUT) };
        let code = result.map_or_else(|error| code_of(&error), |()| HELIOSTAT_OK);
        if code == HELIOSTAT_OK && of.bytes > 0 {
            // SAFETY: the caller's promise when the read was begun.
            unsafe { to_fill(of.into, of.bytes)? }.copy_from_slice(&read);
        }
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { give(ended, heliostat_area_ended { token: of.token, code: code as i32 }) }
    })
}

/// How many operations were begun and have not been told to have ended.
///
/// # Safety
/// `queue` is null or live, `count` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_area_queue_under_way(
    queue: *const heliostat_area_queue,
    count: *mut usize,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let queue = unsafe { show(queue)? }.0.get()?;
        // SAFETY: the caller's promise.
        unsafe { give(count, queue.operations.under_way()) }
    })
}

/// A descriptor that is readable when an operation may have ended, for poll, epoll and event loops: who
/// is told asks `heliostat_area_queue_next` until it has none. It is the queue's, and there until that is
/// closed. By the emulated way a thread of this process listens for it.
///
/// # Safety
/// `queue` is null or live, `descriptor` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_area_queue_descriptor(
    queue: *mut heliostat_area_queue,
    descriptor: *mut i32,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let queue = unsafe { of(queue)? };
        if queue.descriptor.is_none() {
            queue.descriptor = Some(queue.operations.descriptor().map_err(|error| told(&error))?);
        }
        let told = queue.descriptor.as_ref().map_or(-1, |it| it.as_raw_fd());
        // SAFETY: the caller's promise.
        unsafe { give(descriptor, told) }
    })
}

/// Ends a queue. What is under way may be done or not. Null is ignored.
///
/// # Safety
/// `queue` is null or live, and not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_area_queue_close(queue: *mut heliostat_area_queue) {
    // SAFETY: the caller's promise.
    unsafe { take_back(queue) }
}

/// # Safety
/// `queue` is null or live, and used by nobody else meanwhile.
unsafe fn of<'a>(queue: *mut heliostat_area_queue) -> Result<&'a mut Queue, heliostat_code> {
    // SAFETY: the caller's promise.
    unsafe { lend(queue)? }.0.get_mut()
}

fn plain(token: u64) -> Aim {
    Aim { token, into: std::ptr::null_mut(), bytes: 0 }
}
