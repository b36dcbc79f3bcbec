//! Snapshots over C, the producer's side: a region of existing memory, published in versions.

use std::ffi::c_char;
use std::os::fd::AsRawFd;
use std::time::Duration;

use heliostat_abi::place::{Surroundings, RUNTIME_VARIABLE, SOCKET_VARIABLE};
use heliostat_backend_pages::live::LiveMemory;
use heliostat_base::fd::{duplicate, OwnedFd};
use heliostat_client::session;
use heliostat_stub_snapshot::{
    publish_as, EngineKind, Metrics, NamedRegion, Policy, PublishError, Region, Settings,
};

use crate::border::{fail, give, hand_out, lend, show, take_back, text, ProcessOwned};
use crate::code::{guard, heliostat_code, *};

/// How writes to a region become known.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(non_camel_case_types)] // the name is the C name
pub enum heliostat_engine {
    /// By the kernel where it can, else every version is a whole copy.
    HELIOSTAT_ENGINE_PROBED = 0,
    /// By the kernel, or not at all.
    HELIOSTAT_ENGINE_TRACKED = 1,
    /// By the program (`heliostat_region_declare`).
    HELIOSTAT_ENGINE_DECLARED = 2,
    /// Not: every version is a whole copy.
    HELIOSTAT_ENGINE_WHOLE = 3,
}
use heliostat_engine::*;

/// How a region is set up. `heliostat_settings_default` fills it; then change what you want.
#[repr(C)]
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_settings {
    /// Bytes of this structure, as the caller was compiled: later versions have more.
    pub bytes: usize,
    /// Name under which others find the region; null for none. UTF-8.
    pub name: *const c_char,
    /// What the bytes mean, for whoever attaches, at most 2044 bytes; null for nothing. UTF-8.
    pub description: *const c_char,
    /// A `heliostat_engine`.
    pub engine: i32,
    /// Versions that may be alive together, plus one in the making: 2 to 16.
    pub colours: u32,
    /// The newest so many versions stay, pinned or not: 1 to `colours` - 1.
    pub keep: u32,
    /// 1: look after every copy whether somebody wrote meanwhile (`heliostat_published`).
    pub looks_for_races: u32,
    /// How long a publishing waits for a place; 0: not at all, it answers `HELIOSTAT_FULL`.
    pub patience_ns: u64,
}

/// What a publishing did.
#[repr(C)]
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_published {
    /// The version's number, greater than that of the one before.
    pub number: u64,
    /// Bytes of pages written since the version before.
    pub dirty_bytes: u64,
    /// Bytes copied for it.
    pub copied_bytes: u64,
    /// 1: somebody wrote while it was made, so it may be torn. 0: nobody. -1: unknown.
    pub has_raced: i32,
}

/// What a region has done since it began.
#[repr(C)]
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_metrics {
    /// Versions published.
    pub published: u64,
    /// Publishings that found no place.
    pub skipped: u64,
    /// Publishings that had to wait.
    pub stalled: u64,
    /// Bytes copied for all of them.
    pub copied_bytes: u64,
}

/// A region that this process publishes. One thread at a time.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_region(pub(crate) ProcessOwned<AnyRegion>);

pub(crate) enum AnyRegion {
    Named(NamedRegion),
    Bare(Region),
}

impl AnyRegion {
    pub(crate) fn region(&mut self) -> &mut Region {
        match self {
            Self::Named(region) => region,
            Self::Bare(region) => region,
        }
    }
}

/// Says where the control plane listens, and what this program is called there; null for the
/// usual place (`HELIOSTAT_SOCKET`, or the user's own), and for no name. Once, before the first
/// region with a name and the first `heliostat_attach`, which do it with nulls if nobody has.
///
/// # Safety
/// Both are null or C strings.
#[no_mangle]
pub unsafe extern "C" fn heliostat_configure(
    socket_path: *const c_char,
    program: *const c_char,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let (path, program) = unsafe { (text(socket_path)?, text(program)?) };
        let path = path.map_or_else(usual_place, str::to_owned);
        session::configure(path, program.unwrap_or("c").to_owned());
        Ok(())
    })
}

fn usual_place() -> String {
    let (socket, runtime) = (std::env::var_os(SOCKET_VARIABLE), std::env::var_os(RUNTIME_VARIABLE));
    let uid = heliostat_base::process::effective_uid();
    Surroundings { socket, runtime, uid }.socket_path().display().to_string()
}

pub(crate) fn configure_as_usual() {
    session::configure(usual_place(), "c".into());
}

/// Fills in what a region has when nobody says otherwise: no name, no description, the probed
/// engine, 4 colours, keep 1, no patience.
///
/// # Safety
/// `settings` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_settings_default(
    settings: *mut heliostat_settings,
) -> heliostat_code {
    let usual = Settings::default();
    let value = heliostat_settings {
        bytes: std::mem::size_of::<heliostat_settings>(),
        name: std::ptr::null(),
        description: std::ptr::null(),
        engine: HELIOSTAT_ENGINE_PROBED as i32,
        colours: usual.colours,
        keep: usual.policy.keep as u32,
        looks_for_races: 0,
        patience_ns: 0,
    };
    // SAFETY: the caller's promise.
    guard(|| unsafe { give(settings, value) })
}

fn chosen(settings: &heliostat_settings) -> Result<Settings, heliostat_code> {
    if settings.bytes != std::mem::size_of::<heliostat_settings>() {
        return Err(fail(HELIOSTAT_INVALID, "heliostat_settings of another version of the header"));
    }
    let engines = [
        (HELIOSTAT_ENGINE_PROBED, EngineKind::Probed),
        (HELIOSTAT_ENGINE_TRACKED, EngineKind::Tracked),
        (HELIOSTAT_ENGINE_DECLARED, EngineKind::Declared),
        (HELIOSTAT_ENGINE_WHOLE, EngineKind::Whole),
    ];
    let engine = engines.iter().find(|(number, _)| *number as i32 == settings.engine);
    let engine = engine.ok_or_else(|| fail(HELIOSTAT_INVALID, "there is no such engine"))?.1;
    let patience = Duration::from_nanos(settings.patience_ns);
    let policy = Policy { keep: settings.keep as usize, patience };
    let (colours, looks_for_races) = (settings.colours, settings.looks_for_races != 0);
    Ok(Settings { colours, policy, engine, looks_for_races, ..Settings::default() })
}

/// Sets a region up over the `len` bytes at `start`, which the program goes on using as ever;
/// nothing is copied before the first publishing. Null settings are the default. On failure
/// nothing is left behind.
///
/// # Safety
/// The bytes stay mapped and readable whenever a version is made, until the region is destroyed.
/// `settings` is null or filled in, its strings C strings; `region` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_region_create(
    start: *const u8,
    len: usize,
    settings: *const heliostat_settings,
    region: *mut *mut heliostat_region,
) -> heliostat_code {
    guard(|| {
        if start.is_null() || region.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promises, for as long as the region lives.
        let (memory, wanted) = unsafe { (LiveMemory::new(start as usize, len), settings.as_ref()) };
        let chosen = wanted.map_or(Ok(Settings::default()), chosen)?;
        let mut made = Region::new(memory, chosen).map_err(|error| fail((&error).into(), error))?;
        let mut name = None;
        if let Some(wanted) = wanted {
            // SAFETY: the caller's promises about the strings.
            let description = unsafe { text(wanted.description)? };
            // SAFETY: as above.
            name = unsafe { text(wanted.name)? };
            if !made.describe(description.unwrap_or_default().as_bytes()) {
                return Err(fail(HELIOSTAT_TOO_LARGE, "a description has at most 2044 bytes"));
            }
        }
        let kind = match name {
            None => AnyRegion::Bare(made),
            Some(name) => {
                configure_as_usual();
                let named = publish_as(name, made);
                AnyRegion::Named(named.map_err(|error| fail((&error).into(), error))?)
            }
        };
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(region, heliostat_region(ProcessOwned::new(kind))) }
    })
}

/// Makes a version of the region as it is now. Nobody may write it meanwhile. Blocks for the
/// patience at most. `HELIOSTAT_FULL`: all versions are pinned; what was written goes into the
/// next version. `HELIOSTAT_NO_CONTROL`: the same, and for good, as the control plane does not tell
/// any more who reads the region; create it anew. `published` may be null.
///
/// # Safety
/// `region` is null or live; `published` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_region_publish(
    region: *mut heliostat_region,
    published: *mut heliostat_published,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let kind = unsafe { lend(region)? }.0.get_mut()?;
        let done = kind.region().publish().map_err(|error| fail((&error).into(), error))?;
        if published.is_null() {
            return Ok(());
        }
        let value = heliostat_published {
            number: done.number,
            dirty_bytes: done.dirty_bytes as u64,
            copied_bytes: done.copied_bytes as u64,
            has_raced: done.has_raced.map_or(-1, i32::from),
        };
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { give(published, value) }
    })
}

/// Says that `len` bytes at `offset` of the region were written, by a device or by other means
/// that the engine cannot see.
///
/// # Safety
/// `region` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_region_declare(
    region: *mut heliostat_region,
    offset: usize,
    len: usize,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let kind = unsafe { lend(region)? }.0.get_mut()?;
        let end = offset.checked_add(len);
        let end = end.ok_or_else(|| fail(HELIOSTAT_INVALID, "offset + len overflows"))?;
        let declared = kind.region().declare(offset..end);
        declared.map_err(|error: PublishError| fail(HELIOSTAT_INVALID, error))
    })
}

/// Says by which descriptors a consumer of another process attaches (`heliostat_attach_by`), sealed
/// so that holders can only read. They stay the region's: good until it is destroyed.
///
/// # Safety
/// `region` is null or live; `table` and `pool` are null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_region_descriptors(
    region: *mut heliostat_region,
    table: *mut i32,
    pool: *mut i32,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let kind = unsafe { lend(region)? }.0.get_mut()?;
        let (of_table, of_pool) = kind.region().descriptors();
        // SAFETY: the caller's promises.
        unsafe { give(table, of_table.as_raw_fd()).and(give(pool, of_pool.as_raw_fd())) }
    })
}

/// Lets a consumer in by the two descriptors that its `heliostat_attach_by` has announced. They stay
/// the caller's, who should close them: the consumer hears of the region's end by the last copy of
/// the bell. `HELIOSTAT_FULL`: as many consumers are here as may be.
///
/// # Safety
/// `region` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_region_admit(
    region: *mut heliostat_region,
    pins: i32,
    bell: i32,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let region = unsafe { lend(region)? }.0.get_mut()?.region();
        let copies = duplicate(pins).and_then(|pins| Ok((pins, duplicate(bell)?)));
        let (pins, bell) = copies.map_err(|error| fail(HELIOSTAT_SYSTEM, error))?;
        admitted(region, &pins, &bell)
    })
}

pub(crate) fn admitted(
    region: &mut Region,
    pins: &OwnedFd,
    bell: &OwnedFd,
) -> Result<(), heliostat_code> {
    let place = region.admit_with_bell(pins, bell);
    let full = || fail(HELIOSTAT_FULL, "the region has as many consumers as it can have");
    place.map_err(|error| fail(HELIOSTAT_SYSTEM, error))?.map(drop).ok_or_else(full)
}

/// What the region has done.
///
/// # Safety
/// `region` is null or live; `metrics` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_region_metrics(
    region: *mut heliostat_region,
    metrics: *mut heliostat_metrics,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let kind = unsafe { lend(region)? }.0.get_mut()?;
        let Metrics { published, skipped, stalled, copied_bytes, .. } = kind.region().metrics();
        let value = heliostat_metrics { published, skipped, stalled, copied_bytes };
        // SAFETY: the caller's promise.
        unsafe { give(metrics, value) }
    })
}

/// The engine in use, in a word.
///
/// # Safety
/// `region` is null or live; `engine` is null or valid for writing; what it becomes is good for
/// ever.
#[no_mangle]
pub unsafe extern "C" fn heliostat_region_engine(
    region: *const heliostat_region,
    engine: *mut heliostat_engine,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let kind = unsafe { show(region)? }.0.get()?;
        let name = match kind {
            AnyRegion::Named(region) => region.engine(),
            AnyRegion::Bare(region) => region.engine(),
        };
        let found = match name {
            "tracked" => HELIOSTAT_ENGINE_TRACKED,
            "declared" => HELIOSTAT_ENGINE_DECLARED,
            _ => HELIOSTAT_ENGINE_WHOLE,
        };
        // SAFETY: the caller's promise.
        unsafe { give(engine, found) }
    })
}

/// Ends the region and its name; its last version stays with whoever is attached. In a child of
/// the process that made it only the handle goes. Null is ignored.
///
/// # Safety
/// `region` is null or came from this library and is not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_region_destroy(region: *mut heliostat_region) {
    // SAFETY: the caller's promise.
    unsafe { take_back(region) }
}
