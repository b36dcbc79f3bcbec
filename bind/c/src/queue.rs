//! Queues over C: logs whose entries are handed out, and go when they are acknowledged.

use std::ffi::{c_char, c_void};
use std::os::fd::AsRawFd;
use std::time::Duration;

use heliostat_stub_log::{Event, OpenError, Place, Queue};

use crate::border::{fail, give, give_if_wanted, hand_out, show, take_back, ProcessOwned};
use crate::code::{guard, heliostat_code, *};
use crate::log::{heliostat_position, not_opened, place_of, told};

/// A queue that is open. Threads may share it, but for its end.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_queue(ProcessOwned<Opened>);

struct Opened {
    queue: Queue,
    event: std::sync::OnceLock<Event>,
}

/// The payload of an entry that was handed out.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_queue_item {
    /// What the caller looks at until it is released.
    _payload: Vec<u8>,
}

/// Makes a queue of so many bytes where there is nothing yet, as `heliostat_log_create` does a log.
/// `*queue` is the caller's.
///
/// # Safety
/// `place` is null or a C string, `queue` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_queue_create(
    place: *const c_char,
    bytes: u64,
    queue: *mut *mut heliostat_queue,
) -> heliostat_code {
    // SAFETY: the caller's promise.
    unsafe { open_by(place, queue, |place| Queue::create(place, bytes)) }
}

/// Opens a queue, as `heliostat_log_open` does a log. What was handed out before and whose
/// acknowledgement is not durable is handed out again.
///
/// # Safety
/// As `heliostat_queue_create`.
#[no_mangle]
pub unsafe extern "C" fn heliostat_queue_open(
    place: *const c_char,
    queue: *mut *mut heliostat_queue,
) -> heliostat_code {
    // SAFETY: the caller's promise.
    unsafe { open_by(place, queue, Queue::open) }
}

/// Opens a queue, or makes one of so many bytes where there is nothing. Answers as both.
///
/// # Safety
/// As `heliostat_queue_create`.
#[no_mangle]
pub unsafe extern "C" fn heliostat_queue_open_or_create(
    place: *const c_char,
    bytes: u64,
    queue: *mut *mut heliostat_queue,
) -> heliostat_code {
    // SAFETY: the caller's promise.
    unsafe { open_by(place, queue, |place| Queue::open_or_create(place, bytes)) }
}

/// Takes the next durable entry that nobody has, and waits for one up to `timeout_ms` (0 for not at
/// all, negative for ever). Its payload lies at `*payload` until `*item`, the caller's, is released;
/// by its position it is acknowledged or given back.
///
/// `HELIOSTAT_EMPTY` when there was none in time. `HELIOSTAT_FULL` when the first entry that is not
/// acknowledged lies 2,048 behind. `HELIOSTAT_CORRUPT` and `HELIOSTAT_DEVICE` as for a log.
///
/// # Safety
/// `queue` is null or live, the others are null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_queue_pop(
    queue: *const heliostat_queue,
    timeout_ms: i64,
    item: *mut *mut heliostat_queue_item,
    payload: *mut *const c_void,
    bytes: *mut usize,
    position: *mut heliostat_position,
) -> heliostat_code {
    guard(|| {
        if item.is_null() || position.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promise.
        let queue = unsafe { of(queue)? };
        let found = match u64::try_from(timeout_ms) {
            Ok(0) => queue.pop(),
            Ok(limit) => queue.pop_wait(Duration::from_millis(limit)),
            Err(_) => queue.pop_wait(Duration::MAX),
        };
        let found = found.map_err(told)?.ok_or(HELIOSTAT_EMPTY)?;
        // SAFETY: the caller's promise. The bytes of a vector stay where they are when it is moved.
        unsafe {
            give(position, found.position.into())?;
            give_if_wanted(payload, found.payload.as_ptr().cast())?;
            give_if_wanted(bytes, found.payload.len())?;
            hand_out(item, heliostat_queue_item { _payload: found.payload })
        }
    })
}

/// Lets go of a payload; the entry stays handed out. Null is ignored.
///
/// # Safety
/// `item` is null or live, and not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_queue_item_release(item: *mut heliostat_queue_item) {
    // SAFETY: the caller's promise.
    unsafe { take_back(item) }
}

/// Says that an entry was dealt with. Returns at once: a crash before the next header block is written
/// has it handed out again. `HELIOSTAT_INVALID` where it is not handed out.
///
/// # Safety
/// `queue` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_queue_acknowledge(
    queue: *const heliostat_queue,
    position: heliostat_position,
) -> heliostat_code {
    // SAFETY: the caller's promise.
    guard(|| unsafe { of(queue)? }.acknowledge(position.into()).map_err(told))
}

/// The same, and waits until it is durable: the entry is never handed out again.
///
/// # Safety
/// `queue` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_queue_acknowledge_sync(
    queue: *const heliostat_queue,
    position: heliostat_position,
) -> heliostat_code {
    // SAFETY: the caller's promise.
    guard(|| unsafe { of(queue)? }.acknowledge_sync(position.into()).map_err(told))
}

/// Gives an entry back, for the next who takes one. `HELIOSTAT_INVALID` where it is not handed out.
///
/// # Safety
/// `queue` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_queue_give_back(
    queue: *const heliostat_queue,
    position: heliostat_position,
) -> heliostat_code {
    // SAFETY: the caller's promise.
    guard(|| unsafe { of(queue)? }.give_back(position.into()).map_err(told))
}

/// A descriptor that becomes readable when there may be more to take, or the queue has failed. It is
/// the queue's, and there until that is closed. Who was told drains it, and takes until it is empty.
///
/// # Safety
/// `queue` is null or live, `descriptor` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_queue_descriptor(
    queue: *const heliostat_queue,
    descriptor: *mut i32,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let event = unsafe { show(queue)? }.0.get()?.event()?;
        // SAFETY: the caller's promise.
        unsafe { give(descriptor, event.as_raw_fd()) }
    })
}

/// Has the descriptor not readable until there is something new.
///
/// # Safety
/// `queue` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_queue_drain(queue: *const heliostat_queue) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let event = unsafe { show(queue)? }.0.get()?.event()?;
        event.drain().map(drop).map_err(|errno| fail(HELIOSTAT_SYSTEM, errno))
    })
}

/// Waits for what is on its way, makes durable what was acknowledged, and ends the queue, whatever this
/// answers. Null is ignored.
///
/// # Safety
/// `queue` is null or live, and not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_queue_close(queue: *mut heliostat_queue) -> heliostat_code {
    guard(|| {
        if queue.is_null() {
            return Ok(());
        }
        // SAFETY: not null, ours, and the caller's last use.
        let whole = unsafe { Box::from_raw(queue) };
        whole.0.into_inner()?.queue.close().map_err(told)
    })
}

impl Opened {
    fn event(&self) -> Result<&Event, heliostat_code> {
        if self.event.get().is_none() {
            let event = self.queue.event().map_err(told)?;
            // Where another thread was quicker, its descriptor counts.
            let _ = self.event.set(event);
        }
        self.event.get().ok_or(HELIOSTAT_SYSTEM)
    }
}

/// # Safety
/// `queue` is null or live.
pub(crate) unsafe fn of<'a>(queue: *const heliostat_queue) -> Result<&'a Queue, heliostat_code> {
    // SAFETY: the caller's promise.
    Ok(&unsafe { show(queue)? }.0.get()?.queue)
}

/// # Safety
/// `place` is null or a C string, `queue` null or valid for writing.
unsafe fn open_by(
    place: *const c_char,
    queue: *mut *mut heliostat_queue,
    open: impl FnOnce(Place) -> Result<Queue, OpenError>,
) -> heliostat_code {
    guard(|| {
        if queue.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promise.
        let place = unsafe { place_of(place)? };
        let opened = open(place).map_err(|error| not_opened(&error))?;
        let made = Opened { queue: opened, event: std::sync::OnceLock::new() };
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(queue, heliostat_queue(ProcessOwned::new(made))) }
    })
}
