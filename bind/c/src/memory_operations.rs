//! Memory regions over C: operations that are submitted now and complete later.
//!
//! What is written is copied when it is submitted, what is read when its completion is taken, so that no
//! other thread ever touches the program's memory.

use std::collections::HashMap;
use std::ffi::c_void;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};

use heliostat_stub_memory::{Completed, Operations, Submission, Work};

use crate::border::{fail, give, hand_out, limit, show, take_back, ProcessOwned};
use crate::code::{guard, heliostat_code, *};
use crate::memory::{heliostat_memory, heliostat_memory_region, told};

/// What an operation on a memory region does.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(non_camel_case_types)] // the name is the C name
pub enum heliostat_memory_kind {
    /// `bytes` bytes from `offset` on into `memory`, where they lie once the completion is taken.
    HELIOSTAT_MEMORY_KIND_READ = 1,
    /// `bytes` bytes of `memory` to `offset` on; copied by the call that submits.
    HELIOSTAT_MEMORY_KIND_WRITE = 2,
    /// `bytes` bytes from `offset` on become `argument`, a byte.
    HELIOSTAT_MEMORY_KIND_SET = 3,
    /// `bytes` bytes from `offset` on to `argument` on in `into`.
    HELIOSTAT_MEMORY_KIND_COPY = 4,
    /// Adds `argument` to the word at `offset`.
    HELIOSTAT_MEMORY_KIND_FETCH_ADD = 5,
    /// Stores `argument` in the word at `offset` if it is `expected`.
    HELIOSTAT_MEMORY_KIND_COMPARE_SWAP = 6,
    /// Stores `argument` in the word at `offset`.
    HELIOSTAT_MEMORY_KIND_SWAP = 7,
}
use heliostat_memory_kind::*;

/// The operation is begun before all others that are not urgent and have not begun.
pub const HELIOSTAT_MEMORY_URGENT: u32 = 1;

/// One operation on a region.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_memory_operation {
    /// With which region.
    pub region: *const heliostat_memory_region,
    /// A `heliostat_memory_kind`.
    pub kind: i32,
    /// 0 or `HELIOSTAT_MEMORY_URGENT`.
    pub flags: u32,
    /// Where in the region.
    pub offset: u64,
    /// The program's bytes, of a read or write.
    pub memory: *mut c_void,
    /// How many bytes, of all but words.
    pub bytes: u64,
    /// What the kind says; else 0.
    pub argument: u64,
    /// Of a compare-and-swap; else 0.
    pub expected: u64,
    /// Where a copy goes; else null.
    pub into: *const heliostat_memory_region,
}

/// How an operation ended.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_memory_completion {
    /// Its number.
    pub number: u64,
    /// Bytes that were moved, or what the word was; 0 where it failed.
    pub result: u64,
    /// How it ended, as the call of the same name; `HELIOSTAT_CANCELLED`.
    pub code: heliostat_code,
    /// Zero.
    pub reserved: u32,
}

/// Operations on their way. Threads may share it, but for its end.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_memory_operations(ProcessOwned<Pending>);

struct Pending {
    operations: Operations,
    /// Where the bytes of reads go, by number.
    reads: Mutex<HashMap<u64, Target>>,
}

/// Memory of the program, which it has promised to keep until the completion is taken.
struct Target(*mut u8);

// SAFETY: an address; who writes there has the caller's promise that nobody else does.
unsafe impl Send for Target {}

/// Makes a place for operations that complete later, `limit` at most that are on their way or were not
/// taken. `*operations` is the caller's.
///
/// # Safety
/// `memory` is null or live, `operations` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_operations_open(
    memory: *const heliostat_memory,
    limit: usize,
    operations: *mut *mut heliostat_memory_operations,
) -> heliostat_code {
    guard(|| {
        if operations.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promise.
        let made = unsafe { show(memory)? }.0.get()?.operations(limit);
        let pending = Pending { operations: made, reads: Mutex::default() };
        let handle = heliostat_memory_operations(ProcessOwned::new(pending));
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(operations, handle) }
    })
}

/// Gives up what is on its way and ends it. The program's memory is not touched any more. Null is
/// ignored.
///
/// # Safety
/// `operations` is null or live, and not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_operations_close(
    operations: *mut heliostat_memory_operations,
) {
    // SAFETY: the caller's promise.
    unsafe { take_back(operations) }
}

/// Submits `count` operations, all or none. `*number` becomes the number of the first; the others follow
/// it, one by one. On the direct path they are done when this returns. `HELIOSTAT_FULL`: take completions
/// first. `HELIOSTAT_INVALID`: one is none. What else may be wrong the completions say.
///
/// # Safety
/// `operations` is null or live; `all` is null or valid for `count`, the regions in it live, and the
/// memory of each valid for its bytes: of reads until the completion is taken, and nobody else's.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_submit(
    operations: *const heliostat_memory_operations,
    all: *const heliostat_memory_operation,
    count: usize,
    number: *mut u64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let pending = unsafe { show(operations)? }.0.get()?;
        if all.is_null() || number.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        let mut submissions = Vec::with_capacity(count);
        let mut targets = Vec::with_capacity(count);
        for index in 0..count {
            // SAFETY: not null (checked), one of `count` by the caller's promise, as are its parts.
            let asked = unsafe { &*all.add(index) };
            // SAFETY: the caller's promise.
            submissions.push(unsafe { asked.submission()? });
            let is_read = asked.kind == HELIOSTAT_MEMORY_KIND_READ as i32;
            targets.push(is_read.then_some(Target(asked.memory.cast())));
        }
        // Held, so that nobody takes a completion whose target is not known yet.
        let mut reads = pending.reads.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers = pending.operations.submit_all(submissions);
        let numbers = numbers.map_err(|refused| told(refused.error))?;
        let of_reads = numbers.iter().zip(targets);
        reads.extend(of_reads.filter_map(|(number, target)| Some((*number, target?))));
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { give(number, numbers.first().copied().unwrap_or_default()) }
    })
}

/// Takes a completion, waiting for one: 0 looks only, a negative timeout waits for ever. What was read
/// lies in its memory now. `HELIOSTAT_TIMED_OUT`; `HELIOSTAT_EMPTY` when nothing is on its way.
///
/// # Safety
/// `operations` is null or live, `completion` null or valid for writing; the memory of reads is as it was
/// promised.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_wait(
    operations: *const heliostat_memory_operations,
    timeout_ms: i64,
    completion: *mut heliostat_memory_completion,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let pending = unsafe { show(operations)? }.0.get()?;
        if completion.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        let completed = pending.operations.wait(limit(timeout_ms)).map_err(told)?;
        // SAFETY: the caller's promise, of this read's memory among all.
        let value = unsafe { pending.complete(completed) };
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { give(completion, value) }
    })
}

/// Gives an operation up. It completes in any case: as `HELIOSTAT_CANCELLED`, perhaps done in part, or as
/// if nobody had asked. `HELIOSTAT_NOT_FOUND`: it is not on its way.
///
/// # Safety
/// `operations` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_cancel(
    operations: *const heliostat_memory_operations,
    number: u64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        match unsafe { show(operations)? }.0.get()?.operations.cancel(number) {
            true => Ok(()),
            false => Err(fail(HELIOSTAT_NOT_FOUND, "no operation of this number is on its way")),
        }
    })
}

/// A descriptor that is readable, for poll(2) and epoll(7), while there is a completion to take. It is
/// closed with `operations`.
///
/// # Safety
/// `operations` is null or live, `descriptor` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_descriptor(
    operations: *const heliostat_memory_operations,
    descriptor: *mut i32,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let pending = unsafe { show(operations)? }.0.get()?;
        let found = pending.operations.descriptor().map_err(told)?.as_raw_fd();
        // SAFETY: null, or valid by the caller's promise.
        unsafe { give(descriptor, found) }
    })
}

impl Pending {
    /// Copies what was read to where the program wants it.
    ///
    /// # Safety
    /// That memory is valid for writing as many bytes as were asked for, and nobody else's.
    unsafe fn complete(&self, completed: Completed) -> heliostat_memory_completion {
        let Completed { number, result, bytes } = completed;
        let target = self.reads.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        if let Some(Target(memory)) = target.filter(|_| result.is_ok()) {
            // SAFETY: the caller's promise; `bytes` are as many as were asked for, and our own.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory, bytes.len()) };
        }
        let code = result.as_ref().map_or_else(|error| told(*error), |_| HELIOSTAT_OK);
        let result = result.unwrap_or_default();
        heliostat_memory_completion { number, result, code, reserved: 0 }
    }
}

impl heliostat_memory_operation {
    /// # Safety
    /// Its regions are null or live, and its memory is null or valid for its bytes.
    unsafe fn submission(&self) -> Result<Submission, heliostat_code> {
        // SAFETY: the caller's promise.
        let region = unsafe { show(self.region)? }.0.get()?;
        // SAFETY: the caller's promise.
        let submission = Submission::new(region, unsafe { self.work()? });
        match self.flags {
            0 => Ok(submission),
            HELIOSTAT_MEMORY_URGENT => Ok(submission.urgent()),
            _ => Err(fail(HELIOSTAT_INVALID, "an operation has a flag that is none")),
        }
    }

    /// # Safety
    /// As `submission`.
    unsafe fn work(&self) -> Result<Work, heliostat_code> {
        let Self { offset, bytes, argument, expected, .. } = *self;
        let is = |kind: heliostat_memory_kind| self.kind == kind as i32;
        if is(HELIOSTAT_MEMORY_KIND_READ) || is(HELIOSTAT_MEMORY_KIND_WRITE) {
            // SAFETY: the caller's promise.
            return unsafe { self.transfer() };
        }
        Ok(match self.kind {
            kind if kind == HELIOSTAT_MEMORY_KIND_SET as i32 => {
                Work::Set { offset, bytes, value: argument as u8 }
            }
            kind if kind == HELIOSTAT_MEMORY_KIND_COPY as i32 => {
                // SAFETY: the caller's promise.
                let into = Arc::clone(unsafe { show(self.into)? }.0.get()?);
                Work::Copy { offset, into, at: argument, bytes }
            }
            kind if kind == HELIOSTAT_MEMORY_KIND_FETCH_ADD as i32 => {
                Work::FetchAdd { offset, more: argument }
            }
            kind if kind == HELIOSTAT_MEMORY_KIND_COMPARE_SWAP as i32 => {
                Work::CompareSwap { offset, expected, new: argument }
            }
            kind if kind == HELIOSTAT_MEMORY_KIND_SWAP as i32 => {
                Work::Swap { offset, new: argument }
            }
            _ => return Err(fail(HELIOSTAT_INVALID, "there is no such kind of operation")),
        })
    }

    /// # Safety
    /// As `submission`.
    unsafe fn transfer(&self) -> Result<Work, heliostat_code> {
        let offset = self.offset;
        let too_many = |_| fail(HELIOSTAT_INVALID, "more bytes than a program can have");
        let bytes = isize::try_from(self.bytes).map_err(too_many)?.unsigned_abs();
        if self.memory.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        if self.kind == HELIOSTAT_MEMORY_KIND_READ as i32 {
            return Ok(Work::Read { offset, into: vec![0; bytes] });
        }
        // SAFETY: not null (checked), valid for so many bytes by the caller's promise.
        let from = unsafe { std::slice::from_raw_parts(self.memory.cast::<u8>(), bytes) };
        Ok(Work::Write { offset, from: from.to_vec() })
    }
}
