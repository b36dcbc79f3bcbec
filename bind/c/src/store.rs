//! Areas of a store over C: opened by name, read, written and flushed, and ended.

use std::ffi::{c_char, c_void};

use heliostat_stub_store::{
    Alone, Area, AreaRights, BeginError, Store, StoreError, Way, WayWanted, Why, OWN_USER,
};

use crate::border::ProcessOwned;
use crate::border::{fail, give, hand_out, lend, show, take_back, text, to_fill, to_read};
use crate::code::{guard, heliostat_code, of_control, *};
use crate::region::configure_as_usual;

/// A right: to read an area.
pub const HELIOSTAT_AREA_READ: u32 = 1;
/// A right: to write it.
pub const HELIOSTAT_AREA_WRITE: u32 = 2;
/// A right: to change its size, and to end it.
pub const HELIOSTAT_AREA_MANAGE: u32 = 4;
/// How: no other session may open it to write or manage it meanwhile.
pub const HELIOSTAT_AREA_EXCLUSIVE: u32 = 1;
/// How: by a server loop.
pub const HELIOSTAT_AREA_EMULATED: u32 = 2;
/// How: by a queue of this process's own on the device, or not at all.
pub const HELIOSTAT_AREA_DIRECT: u32 = 4;
/// The user whose names are meant: the caller's own.
pub const HELIOSTAT_AREA_OWN_USER: u32 = 0xffff_ffff;

const _: () = assert!(HELIOSTAT_AREA_OWN_USER == OWN_USER);

/// This process's access to the store. Threads may share it.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_store(ProcessOwned<Store>);

/// An area that is open. Threads may share it, but for a change of its size and for its end.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_area(pub(crate) ProcessOwned<Area>);

/// What an area is.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_area_info {
    /// Its size.
    pub bytes: u64,
    /// What names it for ever: an area of the same name that is made later has another.
    pub generation: u64,
    /// What offsets and lengths of a queue's operations are multiples of.
    pub sector_bytes: u32,
    /// What its size is a multiple of.
    pub grain_bytes: u32,
    /// What the handle allows.
    pub rights: u32,
    /// 1 where this process drives the device, 0 where a server loop does.
    pub is_direct: u32,
}

/// Connects, where `heliostat_configure` has said that the control plane is. `*store` is the caller's.
/// `HELIOSTAT_NO_CONTROL` when none answers.
///
/// # Safety
/// `store` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_store_connect(
    store: *mut *mut heliostat_store,
) -> heliostat_code {
    guard(|| {
        if store.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        configure_as_usual();
        let connected = Store::connect().map_err(|error| told(&error))?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(store, heliostat_store(ProcessOwned::new(connected))) }
    })
}

/// Ends it; what was opened by it stays. Null is ignored.
///
/// # Safety
/// `store` is null or live, and not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_store_close(store: *mut heliostat_store) {
    // SAFETY: the caller's promise.
    unsafe { take_back(store) }
}

/// Makes an area of so many bytes, a multiple of the store's grain, which are zero, and opens it with all
/// rights. `how` is 0 or some of `HELIOSTAT_AREA_EXCLUSIVE`, `_EMULATED` and `_DIRECT`. `*area` is the
/// caller's.
///
/// `HELIOSTAT_TAKEN` where there is one of the name, `HELIOSTAT_FULL` where there is no room or a limit is
/// reached, `HELIOSTAT_DENIED`, `HELIOSTAT_NOT_FOUND` where the control plane has no store.
///
/// # Safety
/// `store` is null or live, `name` null or a C string, `area` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_area_create(
    store: *const heliostat_store,
    name: *const c_char,
    bytes: u64,
    how: u32,
    area: *mut *mut heliostat_area,
) -> heliostat_code {
    guard(|| {
        if area.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        let (way, alone) = manner(how)?;
        // SAFETY: the caller's promise.
        let (store, name) = unsafe { (of(store)?, text(name)?.ok_or(HELIOSTAT_NULL)?) };
        let wanted = store.create(name, bytes).way(way);
        let wanted = if alone.shuts_out() { wanted.exclusive() } else { wanted };
        let made = wanted.make().map_err(|error| told(&error))?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(area, heliostat_area(ProcessOwned::new(made))) }
    })
}

/// Opens the area that has the name among those of `user`, with all of `rights` or not at all. `how` as
/// for `heliostat_area_create`. `*area` is the caller's.
///
/// `HELIOSTAT_NOT_FOUND`, `HELIOSTAT_DENIED`; `HELIOSTAT_IN_USE` where another process has it exclusively,
/// or writes it and it is wanted so: the last message names the process. `HELIOSTAT_UNSUPPORTED` where it
/// was wanted directly, and the last message says why not.
///
/// # Safety
/// As `heliostat_area_create`.
#[no_mangle]
pub unsafe extern "C" fn heliostat_area_open(
    store: *const heliostat_store,
    user: u32,
    name: *const c_char,
    rights: u32,
    how: u32,
    area: *mut *mut heliostat_area,
) -> heliostat_code {
    guard(|| {
        if area.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        let (way, alone) = manner(how)?;
        let rights = AreaRights::from_bits(rights).ok_or(HELIOSTAT_INVALID)?;
        // SAFETY: the caller's promise.
        let (store, name) = unsafe { (of(store)?, text(name)?.ok_or(HELIOSTAT_NULL)?) };
        let opened = match alone.shuts_out() {
            true => store.open_exclusive(user, name, rights, way),
            false => store.open_of(user, name, rights, way),
        };
        let opened = opened.map_err(|error| told(&error))?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(area, heliostat_area(ProcessOwned::new(opened))) }
    })
}

/// What an area is, as it was when it was opened or became by `heliostat_area_resize`.
///
/// # Safety
/// `area` is null or live, `info` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_area_describe(
    area: *const heliostat_area,
    info: *mut heliostat_area_info,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let area = unsafe { open_one(area)? };
        let info_of = heliostat_area_info {
            bytes: area.bytes(),
            generation: area.generation(),
            sector_bytes: area.sector_bytes(),
            grain_bytes: area.grain_bytes(),
            rights: area.rights().bits(),
            is_direct: u32::from(area.way() == Way::Direct),
        };
        // SAFETY: the caller's promise.
        unsafe { give(info, info_of) }
    })
}

/// Reads bytes from any offset on, and waits for them. `HELIOSTAT_INVALID` beyond the end,
/// `HELIOSTAT_DENIED`, `HELIOSTAT_DEVICE`, `HELIOSTAT_PEER_GONE` where the control plane has ended.
///
/// # Safety
/// `area` is null or live; `into` is null or valid for writing `bytes` bytes.
#[no_mangle]
pub unsafe extern "C" fn heliostat_area_read(
    area: *const heliostat_area,
    offset: u64,
    into: *mut c_void,
    bytes: usize,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let (area, into) = unsafe { (open_one(area)?, to_fill(into, bytes)?) };
        area.read_at(offset, into).map_err(|error| told(&error))
    })
}

/// Writes bytes to any offset, and waits until they are read so by others. They last after a
/// `heliostat_area_flush`. What else lies in the first and the last sector is read before and written
/// again. Answers as `heliostat_area_read`; some of the bytes may be written then.
///
/// # Safety
/// `area` is null or live; `from` is null or valid for reading `bytes` bytes that nobody changes.
#[no_mangle]
pub unsafe extern "C" fn heliostat_area_write(
    area: *const heliostat_area,
    offset: u64,
    from: *const c_void,
    bytes: usize,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let (area, from) = unsafe { (open_one(area)?, to_read(from, bytes)?) };
        area.write_at(offset, from).map_err(|error| told(&error))
    })
}

/// Makes last what was written before: it survives a loss of power. After `HELIOSTAT_DEVICE` nothing is
/// known of what was written since the last flush.
///
/// # Safety
/// `area` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_area_flush(area: *const heliostat_area) -> heliostat_code {
    // SAFETY: the caller's promise.
    guard(|| unsafe { open_one(area)? }.flush().map_err(|error| told(&error)))
}

/// Gives an area another size, a multiple of its grain. Bytes that it gains are zero. To make it smaller
/// no queue of it may be open in this process: `HELIOSTAT_IN_USE`, as where another process drives it.
///
/// # Safety
/// `area` is null or live, and used by nobody else meanwhile.
#[no_mangle]
pub unsafe extern "C" fn heliostat_area_resize(
    area: *mut heliostat_area,
    bytes: u64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let area = unsafe { lend(area)? }.0.get_mut()?;
        area.resize(bytes).map_err(|error| told(&error))
    })
}

/// Ends an area, with all handles on it, and its bytes. The handle is gone, whatever this answers.
///
/// # Safety
/// `area` is null or live, and not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_area_delete(area: *mut heliostat_area) -> heliostat_code {
    guard(|| {
        if area.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: not null, ours, and the caller's last use.
        let whole = unsafe { Box::from_raw(area) };
        whole.0.into_inner()?.delete().map_err(|error| told(&error))
    })
}

/// Gives the handle back; the area stays. What was written and not flushed may be lost with the power.
/// Null is ignored.
///
/// # Safety
/// `area` is null or live, and not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_area_close(area: *mut heliostat_area) {
    // SAFETY: the caller's promise.
    unsafe { take_back(area) }
}

/// # Safety
/// `store` is null or live.
unsafe fn of<'a>(store: *const heliostat_store) -> Result<&'a Store, heliostat_code> {
    // SAFETY: the caller's promise.
    unsafe { show(store)? }.0.get()
}

/// # Safety
/// `area` is null or live.
pub(crate) unsafe fn open_one<'a>(area: *const heliostat_area) -> Result<&'a Area, heliostat_code> {
    // SAFETY: the caller's promise.
    unsafe { show(area)? }.0.get()
}

fn manner(how: u32) -> Result<(WayWanted, Alone), heliostat_code> {
    let has = |bit| how & bit != 0;
    let (emulated, direct) = (has(HELIOSTAT_AREA_EMULATED), has(HELIOSTAT_AREA_DIRECT));
    let way = match (emulated, direct, how >> 3) {
        (false, false, 0) => WayWanted::Any,
        (true, false, 0) => WayWanted::Emulated,
        (false, true, 0) => WayWanted::Direct,
        _ => return Err(fail(HELIOSTAT_INVALID, format_args!("there is no way {how:#x}"))),
    };
    Ok((way, if has(HELIOSTAT_AREA_EXCLUSIVE) { Alone::Yes } else { Alone::No }))
}

/// The code for an error, whose words are kept.
pub(crate) fn told(error: &StoreError) -> heliostat_code {
    fail(code_of(error), error)
}

pub(crate) fn code_of(error: &StoreError) -> heliostat_code {
    match error {
        StoreError::Operation(BeginError::Full { .. }) => HELIOSTAT_FULL,
        StoreError::Name(_) | StoreError::Operation(_) => HELIOSTAT_INVALID,
        StoreError::InUse => HELIOSTAT_IN_USE,
        StoreError::NotDone(no) => of_no(no.why),
        error if error.is_denied() => HELIOSTAT_DENIED,
        StoreError::Device(_) => HELIOSTAT_DEVICE,
        StoreError::Gone => HELIOSTAT_PEER_GONE,
        StoreError::Control(error) => of_control(error),
        StoreError::Corrupt | StoreError::Link(_) => HELIOSTAT_CORRUPT,
        StoreError::NotDriven(_) | StoreError::Mapping(_) => HELIOSTAT_SYSTEM,
    }
}

fn of_no(why: Why) -> heliostat_code {
    match why {
        Why::NoStore | Why::NotFound | Why::NoHandle => HELIOSTAT_NOT_FOUND,
        Why::NameTaken | Why::HasStore => HELIOSTAT_TAKEN,
        Why::Denied => HELIOSTAT_DENIED,
        Why::Held | Why::InUse | Why::HasAlone | Why::HasWriters => HELIOSTAT_IN_USE,
        Why::Opening | Why::Busy | Why::Zeroing | Why::Later => HELIOSTAT_TIMED_OUT,
        Why::Ending => HELIOSTAT_STALE,
        Why::Size | Why::Unfit => HELIOSTAT_INVALID,
        Why::NoRoom | Why::Fragmented | Why::TooMany => HELIOSTAT_FULL,
        Why::NotDirect => HELIOSTAT_UNSUPPORTED,
        Why::DeviceFailed | Why::NotOpened => HELIOSTAT_DEVICE,
    }
}
