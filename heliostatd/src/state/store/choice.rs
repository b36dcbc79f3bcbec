//! What is chosen for a device: how its writes are made durable, and whether it gets back what is zeroed.

use heliostat_abi::store::DurableBy;
use heliostat_backend_block::{Costs, Durability, FileDevice};
use heliostat_backend_store::StoreOnDevice;
use heliostat_control::config::{Discard, DurableWrites};
use heliostat_storefile::DurableBy as Kept;

/// Writes of each kind when durable writes are measured.
const MEASURED: usize = 15;
/// Bytes that are written again and again meanwhile.
const MEASURED_BYTES: u64 = 16 * 4096;

/// Of a file a hole is no gift: its next first write has to find room, and takes a hundred times as long.
pub(super) fn does_discard(wanted: Discard, device: &FileDevice) -> bool {
    match wanted {
        Discard::Yes => device.discards(),
        Discard::Auto => device.is_disk() && device.discards(),
        Discard::No => false,
    }
}

/// How writes are made durable, and what that was chosen by where it is measured now: the configuration
/// says it, or the store keeps it since it was made. One that does not is measured, and keeps it from then
/// on, if its format has a place for it.
pub(super) fn chosen(
    store: &mut StoreOnDevice<FileDevice>,
    wanted: DurableWrites,
) -> Result<(DurableBy, Option<Costs>), String> {
    match (wanted, store.store().superblock().durable_by) {
        (DurableWrites::By(by), _) => return Ok((by, None)),
        (DurableWrites::Kept, Some(kept)) => return Ok((of_store(kept), None)),
        (DurableWrites::Kept, None) | (DurableWrites::Measured, _) => {}
    }
    let Some(costs) = measure(store)? else {
        return Ok((named(store.device_mut().durability()), None));
    };
    store.keep(kept_as(costs.best())).map_err(|error| error.to_string())?;
    Ok((named(costs.best()), Some(costs)))
}

/// Measures durable writes at the end of the second copy of the table, whose bytes are written again as
/// they are; nothing else is under way. Nothing where the table is too small for that.
fn measure(store: &mut StoreOnDevice<FileDevice>) -> Result<Option<Costs>, String> {
    let [_, table] = store.store().superblock().tables();
    let Some(before) = table.bytes.checked_sub(MEASURED_BYTES) else { return Ok(None) };
    let measured = store.device_mut().measure(table.offset + before, MEASURED);
    measured.map(Some).map_err(|error| error.to_string())
}

/// The way of durable writes, as a store keeps it.
fn kept_as(durability: Durability) -> Kept {
    match durability {
        Durability::Dsync => Kept::Dsync,
        Durability::Flush => Kept::Flush,
        Durability::DsyncAlone => Kept::DsyncAlone,
    }
}

fn of_store(kept: Kept) -> DurableBy {
    match kept {
        Kept::Dsync => DurableBy::Dsync,
        Kept::Flush => DurableBy::Flush,
        Kept::DsyncAlone => DurableBy::DsyncAlone,
    }
}

/// The same, as the protocol names it.
fn named(durability: Durability) -> DurableBy {
    match durability {
        Durability::Dsync => DurableBy::Dsync,
        Durability::Flush => DurableBy::Flush,
        Durability::DsyncAlone => DurableBy::DsyncAlone,
    }
}
