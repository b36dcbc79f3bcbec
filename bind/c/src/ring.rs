//! Rings over C: create or attach, then one producing or one consuming handle.

use std::ffi::{c_char, CStr};
use std::sync::Arc;
use std::time::Duration;

use ::heliostat_ring::doorbell::Patience;
use ::heliostat_ring::probe::Immortal;
use ::heliostat_ring::{Refresh, RingMemory, SpscConsumer, SpscProducer};

use crate::border::{give, lend, take_back};
use crate::code::{guard, heliostat_code, *};

/// The shared memory of a ring, mapped.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_ring(Arc<RingMemory>);

/// The producing end.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_producer(SpscProducer);

/// The consuming end.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_consumer(SpscConsumer);

fn patience(timeout_ms: i64) -> Patience {
    match u64::try_from(timeout_ms) {
        Ok(ms) => Patience::up_to(Duration::from_millis(ms)),
        Err(_) => Patience::ENDLESS,
    }
}

/// Creates a ring with `capacity` data bytes, a power of two from 4096. `*fd` becomes a descriptor
/// to hand to the other side; both it and `*ring` are the caller's.
///
/// # Safety
/// `name` is null or a C string; `fd` and `ring` are null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_ring_create(
    name: *const c_char,
    capacity: u64,
    fd: *mut i32,
    ring: *mut *mut heliostat_ring,
) -> heliostat_code {
    guard(|| {
        if name.is_null() || fd.is_null() || ring.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: not null, and a C string by the caller's promise.
        let name = unsafe { CStr::from_ptr(name) };
        let (owned, memory) = RingMemory::create(name, capacity)?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe {
            give(fd, owned.into_raw())?;
            give(ring, Box::into_raw(Box::new(heliostat_ring(memory))))
        }
    })
}

/// Attaches the ring at `offset` of the descriptor's memory. The descriptor stays the caller's.
///
/// # Safety
/// `ring` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_ring_attach(
    fd: i32,
    offset: usize,
    ring: *mut *mut heliostat_ring,
) -> heliostat_code {
    guard(|| {
        if ring.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        let memory = RingMemory::attach(fd, offset)?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { give(ring, Box::into_raw(Box::new(heliostat_ring(memory)))) }
    })
}

/// Gives the ring back; its ends go on without it. Null is ignored.
///
/// # Safety
/// `ring` is null or came from this library and is not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_ring_free(ring: *mut heliostat_ring) {
    // SAFETY: the caller's promise.
    unsafe { take_back(ring) }
}

/// Claims the producing end. `*producer` is the caller's.
///
/// # Safety
/// `ring` is null or live; `producer` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_producer_open(
    ring: *mut heliostat_ring,
    producer: *mut *mut heliostat_producer,
) -> heliostat_code {
    guard(|| {
        if producer.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promises; `producer` is not null.
        unsafe {
            let end = lend(ring)?.0.spsc_producer(Refresh::Lazy)?;
            give(producer, Box::into_raw(Box::new(heliostat_producer(end))))
        }
    })
}

/// Gives the producing end back. Null is ignored.
///
/// # Safety
/// `producer` is null or came from this library and is not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_producer_close(producer: *mut heliostat_producer) {
    // SAFETY: the caller's promise.
    unsafe { take_back(producer) }
}

/// Reserves `len` bytes and says where to write them. Reserving again before the commit gives the
/// same place, so a reservation is given up by forgetting it.
///
/// # Safety
/// `producer` is null or live; `bytes` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_reserve(
    producer: *mut heliostat_producer,
    len: usize,
    bytes: *mut *mut u8,
) -> heliostat_code {
    // SAFETY: the caller's promises, handed on.
    guard(|| unsafe { give(bytes, lend(producer)?.0.reserve(len)?.as_ptr()) })
}

/// Publishes the `len` bytes that were reserved and written, and wakes a consumer that sleeps.
///
/// # Safety
/// `producer` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_commit(
    producer: *mut heliostat_producer,
    len: usize,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise, handed on. Reserving again does not touch the bytes.
        unsafe { lend(producer)? }.0.reserve(len)?.commit();
        Ok(())
    })
}

/// Waits until `len` bytes fit; a negative timeout waits for ever.
///
/// # Safety
/// `producer` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_wait_space(
    producer: *mut heliostat_producer,
    len: usize,
    timeout_ms: i64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise, handed on.
        let producer = unsafe { lend(producer)? };
        Ok(producer.0.wait_space(len, &patience(timeout_ms), &Immortal)?)
    })
}

/// Claims the consuming end. `*consumer` is the caller's.
///
/// # Safety
/// `ring` is null or live; `consumer` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_consumer_open(
    ring: *mut heliostat_ring,
    consumer: *mut *mut heliostat_consumer,
) -> heliostat_code {
    guard(|| {
        if consumer.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promises; `consumer` is not null.
        unsafe {
            let end = lend(ring)?.0.spsc_consumer(Refresh::Lazy)?;
            give(consumer, Box::into_raw(Box::new(heliostat_consumer(end))))
        }
    })
}

/// Gives the consuming end back. Null is ignored.
///
/// # Safety
/// `consumer` is null or came from this library and is not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_consumer_close(consumer: *mut heliostat_consumer) {
    // SAFETY: the caller's promise.
    unsafe { take_back(consumer) }
}

/// Says where the oldest element is and how long. It stays there until `heliostat_release`; the
/// producer can still write its bytes: copy first, then check.
///
/// # Safety
/// `consumer` is null or live; `bytes` and `len` are null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_take(
    consumer: *mut heliostat_consumer,
    bytes: *mut *const u8,
    len: *mut usize,
) -> heliostat_code {
    guard(|| {
        if bytes.is_null() || len.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promises; the outputs are not null.
        unsafe {
            let element = lend(consumer)?.0.take()?;
            give(bytes, element.as_ptr())?;
            give(len, element.len())?;
            // Not released here: the next take finds the same element.
            std::mem::forget(element);
        }
        Ok(())
    })
}

/// Releases the oldest element, which `heliostat_take` has shown.
///
/// # Safety
/// `consumer` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_release(consumer: *mut heliostat_consumer) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise, handed on.
        unsafe { lend(consumer)? }.0.take()?.release();
        Ok(())
    })
}

/// Waits until there is an element; a negative timeout waits for ever.
///
/// # Safety
/// `consumer` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_wait(
    consumer: *mut heliostat_consumer,
    timeout_ms: i64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise, handed on.
        let consumer = unsafe { lend(consumer)? };
        Ok(consumer.0.wait(&patience(timeout_ms), &Immortal)?)
    })
}
