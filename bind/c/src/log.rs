//! Logs over C: entries that are durable when it is said so, in a file or in an area of a store.

use std::ffi::c_char;
use std::os::fd::AsRawFd;

use heliostat_stub_log::{Event, Kind, Log, LogError, OpenError, Place, Position};

use crate::border::{fail, give, give_if_wanted, hand_out, show, text, ProcessOwned};
use crate::code::{guard, heliostat_code, *};
use crate::region::configure_as_usual;

/// An entry's place in its log: bytes and entries before it, since the log was made.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_position {
    /// Bytes before it.
    pub at: u64,
    /// Entries before it; a log counts some that nobody reads.
    pub sequence: u64,
}

impl From<Position> for heliostat_position {
    fn from(position: Position) -> Self {
        Self { at: position.at, sequence: position.sequence }
    }
}

impl From<heliostat_position> for Position {
    fn from(position: heliostat_position) -> Self {
        Self { at: position.at, sequence: position.sequence }
    }
}

/// A log that is open to be written. Threads may share it, but for its end.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_log(pub(crate) ProcessOwned<Opened>);

/// A log, and its descriptor once somebody has asked for that.
pub(crate) struct Opened {
    pub(crate) log: Log,
    event: std::sync::OnceLock<Event>,
}

/// Makes a log of so many bytes where there is nothing yet, and opens it. `place` is a file's path, or
/// `/store/NAME` for an area. Of a file every byte is written once. `*log` is the caller's.
///
/// `HELIOSTAT_TAKEN` where there is something, `HELIOSTAT_WRONG_DEVICE` for fewer than 40,960 bytes,
/// `HELIOSTAT_DENIED`, `HELIOSTAT_NOT_FOUND` for a folder that is none.
///
/// # Safety
/// `place` is null or a C string, `log` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_log_create(
    place: *const c_char,
    bytes: u64,
    log: *mut *mut heliostat_log,
) -> heliostat_code {
    // SAFETY: the caller's promise.
    unsafe { open_by(place, log, |place| Log::create(place, bytes)) }
}

/// Opens a log after whatever happened. One process at a time has it open.
///
/// `HELIOSTAT_NOT_FOUND`; `HELIOSTAT_IN_USE` while another process has it; `HELIOSTAT_FOREIGN` where
/// there is no log, `HELIOSTAT_UNSUPPORTED` of a later format, `HELIOSTAT_WRONG_DEVICE` where it was made
/// in a file of another size; `HELIOSTAT_CORRUPT` where what was acknowledged is damaged, and the last
/// message says at which position; `HELIOSTAT_DENIED`, `HELIOSTAT_DEVICE`.
///
/// # Safety
/// As `heliostat_log_create`.
#[no_mangle]
pub unsafe extern "C" fn heliostat_log_open(
    place: *const c_char,
    log: *mut *mut heliostat_log,
) -> heliostat_code {
    // SAFETY: the caller's promise.
    unsafe { open_by(place, log, Log::open) }
}

/// Opens a log, or makes one of so many bytes where there is nothing. Answers as both.
///
/// # Safety
/// As `heliostat_log_create`.
#[no_mangle]
pub unsafe extern "C" fn heliostat_log_open_or_create(
    place: *const c_char,
    bytes: u64,
    log: *mut *mut heliostat_log,
) -> heliostat_code {
    // SAFETY: the caller's promise.
    unsafe { open_by(place, log, |place| Log::open_or_create(place, bytes)) }
}

/// Gives up the entries before a position, which an append or an entry has told: its own one is the
/// first that stays. Returns at once; after a crash some may be there again, unless
/// `heliostat_log_checkpoint` came between.
///
/// `HELIOSTAT_STALE` where it was trimmed before, `HELIOSTAT_INVALID` where it is no entry's or not
/// acknowledged.
///
/// # Safety
/// `log` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_log_trim(
    log: *const heliostat_log,
    position: heliostat_position,
) -> heliostat_code {
    // SAFETY: the caller's promise.
    guard(|| unsafe { of(log)? }.trim(position.into()).map_err(told))
}

/// Makes durable what was trimmed, and has the next opening begin here.
///
/// # Safety
/// `log` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_log_checkpoint(log: *const heliostat_log) -> heliostat_code {
    // SAFETY: the caller's promise.
    guard(|| unsafe { of(log)? }.checkpoint().map_err(told))
}

/// Where the first wanted entry begins, and where the next one that is acknowledged will. Null is
/// ignored.
///
/// # Safety
/// `log` is null or live, `begin` and `end` are null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_log_range(
    log: *const heliostat_log,
    begin: *mut heliostat_position,
    end: *mut heliostat_position,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let log = unsafe { of(log)? };
        // SAFETY: the caller's promise.
        unsafe {
            give_if_wanted(begin, log.begin().into())?;
            give_if_wanted(end, log.end().into())
        }
    })
}

/// Bytes of the longest payload, and bytes for all entries, each of which takes 32 more than its
/// payload and is rounded up to 8. Null is ignored.
///
/// # Safety
/// `log` is null or live, `payload_bytes_max` and `room_bytes` are null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_log_limits(
    log: *const heliostat_log,
    payload_bytes_max: *mut u64,
    room_bytes: *mut u64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let log = unsafe { of(log)? };
        // SAFETY: the caller's promise.
        unsafe {
            give_if_wanted(payload_bytes_max, log.longest())?;
            give_if_wanted(room_bytes, log.capacity())
        }
    })
}

/// A descriptor that becomes readable when entries were acknowledged, or the log has failed: for poll,
/// epoll and event loops. It is the log's, and there until the log is closed. Who was told drains it,
/// and then asks `heliostat_log_range`.
///
/// # Safety
/// `log` is null or live, `descriptor` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_log_descriptor(
    log: *const heliostat_log,
    descriptor: *mut i32,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let event = unsafe { show(log)? }.0.get()?.event()?;
        // SAFETY: the caller's promise.
        unsafe { give(descriptor, event.as_raw_fd()) }
    })
}

/// Has the descriptor not readable until there is something new.
///
/// # Safety
/// `log` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_log_drain(log: *const heliostat_log) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let event = unsafe { show(log)? }.0.get()?.event()?;
        event.drain().map(drop).map_err(|errno| fail(HELIOSTAT_SYSTEM, errno))
    })
}

/// Waits for what is on its way, writes a checkpoint, and ends the log, whatever this answers. Another
/// process can open it when its readers are closed as well. Null is ignored.
///
/// # Safety
/// `log` is null or live, and not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_log_close(log: *mut heliostat_log) -> heliostat_code {
    guard(|| {
        if log.is_null() {
            return Ok(());
        }
        // SAFETY: not null, ours, and the caller's last use.
        let whole = unsafe { Box::from_raw(log) };
        whole.0.into_inner()?.log.close().map_err(told)
    })
}

impl Opened {
    pub(crate) fn new(log: Log) -> Opened {
        Opened { log, event: std::sync::OnceLock::new() }
    }

    pub(crate) fn event(&self) -> Result<&Event, heliostat_code> {
        if self.event.get().is_none() {
            let event = self.log.event().map_err(told)?;
            // Where another thread was quicker, its descriptor counts.
            let _ = self.event.set(event);
        }
        self.event.get().ok_or(HELIOSTAT_SYSTEM)
    }
}

/// # Safety
/// `log` is null or live.
pub(crate) unsafe fn of<'a>(log: *const heliostat_log) -> Result<&'a Log, heliostat_code> {
    // SAFETY: the caller's promise.
    Ok(&unsafe { show(log)? }.0.get()?.log)
}

/// # Safety
/// `place` is null or a C string, `log` null or valid for writing.
unsafe fn open_by(
    place: *const c_char,
    log: *mut *mut heliostat_log,
    open: impl FnOnce(Place) -> Result<Log, OpenError>,
) -> heliostat_code {
    guard(|| {
        if log.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promise.
        let place = unsafe { place_of(place)? };
        let opened = open(place).map_err(|error| not_opened(&error))?;
        let made = heliostat_log(ProcessOwned::new(Opened::new(opened)));
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(log, made) }
    })
}

/// # Safety
/// `place` is null or a C string.
pub(crate) unsafe fn place_of(place: *const c_char) -> Result<Place, heliostat_code> {
    // SAFETY: the caller's promise.
    let place = unsafe { text(place)? }.ok_or(HELIOSTAT_NULL)?.into();
    if matches!(place, Place::Area(_)) {
        configure_as_usual();
    }
    Ok(place)
}

/// The code for an error, whose words are kept.
pub(crate) fn told(error: LogError) -> heliostat_code {
    fail(of_kind((&error).into()), error)
}

pub(crate) fn not_opened(error: &OpenError) -> heliostat_code {
    fail(of_kind(error.kind()), error)
}

fn of_kind(kind: Kind) -> heliostat_code {
    match kind {
        Kind::Closed => HELIOSTAT_ENDED,
        Kind::Full | Kind::Limit => HELIOSTAT_FULL,
        Kind::TooLong => HELIOSTAT_TOO_LARGE,
        Kind::Trimmed => HELIOSTAT_STALE,
        Kind::NoEntry => HELIOSTAT_INVALID,
        Kind::Damaged => HELIOSTAT_CORRUPT,
        Kind::Device => HELIOSTAT_DEVICE,
        Kind::InUse => HELIOSTAT_IN_USE,
        Kind::Denied => HELIOSTAT_DENIED,
        Kind::NotFound => HELIOSTAT_NOT_FOUND,
        Kind::Exists => HELIOSTAT_TAKEN,
        Kind::Foreign => HELIOSTAT_FOREIGN,
        Kind::Newer | Kind::IsQueue => HELIOSTAT_UNSUPPORTED,
        Kind::WrongDevice => HELIOSTAT_WRONG_DEVICE,
        Kind::NoName => HELIOSTAT_INVALID,
        Kind::NoControl => HELIOSTAT_NO_CONTROL,
        _ => HELIOSTAT_SYSTEM,
    }
}
