//! Reading logs over C: by who has one open, and by others beside its writer.

use std::ffi::{c_char, c_void};

use heliostat_stub_log::{Entry, LogError, LogReader, Reader};

use crate::border::{give_if_wanted, hand_out, lend, limit, show, take_back, ProcessOwned};
use crate::code::{guard, heliostat_code, *};
use crate::log::{heliostat_log, heliostat_position, not_opened, place_of, told};

/// Goes through the entries of a log. For one thread at a time.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_log_reader(ProcessOwned<Reading>);

struct Reading {
    by: By,
    /// What was read last, whose payload the caller may look at.
    entry: Option<Entry>,
}

enum By {
    Writer(Box<Reader>),
    Beside(Box<LogReader>),
}

/// Reads the acknowledged entries of an open log, from a position on that an append or an entry has
/// told; from the first one where `from` is null. `*reader` is the caller's.
///
/// `HELIOSTAT_STALE` where the position was trimmed, `HELIOSTAT_INVALID` where it is none.
///
/// # Safety
/// `log` is null or live, `from` null or valid for reading, `reader` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_log_read(
    log: *const heliostat_log,
    from: *const heliostat_position,
    reader: *mut *mut heliostat_log_reader,
) -> heliostat_code {
    guard(|| {
        if reader.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promise.
        let (log, from) = unsafe { (&show(log)?.0.get()?.log, from.as_ref()) };
        let made = match from {
            None => log.read(),
            Some(from) => log.read_from((*from).into()).map_err(told)?,
        };
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(reader, around(By::Writer(Box::new(made)))) }
    })
}

/// Opens a log to be read only, whether another process has it open to write or not. Nothing is
/// changed. What it shows, no crash takes back. `*reader` is the caller's.
///
/// Answers as `heliostat_log_open`, but never that it is in use.
///
/// # Safety
/// `place` is null or a C string, `reader` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_log_read_beside(
    place: *const c_char,
    reader: *mut *mut heliostat_log_reader,
) -> heliostat_code {
    guard(|| {
        if reader.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promise.
        let place = unsafe { place_of(place)? };
        let made = LogReader::open(place).map_err(|error| not_opened(&error))?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(reader, around(By::Beside(Box::new(made)))) }
    })
}

/// Reads the next entry: where its payload lies, until the next call with this reader, and how many
/// bytes it has; where it begins, and where the next one does. Each may be null.
///
/// `HELIOSTAT_EMPTY` at the end, after which there may be more. `HELIOSTAT_CORRUPT` where an
/// acknowledged entry is not there: the last message says at which position, and the reader stays
/// there. `HELIOSTAT_STALE` where it was trimmed meanwhile, `HELIOSTAT_DEVICE`.
///
/// # Safety
/// `reader` is null or live and nobody else's meanwhile; the others are null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_log_reader_next(
    reader: *mut heliostat_log_reader,
    payload: *mut *const c_void,
    bytes: *mut usize,
    position: *mut heliostat_position,
    next: *mut heliostat_position,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let reading = unsafe { lend(reader)? }.0.get_mut()?;
        reading.entry = reading.by.read().map_err(told)?;
        let entry = reading.entry.as_ref().ok_or(HELIOSTAT_EMPTY)?;
        // SAFETY: the caller's promise.
        unsafe {
            give_if_wanted(payload, entry.payload.as_ptr().cast())?;
            give_if_wanted(bytes, entry.payload.len())?;
            give_if_wanted(position, entry.position.into())?;
            give_if_wanted(next, entry.next.into())
        }
    })
}

/// Of a reader beside the writer: waits until the log was written since the last wait, up to
/// `timeout_ms` (negative for ever). `HELIOSTAT_TIMED_OUT`; `HELIOSTAT_UNSUPPORTED` of another reader,
/// which the log's descriptor tells.
///
/// # Safety
/// `reader` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_log_reader_wait(
    reader: *const heliostat_log_reader,
    timeout_ms: i64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        match &unsafe { show(reader)? }.0.get()?.by {
            By::Beside(reader) => match reader.wait(limit(timeout_ms)).map_err(told)? {
                true => Ok(()),
                false => Err(HELIOSTAT_TIMED_OUT),
            },
            By::Writer(_) => Err(HELIOSTAT_UNSUPPORTED),
        }
    })
}

/// Of a reader beside the writer that is at the end: searches behind it for a proof that there was
/// another entry. `HELIOSTAT_CORRUPT`, and the last message says where.
///
/// # Safety
/// `reader` is null or live and nobody else's meanwhile.
#[no_mangle]
pub unsafe extern "C" fn heliostat_log_reader_check_end(
    reader: *mut heliostat_log_reader,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        match &mut unsafe { lend(reader)? }.0.get_mut()?.by {
            By::Beside(reader) => reader.check_end().map_err(told),
            // Opening the log has looked.
            By::Writer(_) => Ok(()),
        }
    })
}

/// Ends a reader. Null is ignored.
///
/// # Safety
/// `reader` is null or live, and not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_log_reader_close(reader: *mut heliostat_log_reader) {
    // SAFETY: the caller's promise.
    unsafe { take_back(reader) }
}

fn around(by: By) -> heliostat_log_reader {
    heliostat_log_reader(ProcessOwned::new(Reading { by, entry: None }))
}

impl By {
    fn read(&mut self) -> Result<Option<Entry>, LogError> {
        match self {
            By::Writer(reader) => reader.read(),
            By::Beside(reader) => reader.read(),
        }
    }
}
