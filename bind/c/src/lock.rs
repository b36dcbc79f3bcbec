//! Locks, semaphores and barriers over C: names that programs agree by, and what is held of them.

use std::ffi::c_char;
use std::time::Duration;

use heliostat_stub_lock::{
    Barrier, Held, Lock, LockError, Locks, ReaderWriterLock, Semaphore, OWN_USER,
};

use crate::border::{fail, give, hand_out, limit, show, take_back, text, ProcessOwned};
use crate::code::{guard, heliostat_code, *};
use crate::region::configure_as_usual;

/// A kind: one holder at a time.
pub const HELIOSTAT_LOCK: u32 = 1;
/// A kind: one writer, or any number of readers.
pub const HELIOSTAT_LOCK_READER_WRITER: u32 = 2;
/// A kind: `count` permits, 1 to 2^31.
pub const HELIOSTAT_LOCK_SEMAPHORE: u32 = 3;
/// A kind: `count` participants, 1 to 65,536.
pub const HELIOSTAT_LOCK_BARRIER: u32 = 4;
/// What is claimed of a lock, and of a reader-writer lock by a writer. Of a semaphore a claim is the
/// number of permits.
pub const HELIOSTAT_LOCK_WRITE: u32 = 0;
/// What a reader claims of a reader-writer lock.
pub const HELIOSTAT_LOCK_READ: u32 = 0xffff_ffff;
/// The user whose names are meant: the caller's own.
pub const HELIOSTAT_LOCK_OWN_USER: u32 = 0xffff_ffff;

const _: () = assert!(HELIOSTAT_LOCK_OWN_USER == OWN_USER);

/// This process's access to locks. Threads may share it.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_locks(ProcessOwned<Locks>);

/// A lock, semaphore or barrier that is open. Threads may share it, but for its end.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_lock(ProcessOwned<Opened>);

/// A lock that is held, or permits of a semaphore.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_lock_held(ProcessOwned<Held>);

enum Opened {
    Lock(Lock),
    ReaderWriter(ReaderWriterLock),
    Semaphore(Semaphore),
    Barrier(Barrier),
}

/// Opens it, where `heliostat_configure` has said that the control plane is. `*locks` is the caller's.
/// Blocks for half a second at most. `HELIOSTAT_NO_CONTROL` when none answers.
///
/// # Safety
/// `locks` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_locks_open(locks: *mut *mut heliostat_locks) -> heliostat_code {
    guard(|| {
        if locks.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        configure_as_usual();
        let opened = Locks::open().map_err(told)?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(locks, heliostat_locks(ProcessOwned::new(opened))) }
    })
}

/// Ends it; what was opened by it stays. Null is ignored.
///
/// # Safety
/// `locks` is null or live, and not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_locks_close(locks: *mut heliostat_locks) {
    // SAFETY: the caller's promise.
    unsafe { take_back(locks) }
}

/// The same for names on another node, by its number: what is opened by it is there, and the control
/// plane of that node decides. `*there` is the caller's. The node's own number is as if it were not said.
/// Where that node is not joined, or is lost, and nothing was done, calls answer
/// `HELIOSTAT_NO_CONTROL`; `HELIOSTAT_PEER_GONE` where it may have been done. What was held there is held
/// no more when the node is lost, and its names have to be opened anew.
///
/// # Safety
/// `locks` is null or live, `there` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_locks_on(
    locks: *const heliostat_locks,
    node: u64,
    there: *mut *mut heliostat_locks,
) -> heliostat_code {
    guard(|| {
        if there.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promise.
        let placed = unsafe { show(locks)?.0.get()? }.on(node);
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(there, heliostat_locks(ProcessOwned::new(placed))) }
    })
}

/// Opens what has the name among those of `user`, and makes it where nothing has. `count` is that of a
/// semaphore or barrier, else 0; `is_silent` not 0 keeps deaths of holders from being told. All who
/// open a name say the same: else `HELIOSTAT_TAKEN`. `*lock` is the caller's.
///
/// # Safety
/// `locks` is null or live, `name` null or a C string, `lock` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_lock_open(
    locks: *const heliostat_locks,
    user: u32,
    name: *const c_char,
    kind: u32,
    count: u32,
    is_silent: i32,
    lock: *mut *mut heliostat_lock,
) -> heliostat_code {
    guard(|| {
        if lock.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promise.
        let (locks, name) = unsafe { (show(locks)?.0.get()?, text(name)?) };
        let named = locks.named(name.ok_or(HELIOSTAT_NULL)?).of_user(user);
        let named = if is_silent != 0 { named.silent() } else { named };
        let opened = match kind {
            HELIOSTAT_LOCK if count == 0 => named.lock().map(Opened::Lock),
            HELIOSTAT_LOCK_READER_WRITER if count == 0 => {
                named.reader_writer().map(Opened::ReaderWriter)
            }
            HELIOSTAT_LOCK_SEMAPHORE => named.semaphore(count).map(Opened::Semaphore),
            HELIOSTAT_LOCK_BARRIER => named.barrier(count).map(Opened::Barrier),
            _ => return Err(fail(HELIOSTAT_INVALID, "there is no such kind with such a count")),
        };
        let opened = ProcessOwned::new(opened.map_err(told)?);
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(lock, heliostat_lock(opened)) }
    })
}

/// Gives it back. What is held of it stays held until it is released. Null is ignored.
///
/// # Safety
/// `lock` is null or live, and not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_lock_close(lock: *mut heliostat_lock) {
    // SAFETY: the caller's promise.
    unsafe { take_back(lock) }
}

/// Acquires what is claimed. Blocks for `timeout_ms` at most, for ever if it is negative; with 0 it
/// does not wait, and does not get past who waits. `*held` is the caller's. `HELIOSTAT_TIMED_OUT` when
/// its turn did not come, `HELIOSTAT_PEER_GONE` when the session with the control plane has ended.
///
/// # Safety
/// `lock` is null or live, `held` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_lock_acquire(
    lock: *const heliostat_lock,
    claim: u32,
    timeout_ms: i64,
    held: *mut *mut heliostat_lock_held,
) -> heliostat_code {
    guard(|| {
        if held.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promise.
        let lock = unsafe { show(lock)?.0.get()? };
        let acquired = acquire(lock, claim, limit(timeout_ms))?;
        let acquired =
            acquired.ok_or_else(|| fail(HELIOSTAT_TIMED_OUT, "its turn did not come"))?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(held, heliostat_lock_held(ProcessOwned::new(acquired))) }
    })
}

fn acquire(
    lock: &Opened,
    claim: u32,
    limit: Option<Duration>,
) -> Result<Option<Held>, heliostat_code> {
    let tries = limit == Some(Duration::ZERO);
    let acquired = match (lock, claim, limit) {
        (Opened::Lock(it), HELIOSTAT_LOCK_WRITE, _) if tries => it.try_acquire(),
        (Opened::Lock(it), HELIOSTAT_LOCK_WRITE, Some(limit)) => it.acquire_within(limit),
        (Opened::Lock(it), HELIOSTAT_LOCK_WRITE, None) => it.acquire().map(Some),
        (Opened::ReaderWriter(it), HELIOSTAT_LOCK_WRITE, _) if tries => it.try_write(),
        (Opened::ReaderWriter(it), HELIOSTAT_LOCK_WRITE, Some(limit)) => it.write_within(limit),
        (Opened::ReaderWriter(it), HELIOSTAT_LOCK_WRITE, None) => it.write().map(Some),
        (Opened::ReaderWriter(it), HELIOSTAT_LOCK_READ, _) if tries => it.try_read(),
        (Opened::ReaderWriter(it), HELIOSTAT_LOCK_READ, Some(limit)) => it.read_within(limit),
        (Opened::ReaderWriter(it), HELIOSTAT_LOCK_READ, None) => it.read().map(Some),
        (Opened::Semaphore(it), count, _) if tries => it.try_acquire(count),
        (Opened::Semaphore(it), count, Some(limit)) => it.acquire_within(count, limit),
        (Opened::Semaphore(it), count, None) => it.acquire(count).map(Some),
        _ => return Err(fail(HELIOSTAT_INVALID, "that is not claimed of this kind")),
    };
    acquired.map_err(told)
}

/// The token, which is larger than that of every acquisition before, and whether a holder has died whose
/// work nobody has put right since. Either may be null.
///
/// # Safety
/// `held` is null or live; `token` and `has_owner_died` are null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_lock_token(
    held: *const heliostat_lock_held,
    token: *mut u64,
    has_owner_died: *mut i32,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let held = unsafe { show(held)?.0.get()? };
        if !token.is_null() {
            // SAFETY: not null (checked), valid by the caller's promise.
            unsafe { give(token, held.token())? };
        }
        if !has_owner_died.is_null() {
            // SAFETY: not null (checked), valid by the caller's promise.
            unsafe { give(has_owner_died, i32::from(held.has_owner_died()))? };
        }
        Ok(())
    })
}

/// Releases it, in any case. `HELIOSTAT_PEER_GONE` when it was lost before: another may hold it.
///
/// # Safety
/// `held` is null or live, and not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_lock_release(held: *mut heliostat_lock_held) -> heliostat_code {
    if held.is_null() {
        return HELIOSTAT_NULL;
    }
    guard(|| {
        // SAFETY: not null, ours, and the caller's last use.
        let held = unsafe { Box::from_raw(held) };
        held.0.into_inner()?.release().map_err(told)
    })
}

/// Arrives at a barrier and waits until all have, for `timeout_ms` at most, for ever if it is negative.
/// `*generation` is which time that was, `*index` how many had arrived before; either may be null.
/// `HELIOSTAT_TIMED_OUT` breaks the barrier for the others, who have `HELIOSTAT_BROKEN`.
///
/// # Safety
/// `barrier` is null or live; `generation` and `index` are null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_barrier_wait(
    barrier: *const heliostat_lock,
    timeout_ms: i64,
    generation: *mut u64,
    index: *mut u32,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let barrier = unsafe { barrier_of(barrier)? };
        let passed = match limit(timeout_ms) {
            Some(limit) => barrier.wait_within(limit),
            None => barrier.wait().map(Some),
        };
        let passed = passed.map_err(told)?;
        let passed = passed.ok_or_else(|| fail(HELIOSTAT_TIMED_OUT, "not all have arrived"))?;
        if !generation.is_null() {
            // SAFETY: not null (checked), valid by the caller's promise.
            unsafe { give(generation, passed.generation)? };
        }
        if !index.is_null() {
            // SAFETY: not null (checked), valid by the caller's promise.
            unsafe { give(index, passed.index)? };
        }
        Ok(())
    })
}

/// Makes a barrier whole. Who waits at it has `HELIOSTAT_BROKEN`.
///
/// # Safety
/// `barrier` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_barrier_reset(barrier: *const heliostat_lock) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { barrier_of(barrier)? }.reset().map_err(told)
    })
}

/// # Safety
/// `barrier` is null or live.
unsafe fn barrier_of<'a>(barrier: *const heliostat_lock) -> Result<&'a Barrier, heliostat_code> {
    // SAFETY: the caller's promise.
    match unsafe { show(barrier)?.0.get()? } {
        Opened::Barrier(barrier) => Ok(barrier),
        _ => Err(fail(HELIOSTAT_INVALID, "it is no barrier")),
    }
}

/// The code for an error, whose words are kept.
fn told(error: LockError) -> heliostat_code {
    fail((&error).into(), error)
}
