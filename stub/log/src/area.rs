//! A log in an area of a store: found by name, for one writer at a time.
//!
//! ```text
//! lock log/NAME of the control plane --> nobody else is opening it, or has it by this control plane
//! claim on the device (direct way)   --> nobody has it from before this control plane began
//! ```
//!
//! The lock ends with the control plane. A writer that drives the device by itself goes on then, so it
//! leaves a claim in the kernel that lasts as long as it; the claim is made and asked under the lock.

use heliostat_backend_block::{Device, OpenError as DeviceError, Options as DeviceOptions};
use heliostat_backend_log::{Area, Log, Options};
use heliostat_stub_lock::{Held, Locks};
use heliostat_stub_store::{
    Area as StoreArea, AreaIo, AreaKind, AreaRights, NotDone, Store, StoreError, WayWanted,
    Why as Refusal, OWN_USER,
};

use crate::error::Why;

/// What locks of the writers of logs begin with.
const LOCKS: &str = "log/";

/// What keeps other writers out, for as long as a log is open.
pub(crate) struct Hold {
    _held: Held,
    pub(crate) area: StoreArea,
    pub(crate) bell: i32,
}

/// Opens the log in an area.
pub(crate) fn open(name: &str, options: Options) -> Result<(Log, Hold), Why> {
    let area = Store::connect()?.open(name, to_write())?;
    let hold = keep(name, area)?;
    let (device, whole) = device(&hold.area)?;
    Ok((Log::open(device, whole, options)?, hold))
}

/// Makes an area of at least so many bytes, and a log in it; or a log in an area that was made for one
/// and has none yet.
pub(crate) fn create(name: &str, bytes: u64, options: Options) -> Result<(Log, Hold), Why> {
    let store = Store::connect()?;
    let grain = u64::from(store.info()?.grain_bytes.max(1));
    let new = store.create(name, bytes.next_multiple_of(grain)).kind(AreaKind::Log);
    let area = match new.rights(to_write()).make() {
        Err(StoreError::NotDone(NotDone { why: Refusal::NameTaken, .. })) => {
            store.open(name, to_write())?
        }
        made => made?,
    };
    if area.kind() == AreaKind::Raw {
        return Err(Why::Exists);
    }
    let hold = keep(name, area)?;
    let (device, whole) = device(&hold.area)?;
    Ok((Log::create(device, whole, options)?, hold))
}

/// An area to write, and its device, of which it also is said how it is driven where this process has it.
pub(crate) fn to_drive(name: &str, driven: DeviceOptions) -> Result<(AreaIo, Hold), Why> {
    let store = Store::connect()?;
    let hold = keep(name, store.open(name, to_write())?)?;
    match hold.area.device_with(driven) {
        // There is no way to drive it from here (no io_uring): a server loop does.
        Err(StoreError::NotDriven(_)) => {
            drop(hold);
            let area = store.open_of(OWN_USER, name, to_write(), WayWanted::Emulated)?;
            let hold = keep(name, area)?;
            Ok((hold.area.device_with(driven)?, hold))
        }
        device => Ok((device?, hold)),
    }
}

/// The device of an area that is only read, whoever writes it.
pub(crate) fn to_read(name: &str) -> Result<(Box<dyn Device>, Area), Why> {
    device(&Store::connect()?.open(name, AreaRights::READ)?)
}

fn to_write() -> AreaRights {
    AreaRights::READ.and(AreaRights::WRITE)
}

fn device(area: &StoreArea) -> Result<(Box<dyn Device>, Area), Why> {
    let whole = Area { offset: 0, bytes: area.bytes() };
    Ok((Box::new(area.device()?), whole))
}

/// Keeps others out, where nobody has it to write.
fn keep(name: &str, area: StoreArea) -> Result<Hold, Why> {
    let locks = Locks::open()?;
    let (bell, lock) = (locks.descriptor(), locks.lock(&format!("{LOCKS}{name}"))?);
    // That a holder died is no news: opening a log puts right whatever it left.
    match lock.try_acquire()? {
        Some(held) if area.claim_alone()? => Ok(Hold { _held: held, area, bell }),
        _ => Err(Why::Device(DeviceError::InUse)),
    }
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hold").finish_non_exhaustive()
    }
}
