//! Where this process's log lies, and how it comes to it: in a file, or in an area of a store.
//!
//! An area that the control plane gives directly is driven as a file is, by an io_uring of the stub's
//! own. One that it gives by the emulated way has no descriptor that tells of its ends: what is appended
//! is handed to the server loop at once, and waits see it through to its end.

use std::path::PathBuf;
use std::sync::OnceLock;

use heliostat_abi::code::Unlogged;
use heliostat_backend_block::Options as DeviceOptions;
use heliostat_backend_durable::Boot;
use heliostat_backend_log::Log;
use heliostat_backend_uring::By;
use heliostat_base::call;
use heliostat_stub_log::{Kind, Place, UndrivenLog, Why};

static PLACE: OnceLock<Place> = OnceLock::new();

/// Sets where the log lies, once, at start: a path, or `/store/NAME`.
pub fn set(path: PathBuf) {
    let place = path.to_str().map_or_else(|| Place::File(path.clone()), Place::from);
    let _ = PLACE.set(place);
}

/// Whether a log was named.
pub fn is_set() -> bool {
    PLACE.get().is_some()
}

/// The log of this process, open.
pub struct InUse {
    pub log: Log,
    /// Readable when the device has done something, where there is such a thing.
    pub ring: Option<i32>,
    /// Descriptors that are the log's own.
    pub own: [Option<i32>; OWN_MAX],
    pub boot: Boot,
    /// Last: who may write the area is told when the log is gone.
    area: Option<UndrivenLog>,
}

impl InUse {
    /// Whether it has failed since the control plane has ended that served its area: the next one serves it
    /// again.
    pub fn is_lost(&self) -> bool {
        self.area.as_ref().is_some_and(|area| !area.is_kept())
    }
}

/// Descriptors that a log has at most.
pub const OWN_MAX: usize = 4;

/// Opens the log, and puts what it has of before a crash into the files.
pub fn open() -> Result<InUse, Unlogged> {
    let place = PLACE.get().ok_or(Unlogged::None)?;
    let boot = Boot::now().map_err(|_| Unlogged::LogMissing)?;
    let used = on_higher_numbers(|| match place {
        Place::File(path) => of_file(path, boot),
        Place::Area(name) => of_area(name, boot),
    })?;
    match heliostat_backend_durable::recover(&used.log, &boot, false) {
        Ok(outcome) if outcome.is_whole() => Ok(used),
        Ok(_) => Err(Unlogged::LogUnrecovered),
        Err(_) => Err(Unlogged::LogMissing),
    }
}

fn of_file(path: &std::path::Path, boot: Boot) -> Result<InUse, Unlogged> {
    let opened = heliostat_backend_durable::open(path, Some(By::Uring));
    let opened = opened.map_err(|error| match error {
        error if error.is_in_use() => Unlogged::LogInUse,
        error if error.is_ringless() => Unlogged::NoRing,
        _ => Unlogged::LogMissing,
    })?;
    let [file, ring] = opened.own;
    let own = [file, ring, None, None];
    Ok(InUse { log: opened.log, ring: opened.ring, own, boot, area: None })
}

fn of_area(name: &str, boot: Boot) -> Result<InUse, Unlogged> {
    let driven = DeviceOptions { by: Some(By::Uring), ..Default::default() };
    let area =
        UndrivenLog::open(name, driven).map_err(|error| match (error.kind(), &error.why) {
            (Kind::InUse, _) => Unlogged::LogInUse,
            (_, Why::Store(_) | Why::Lock(_)) => Unlogged::NoArea,
            _ => Unlogged::LogMissing,
        })?;
    let (log, ring, own) = (area.log.clone(), area.ring, area.own);
    Ok(InUse { log, ring, own, boot, area: Some(area) })
}

/// Opens something while the three numbers that programs have plans for are taken.
fn on_higher_numbers<R>(open: impl FnOnce() -> R) -> R {
    let is_free = |fd: &i32| call::fcntl(*fd, libc::F_GETFD, 0).is_err();
    let holders: Vec<_> =
        (0..3).filter(is_free).filter_map(|_| std::fs::File::open("/dev/null").ok()).collect();
    let opened = open();
    drop(holders);
    opened
}
