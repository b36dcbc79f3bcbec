//! `heliostat store init`: a store in a file or disk, and what durable writes cost there.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use heliostat_backend_block::{
    BlockError, Buffer, Costs, Device, Driven, Durability, FileDevice, Options, Request,
};
use heliostat_backend_store::{StoreFailed, StoreOnDevice};
use heliostat_storefile::{DurableBy, Format, Identity, Superblock};
use rustix::fs::SeekFrom;
use serde_json::{json, Value};

use super::shown::{driven_json, driven_line, identity};
use super::StoreFault;
use crate::args::store::InitArguments;
use crate::show::print;
use crate::table::bytes;

/// Bytes at the beginning that are zero where nothing is: every file system and table of partitions
/// has something in them.
const LOOKED_AT: usize = 1 << 20;
/// Grains that a store has about, if nobody says how large they are: a table of free ones stays short.
const GRAINS: u64 = 1 << 14;
const GRAIN_BYTES: (u64, u64) = (4096, 1 << 20);
/// Writes of each kind when they are measured.
const MEASURED: usize = 50;
const MEASURED_BYTES: u64 = 16 * 4096;
const DEPTH: usize = 16;
/// How long one look for a completion waits; there are as many as it takes.
const WAIT: Duration = Duration::from_secs(1);

/// Makes a store, and tells of it.
pub fn init(arguments: &InitArguments) -> Result<(), StoreFault> {
    let path = &arguments.path;
    let is_new = prepare(arguments)?;
    let made = make(arguments, is_new);
    if made.is_err() && is_new {
        // Nothing of ours is left where nothing was.
        let _ = std::fs::remove_file(path);
    }
    let Made { superblock, costs, is_direct, driven } = made?;
    let best = costs.best();
    let driven = driven_json(driven);
    let text = match arguments.json {
        true => json_text(&superblock, &costs, best, driven),
        false => text(path, &superblock, &costs, best) + note(is_direct) + &driven_line(&driven),
    };
    print(&text).map_err(StoreFault::Show)
}

/// Makes the file if it is not there, or looks whether what is there may be overwritten. Whether the
/// file is new, and so zero.
fn prepare(arguments: &InitArguments) -> Result<bool, StoreFault> {
    let path = &arguments.path;
    // Not opened here: where only its disk may be, that is what is driven.
    if std::fs::metadata(path).is_ok_and(|it| it.file_type().is_char_device()) {
        return prepare_namespace(arguments);
    }
    let file = match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let none =
                || StoreFault::Size(format!("{}: is not there; say its --size", path.display()));
            let size = arguments.size.ok_or_else(none)?;
            let made = FileDevice::create(path, size);
            return made.map(|()| true).map_err(|error| StoreFault::Device(path.clone(), error));
        }
        opened => opened.map_err(|error| StoreFault::Read(path.clone(), error))?,
    };
    let found = rustix::fs::seek(&file, SeekFrom::End(0)).unwrap_or(0);
    if let Some(size) = arguments.size.filter(|size| *size != found) {
        let path = path.display();
        let why =
            format!("{path}: has {found} bytes, not {size}; leave --size out to take all of it");
        return Err(StoreFault::Size(why));
    }
    if !arguments.force && !is_empty(path, file)? {
        return Err(StoreFault::NotEmpty(path.clone()));
    }
    Ok(false)
}

/// A namespace of an NVMe device, which is read by its own commands.
fn prepare_namespace(arguments: &InitArguments) -> Result<bool, StoreFault> {
    let path = &arguments.path;
    let failed = |error| StoreFault::Store(path.clone(), StoreFailed::Device(error));
    let opened = FileDevice::open(path, Options::default());
    let mut device = opened.map_err(|error| StoreFault::Device(path.clone(), error))?;
    let found = device.geometry().bytes;
    if arguments.size.is_some_and(|size| size != found) {
        let path = path.display();
        let why = format!("{path}: has {found} bytes; leave --size out to take all of it");
        return Err(StoreFault::Size(why));
    }
    let first = Buffer::new(LOOKED_AT.min(usize::try_from(found).unwrap_or(LOOKED_AT)));
    let first = first.map_err(failed)?;
    device
        .begin(0, Request::Read { offset: 0, into: first.clone() })
        .map_err(|error| StoreFault::Size(format!("{}: {error}", path.display())))?;
    let mut completions = Vec::new();
    while completions.is_empty() {
        device.reap(Some(WAIT), &mut completions).map_err(failed)?;
    }
    completions.iter().try_for_each(|completion| completion.result).map_err(failed)?;
    let first = first.copy_out().unwrap_or_default();
    match arguments.force || is_nothing(&first) {
        true => Ok(false),
        false => Err(StoreFault::NotEmpty(path.clone())),
    }
}

fn is_nothing(first: &[u8]) -> bool {
    first.iter().all(|byte| *byte == 0) || first.starts_with(&heliostat_storefile::MAGIC[..6])
}

/// Whether nothing is there, or a store, of which its own format tells.
fn is_empty(path: &Path, mut file: File) -> Result<bool, StoreFault> {
    rustix::fs::seek(&file, SeekFrom::Start(0))
        .map_err(|errno| StoreFault::Read(path.to_owned(), errno.into()))?;
    let mut first = Vec::new();
    let read = file.by_ref().take(LOOKED_AT as u64).read_to_end(&mut first);
    read.map_err(|error| StoreFault::Read(path.to_owned(), error))?;
    Ok(is_nothing(&first))
}

/// A store that was made.
struct Made {
    superblock: Superblock,
    costs: Costs,
    /// Whether its bytes go past the page cache.
    is_direct: bool,
    driven: Driven,
}

fn make(arguments: &InitArguments, is_zero: bool) -> Result<Made, StoreFault> {
    let path = &arguments.path;
    let options = Options { depth: DEPTH, ..Options::default() };
    let device = FileDevice::open(path, options);
    let device = device.map_err(|error| StoreFault::Device(path.clone(), error))?;
    let (device_bytes, is_direct) = (device.geometry().bytes, device.is_direct());
    let driven = device.driven();
    let usual = (device_bytes / GRAINS).max(1).next_power_of_two();
    let grain = arguments.grain.unwrap_or(usual.clamp(GRAIN_BYTES.0, GRAIN_BYTES.1));
    let format = Format {
        identity: random().map_err(|error| StoreFault::Read("/dev/urandom".into(), error))?,
        device_bytes,
        grain_bytes: u32::try_from(grain).unwrap_or(u32::MAX),
        areas_max: arguments.areas,
        is_zero,
    };
    let made = match arguments.force {
        true => StoreOnDevice::format_over(device, &format),
        false => StoreOnDevice::format(device, &format),
    };
    let failed = |error| StoreFault::Store(path.clone(), error);
    let mut store = made.map_err(failed)?;
    let superblock = *store.store().superblock();
    let costs = measure(&mut store, &superblock);
    let costs = costs.map_err(|error| failed(StoreFailed::Device(error)))?;
    store.keep(kept(costs.best())).map_err(failed)?;
    Ok(Made { superblock, costs, is_direct, driven })
}

/// Measures at the beginning of the data, in which nothing is.
fn measure(
    store: &mut StoreOnDevice<FileDevice>,
    superblock: &Superblock,
) -> Result<Costs, BlockError> {
    let end = superblock.bytes.saturating_sub(MEASURED_BYTES);
    store.device_mut().measure(superblock.data_offset.min(end), MEASURED)
}

fn random() -> std::io::Result<Identity> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(Identity(bytes))
}

/// The same, as the store keeps it.
fn kept(durability: Durability) -> DurableBy {
    match durability {
        Durability::Dsync => DurableBy::Dsync,
        Durability::Flush => DurableBy::Flush,
        Durability::DsyncAlone => DurableBy::DsyncAlone,
    }
}

fn word(durability: Durability) -> &'static str {
    match durability {
        Durability::Dsync => "dsync",
        Durability::Flush => "flush",
        Durability::DsyncAlone => "dsync_alone",
    }
}

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn text(path: &Path, superblock: &Superblock, costs: &Costs, best: Durability) -> String {
    let grain = u64::from(superblock.grain_bytes);
    format!(
        "store {} in {}: {} for at most {} areas, in grains of {}\n\
         a write of 4 KiB takes {} us, and is durable after {} us (RWF_DSYNC), {} us (write and flush)\n\
         {} writes at once are durable after {} us (RWF_DSYNC each), {} us (one flush)\n\
         writes are made durable by {}\n",
        identity(&superblock.identity.0),
        path.display(),
        bytes(superblock.data_grains * grain),
        superblock.areas_max,
        bytes(grain),
        us(costs.write),
        us(costs.dsync),
        us(costs.flush),
        costs.together,
        us(costs.together_dsync),
        us(costs.together_flush),
        word(best),
    )
}

fn note(is_direct: bool) -> &'static str {
    match is_direct {
        true => "",
        false => "this file system has no direct I/O: everything goes by the page cache\n",
    }
}

fn json_text(superblock: &Superblock, costs: &Costs, best: Durability, driven: Value) -> String {
    let told = json!({
        "identity": identity(&superblock.identity.0),
        "bytes": superblock.bytes,
        "data_bytes": superblock.data_grains * u64::from(superblock.grain_bytes),
        "areas_max": superblock.areas_max,
        "grain_bytes": superblock.grain_bytes,
        "durable_by": word(best),
        "driven": driven,
        "write_us": us(costs.write),
        "dsync_us": us(costs.dsync),
        "flush_us": us(costs.flush),
        "together": costs.together,
        "together_dsync_us": us(costs.together_dsync),
        "together_flush_us": us(costs.together_flush),
        "forced_unit_access": costs.forced_unit_access,
    });
    format!("{told}\n")
}
