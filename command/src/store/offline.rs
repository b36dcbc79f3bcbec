//! A store as it lies in a file or disk, read and not written, whether somebody uses it or not.

use std::path::Path;
use std::time::Duration;

use heliostat_backend_block::{Buffer, Completion, Device, Driven, FileDevice, Options, Request};
use heliostat_backend_store::StoreFailed;
use heliostat_storefile::{
    Area, DurableBy, Kind, Opened, Piece, Store, Superblock, SUPERBLOCKS_BYTES,
};
use serde_json::{json, Value};

use super::shown::{driven_json, driven_line, identity};
use super::StoreFault;
use crate::show::print;
use crate::table::{bytes, Table};

/// How long one look for a completion waits; there are as many as it takes.
const WAIT: Duration = Duration::from_secs(1);

/// Shows what lies there.
pub fn inspect(path: &Path, json: bool) -> Result<(), StoreFault> {
    let (store, driven) = read(path)?;
    let text = match json {
        true => format!("{}\n", store_json(&store, driven)),
        false => store_text(path, &store) + &driven_line(&driven_json(driven)),
    };
    print(&text).map_err(StoreFault::Show)
}

fn read(path: &Path) -> Result<(Store, Driven), StoreFault> {
    let failed = |error| StoreFault::Store(path.to_owned(), error);
    let no_store = |error| failed(StoreFailed::Store(error));
    let options = Options { depth: 1, ..Options::default() };
    let opened = FileDevice::open_to_read(path, options);
    let mut device = opened.map_err(|error| StoreFault::Device(path.to_owned(), error))?;
    let (found, driven) = (device.geometry().bytes, device.driven());
    let mut part = |piece| read_piece(&mut device, piece).map_err(failed);
    let first = Piece { offset: 0, bytes: SUPERBLOCKS_BYTES.min(found) };
    let (superblock, _) = Superblock::read(&part(first)?, found, None).map_err(no_store)?;
    let [first, second] = superblock.tables();
    let copies = [part(first)?, part(second)?];
    // What would make both copies equal again is left to who uses it.
    let Opened { store, steps: _ } =
        Store::open(superblock, [&copies[0], &copies[1]]).map_err(no_store)?;
    Ok((store, driven))
}

/// By the device's own way: a namespace of an NVMe device is read by commands.
fn read_piece(device: &mut FileDevice, piece: Piece) -> Result<Vec<u8>, StoreFailed> {
    let into = Buffer::new(usize::try_from(piece.bytes).unwrap_or(usize::MAX))?;
    device.begin(0, Request::Read { offset: piece.offset, into: into.clone() })?;
    let mut completions: Vec<Completion> = Vec::new();
    while completions.is_empty() {
        device.reap(Some(WAIT), &mut completions)?;
    }
    completions.iter().try_for_each(|completion| completion.result)?;
    Ok(into.copy_out()?)
}

fn store_json(store: &Store, driven: Driven) -> Value {
    let superblock = store.superblock();
    json!({
        "identity": identity(&superblock.identity.0),
        "bytes": superblock.bytes,
        "free_bytes": store.free_bytes(),
        "zeroing_bytes": store.zeroing_bytes(),
        "changes": store.sequence(),
        "format": superblock.format,
        "durable_by": superblock.durable_by.map(durable_by),
        "driven": driven_json(driven),
        "areas_max": superblock.areas_max,
        "grain_bytes": superblock.grain_bytes,
        "areas": store.areas().iter().map(area_json).collect::<Vec<_>>(),
    })
}

/// As it was measured when the store was made.
fn durable_by(kept: DurableBy) -> &'static str {
    match kept {
        DurableBy::Dsync => "dsync",
        DurableBy::Flush => "flush",
        DurableBy::DsyncAlone => "dsync_alone",
    }
}

fn area_json(area: &Area) -> Value {
    json!({
        "name": area.name.as_str(),
        "uid": area.owner,
        "generation": area.generation,
        "bytes": area.bytes,
        "kind": kind(area.kind),
        "extents": area.extents.len(),
    })
}

fn store_text(path: &Path, store: &Store) -> String {
    let superblock = store.superblock();
    let mut table = Table::new(&["name", "#uid", "kind", "#bytes", "#extents", "#generation"]);
    for area in store.areas() {
        // A name in a file is whatever somebody wrote there: nothing that acts on a terminal.
        let name = area.name.as_str().chars().map(|it| if it.is_control() { '?' } else { it });
        table.row([
            name.collect(),
            area.owner.to_string(),
            kind(area.kind).to_owned(),
            bytes(area.bytes),
            area.extents.len().to_string(),
            area.generation.to_string(),
        ]);
    }
    format!(
        "store {}, {} in {}, free {}, to be zeroed {}, {} of at most {} areas, {} changes\n{}",
        identity(&superblock.identity.0),
        bytes(superblock.bytes),
        path.display(),
        bytes(store.free_bytes()),
        bytes(store.zeroing_bytes()),
        store.areas().len(),
        superblock.areas_max,
        store.sequence(),
        if store.areas().is_empty() { String::new() } else { table.render() },
    )
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Raw => "raw",
        Kind::Log => "log",
        Kind::Queue => "queue",
    }
}
