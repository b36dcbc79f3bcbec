//! A store as it lies in a file or disk, read and not written, whether somebody uses it or not.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use heliostat_backend_store::StoreFailed;
use heliostat_storefile::{
    Area, DurableBy, Kind, Opened, Piece, Store, Superblock, SUPERBLOCKS_BYTES,
};
use rustix::fs::SeekFrom;
use serde_json::{json, Value};

use super::shown::identity;
use super::StoreFault;
use crate::show::print;
use crate::table::{bytes, Table};

/// Shows what lies there.
pub fn inspect(path: &Path, json: bool) -> Result<(), StoreFault> {
    let store = read(path)?;
    let text = if json { format!("{}\n", store_json(&store)) } else { store_text(path, &store) };
    print(&text).map_err(StoreFault::Show)
}

fn read(path: &Path) -> Result<Store, StoreFault> {
    let failed = |error: std::io::Error| StoreFault::Read(path.to_owned(), error);
    let no_store = |error| StoreFault::Store(path.to_owned(), StoreFailed::Store(error));
    let file = File::open(path).map_err(failed)?;
    let found = rustix::fs::seek(&file, SeekFrom::End(0)).map_err(|errno| failed(errno.into()))?;
    let part = |piece: Piece| {
        let mut bytes = vec![0; usize::try_from(piece.bytes).unwrap_or(usize::MAX)];
        file.read_exact_at(&mut bytes, piece.offset).map(|()| bytes)
    };
    let first = Piece { offset: 0, bytes: SUPERBLOCKS_BYTES.min(found) };
    let (superblock, _) =
        Superblock::read(&part(first).map_err(failed)?, found, None).map_err(no_store)?;
    let [first, second] = superblock.tables();
    let copies = [part(first).map_err(failed)?, part(second).map_err(failed)?];
    // What would make both copies equal again is left to who uses it.
    let Opened { store, steps: _ } =
        Store::open(superblock, [&copies[0], &copies[1]]).map_err(no_store)?;
    Ok(store)
}

fn store_json(store: &Store) -> Value {
    let superblock = store.superblock();
    json!({
        "identity": identity(&superblock.identity.0),
        "bytes": superblock.bytes,
        "free_bytes": store.free_bytes(),
        "zeroing_bytes": store.zeroing_bytes(),
        "changes": store.sequence(),
        "format": superblock.format,
        "durable_by": superblock.durable_by.map(durable_by),
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
