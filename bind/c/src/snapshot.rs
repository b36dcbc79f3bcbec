//! Snapshots over C, the consumer's side: attachments to regions, and versions as plain memory.

use std::ffi::{c_char, c_void};
use std::os::fd::AsRawFd;
use std::time::Duration;

use heliostat_abi::snapshot::region::OWN_USER;
use heliostat_base::fd::{duplicate, OwnedFd};
use heliostat_stub_snapshot::{attach_of, Attachment, View};

use crate::border::{fail, give, hand_out, lend, limit, show, take_back, text, ProcessOwned};
use crate::code::{guard, heliostat_code, *};
use crate::region::{admitted, configure_as_usual, heliostat_region};

/// Attach to a region of one's own user.
pub const HELIOSTAT_OWN_USER: u32 = 0xffff_ffff;
const _: () = assert!(HELIOSTAT_OWN_USER == OWN_USER);

/// A region of somebody's, mapped for reading. Any thread, several at a time.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_attachment(ProcessOwned<Attachment>);

/// A pinned version in one piece of memory. One thread at a time moves it on; its bytes may be read
/// by any.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_snapshot(ProcessOwned<View>);

/// What an attachment knows of its region.
#[repr(C)]
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_region_facts {
    /// Bytes of the region.
    pub bytes: u64,
    /// Number of the newest version, 0 before the first.
    pub latest: u64,
    /// Counts the producers of its name; 1 for the first.
    pub generation: u64,
    /// 1 once the producer has ended it in good order.
    pub is_ended: u32,
}

/// Attaches to the region that user `owner` (`HELIOSTAT_OWN_USER`: one's own) has named.
/// `*attachment` is the caller's. Blocks for half a second at most.
///
/// # Safety
/// `name` is null or a C string; `attachment` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_attach(
    name: *const c_char,
    owner: u32,
    attachment: *mut *mut heliostat_attachment,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { text(name)? }.ok_or(HELIOSTAT_NULL)?;
        if attachment.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        configure_as_usual();
        let region = attach_of(name, owner).map_err(|error| fail((&error).into(), error))?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(attachment, heliostat_attachment(ProcessOwned::new(region))) }
    })
}

/// Attaches to a region of this very process, named or not: for analysis on another thread.
///
/// # Safety
/// `region` is null or live; `attachment` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_attach_own(
    region: *mut heliostat_region,
    attachment: *mut *mut heliostat_attachment,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let region = unsafe { lend(region)? }.0.get_mut()?.region();
        if attachment.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        let (table, pool) = region.descriptors();
        let copies = table.duplicate().and_then(|table| Ok((table, pool.duplicate()?)));
        let (table, pool) = copies.map_err(|error| fail(HELIOSTAT_SYSTEM, error))?;
        // With a bell, so that the place of an attachment that was left can be given again.
        let announced =
            Attachment::with_bell(&table, pool, |pins, bell| admitted(region, pins, bell));
        let made = announced.map_err(|error| fail(HELIOSTAT_SYSTEM, error))??;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(attachment, heliostat_attachment(ProcessOwned::new(made))) }
    })
}

/// Hands two descriptors of a consumer, its page of pins and an end of its bell, to the producer, and
/// answers 0 once that has let it in (`heliostat_region_admit`). They are closed afterwards.
#[allow(non_camel_case_types)] // the name is the C name
pub type heliostat_announce =
    Option<unsafe extern "C" fn(context: *mut c_void, pins: i32, bell: i32) -> i32>;

/// Attaches by the descriptors of `heliostat_region_descriptors`, which the producer has handed over
/// by some way of its own; without name and control plane. They stay the caller's. Before anything
/// is pinned `announce` is called, with `context`: a number but 0 is `HELIOSTAT_PEER_GONE`.
///
/// # Safety
/// `announce` is null or may be called with `context`; `attachment` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_attach_by(
    table: i32,
    pool: i32,
    announce: heliostat_announce,
    context: *mut c_void,
    attachment: *mut *mut heliostat_attachment,
) -> heliostat_code {
    guard(|| {
        let announce = announce.ok_or(HELIOSTAT_NULL)?;
        if attachment.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        let copies = duplicate(table).and_then(|table| Ok((table, duplicate(pool)?)));
        let (table, pool) = copies.map_err(|error| fail(HELIOSTAT_SYSTEM, error))?;
        let tell = |pins: &OwnedFd, bell: &OwnedFd| {
            // SAFETY: the caller's promise.
            match unsafe { announce(context, pins.as_raw_fd(), bell.as_raw_fd()) } {
                0 => Ok(()),
                said => Err(fail(HELIOSTAT_PEER_GONE, format!("the announcement answered {said}"))),
            }
        };
        let made = Attachment::with_bell(&table, pool, tell);
        let made = made.map_err(|error| fail(HELIOSTAT_SYSTEM, error))??;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(attachment, heliostat_attachment(ProcessOwned::new(made))) }
    })
}

/// What is known of the region now. Does not block.
///
/// # Safety
/// `attachment` is null or live; `facts` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_attachment_facts(
    attachment: *const heliostat_attachment,
    facts: *mut heliostat_region_facts,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let region = unsafe { show(attachment)? }.0.get()?;
        let value = heliostat_region_facts {
            bytes: region.shape().length,
            latest: region.latest_number(),
            generation: region.generation(),
            is_ended: u32::from(region.is_closed()),
        };
        // SAFETY: the caller's promise.
        unsafe { give(facts, value) }
    })
}

/// Copies the region's description, cut to `room` - 1 bytes and ended by a zero. `*len` becomes its
/// whole length, unless `len` is null. Foreign words: they are the producer's.
///
/// # Safety
/// `attachment` is null or live; `into` is null or valid for `room` bytes; `len` is null or valid
/// for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_attachment_description(
    attachment: *const heliostat_attachment,
    into: *mut c_char,
    room: usize,
    len: *mut usize,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let words = unsafe { show(attachment)? }.0.get()?.description();
        // SAFETY: the caller's promise; a null is an output not wanted.
        let _ = unsafe { give(len, words.len()) };
        if room == 0 {
            return Ok(());
        }
        if into.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        let count = words.len().min(room - 1);
        // SAFETY: `count` bytes and a zero fit into `room`, which is valid by the promise.
        unsafe {
            std::ptr::copy_nonoverlapping(words.as_ptr(), into.cast(), count);
            into.add(count).write(0);
        }
        Ok(())
    })
}

/// Sleeps until there is a version newer than `number`; a negative timeout waits for ever, a signal
/// ends it as the timeout does. `HELIOSTAT_ENDED`: the producer has ended, or died 0.5 s ago.
///
/// # Safety
/// `attachment` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_attachment_wait(
    attachment: *const heliostat_attachment,
    number: u64,
    timeout_ms: i64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let region = unsafe { show(attachment)? }.0.get()?;
        newer(region, number, limit(timeout_ms))
    })
}

fn newer(region: &Attachment, number: u64, limit: Option<Duration>) -> Result<(), heliostat_code> {
    if region.wait(number, limit) {
        return Ok(());
    }
    match region.is_closed() || region.is_deserted() {
        // What it published last came before its end could be seen.
        true if region.latest_number() > number => Ok(()),
        true => Err(fail(HELIOSTAT_ENDED, "the producer has ended the region, or has died")),
        false => Err(fail(HELIOSTAT_TIMED_OUT, "no newer version within the time")),
    }
}

/// Leaves the region. Snapshots that were taken stay good until they are released. Null is ignored.
///
/// # Safety
/// `attachment` is null or came from this library and is not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_detach(attachment: *mut heliostat_attachment) {
    // SAFETY: the caller's promise.
    unsafe { take_back(attachment) }
}

/// Pins version `number`, or the newest for 0, and maps it in one piece. `*snapshot` is the
/// caller's. `HELIOSTAT_NOT_FOUND`: no such version, or no longer. `HELIOSTAT_FULL`: eight versions
/// are pinned by this attachment already.
///
/// # Safety
/// `attachment` is null or live; `snapshot` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_snapshot_take(
    attachment: *const heliostat_attachment,
    number: u64,
    snapshot: *mut *mut heliostat_snapshot,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let region = unsafe { show(attachment)? }.0.get()?;
        if snapshot.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        let view = pinned(region, number).and_then(View::new);
        let view = view.map_err(|error| fail((&error).into(), error))?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(snapshot, heliostat_snapshot(ProcessOwned::new(view))) }
    })
}

/// Lets a snapshot show version `number`, or the newest for 0, of the same attachment instead: only
/// what differs is mapped. Pointers into the old version show other bytes from then on. On failure
/// it shows what it showed, but for `HELIOSTAT_SYSTEM`, after which it is to be released.
///
/// # Safety
/// `attachment` and `snapshot` are null or live, and the snapshot is of that attachment.
#[no_mangle]
pub unsafe extern "C" fn heliostat_snapshot_move(
    attachment: *const heliostat_attachment,
    number: u64,
    snapshot: *mut heliostat_snapshot,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promises.
        let (region, view) = unsafe { (show(attachment)?.0.get()?, lend(snapshot)?.0.get_mut()?) };
        let shape = |view: &View| view.version().map(|version| version.len());
        if shape(view) != Some(region.shape().length as usize) {
            return Err(fail(HELIOSTAT_INVALID, "the snapshot is of another attachment"));
        }
        let moved = pinned(region, number).and_then(|version| view.advance(version));
        moved.map(drop).map_err(|error| fail((&error).into(), error))
    })
}

fn pinned(
    region: &Attachment,
    number: u64,
) -> Result<heliostat_stub_snapshot::Version, heliostat_stub_snapshot::AttachError> {
    match number {
        0 => region.latest(),
        number => region.numbered(number),
    }
}

/// Where the version's bytes are, how many, and which version it is; each output may be null. The
/// bytes are read-only, and good until the snapshot is moved on or released.
///
/// # Safety
/// `snapshot` is null or live; the outputs are null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_snapshot_bytes(
    snapshot: *const heliostat_snapshot,
    bytes: *mut *const u8,
    len: *mut usize,
    number: *mut u64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let view = unsafe { show(snapshot)? }.0.get()?;
        let version = view.version().ok_or(HELIOSTAT_NOT_FOUND)?;
        // SAFETY: null or valid, by the caller's promise; a null is an output not wanted.
        unsafe {
            let _ = give(bytes, view.as_ptr());
            let _ = give(len, version.len());
            let _ = give(number, version.number());
        }
        Ok(())
    })
}

/// Lets the version go; its bytes may not be read any more. Null is ignored.
///
/// # Safety
/// `snapshot` is null or came from this library and is not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_snapshot_release(snapshot: *mut heliostat_snapshot) {
    // SAFETY: the caller's promise.
    unsafe { take_back(snapshot) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heliostat_backend_pages::live::LiveMemory;
    use heliostat_stub_snapshot::{Region, Settings};

    #[test]
    fn who_waits_for_a_producer_that_died_is_told() {
        let bytes = [0u8; 64];
        // SAFETY: the bytes outlive the region.
        let memory = unsafe { LiveMemory::new(bytes.as_ptr() as usize, bytes.len()) };
        let region = Region::new(memory, Settings::default()).unwrap();
        let (table, pool) = region.descriptors();
        // The producer's end of the bell is open nowhere, as after its death.
        let nobody = |_: &_, _: &_| Ok::<(), ()>(());
        let made = Attachment::with_bell(table, pool.duplicate().unwrap(), nobody);
        let attachment = heliostat_attachment(ProcessOwned::new(made.unwrap().unwrap()));
        // SAFETY: it is live.
        let answer = unsafe { heliostat_attachment_wait(&attachment, 0, -1) };
        assert_eq!(answer, HELIOSTAT_ENDED);
    }
}
