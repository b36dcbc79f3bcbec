//! `heliostat snapshot save`: a version of a region becomes a file.

use std::collections::VecDeque;
use std::io::BufWriter;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use heliostat_base::clock::monotonic_ns;
use heliostat_snapfile::{Base, FileError, Header, SnapFile, Written};
use heliostat_stub_snapshot::{AttachError, Attachment, Version};

use super::error::SnapshotError;
use super::live::{attached, await_newer, plain_name};
use super::pending::Pending;
use super::pipeline::{self, Packing};
use super::{files, progress};
use crate::args::snapshot::SaveArguments;
use crate::show::print;
use crate::table::bytes;

/// What files of snapshots are called.
const SUFFIX: &str = "hsnap";
/// Collects the small writes between frames.
const BUFFER_BYTES: usize = 1 << 18;

/// Saves once, or again and again.
pub fn save(asked: &SaveArguments) -> Result<(), SnapshotError> {
    let region = &asked.region;
    let attachment = attached(&region.place, &region.region, region.owner)?;
    match asked.every {
        None => save_once(asked, &attachment).map(drop),
        Some(every) => {
            let mut written = VecDeque::new();
            loop {
                let started = Instant::now();
                let (path, number) = save_once(asked, &attachment)?;
                written.push_back(path);
                let keep = asked.keep.map_or(usize::MAX, |keep| keep as usize);
                while written.len() > keep {
                    let oldest: Option<PathBuf> = written.pop_front();
                    oldest.into_iter().for_each(|path| drop(std::fs::remove_file(path)));
                }
                std::thread::sleep(every.saturating_sub(started.elapsed()));
                // The same version again would be the same file again.
                newer(asked, &attachment, number)?;
            }
        }
    }
}

/// Saves one version; answers where, and which it was.
fn save_once(asked: &SaveArguments, region: &Attachment) -> Result<(PathBuf, u64), SnapshotError> {
    let base = asked.incremental.as_deref().map(|path| files::open(path).map(|file| (path, file)));
    let base = base.transpose()?;
    let name = plain_name(&asked.region.region);
    if let Some((path, file)) = &base {
        check_base(path, file.header(), name, region)?;
    }
    let version = choose(asked, region)?;
    let number = version.number();
    let target = target(asked, name, number);
    let mut header = header(name, region, &version);
    if let Some((path, file)) = &base {
        if path.canonicalize().is_ok_and(|base| target.canonicalize().is_ok_and(|it| it == base)) {
            let why = "the new file would take its place".to_owned();
            return Err(SnapshotError::Unlike { path: path.to_path_buf(), why });
        }
        let name = files::relative(path, &target).as_os_str().as_bytes().to_vec();
        header.depth = file.header().depth + 1;
        header.base = Some(Base { identity: file.identity(), name });
    }
    let packing = Packing {
        level: (!asked.no_compress).then_some(asked.compress),
        base: base.as_ref().map(|(_, file)| file.index()),
    };
    let written = write(version, header, &packing, &target)?;
    let told = print(&format!(
        "{}: {} of {} that are not zero, in a file of {}\n",
        target.display(),
        bytes(written.stored_bytes),
        bytes(written.nonzero_bytes),
        bytes(written.file_bytes)
    ));
    told.map(|()| (target, number)).map_err(SnapshotError::from)
}

fn write(
    version: Version,
    header: Header,
    packing: &Packing<'_>,
    target: &Path,
) -> Result<Written, SnapshotError> {
    let pending = Pending::create(target).map_err(SnapshotError::of_output(target))?;
    let bar = progress::bar("saving", header.length);
    let sink = BufWriter::with_capacity(BUFFER_BYTES, pending.file());
    let written = pipeline::write(version, header, packing, sink, |bytes| {
        bar.inc(bytes);
        !pending.is_interrupted()
    });
    bar.finish_and_clear();
    let written = written.map_err(|error| match error {
        FileError::Io(error) if error.kind() == std::io::ErrorKind::Interrupted => {
            SnapshotError::Interrupted
        }
        error => SnapshotError::of_output(target)(error),
    })?;
    pending.commit().map_err(SnapshotError::of_output(target))?;
    Ok(written)
}

/// The version that is asked for, pinned.
fn choose(asked: &SaveArguments, region: &Attachment) -> Result<Version, SnapshotError> {
    if asked.wait && asked.every.is_none() {
        newer(asked, region, region.latest_number())?;
    }
    let version = asked.version.map_or_else(|| region.latest(), |number| region.numbered(number));
    version.map_err(|error: AttachError| {
        let (name, alive) = (asked.region.region.clone(), region.alive());
        SnapshotError::Version { name, alive, error }
    })
}

/// Waits for a version newer than `number`.
fn newer(asked: &SaveArguments, region: &Attachment, number: u64) -> Result<(), SnapshotError> {
    match await_newer(region, number) {
        true => Ok(()),
        false => Err(SnapshotError::Ended { name: asked.region.region.clone() }),
    }
}

fn check_base(
    path: &Path,
    base: &Header,
    name: &str,
    region: &Attachment,
) -> Result<(), SnapshotError> {
    let length = region.shape().length;
    let why = match base {
        base if base.name != name => format!("it is of region {}", base.name),
        base if base.length != length => {
            format!("it is of {} bytes, the region has {length}", base.length)
        }
        base if base.depth >= heliostat_snapfile::DEPTH_MAX => {
            format!("{} files stand below it already", base.depth)
        }
        _ => return Ok(()),
    };
    Err(SnapshotError::Unlike { path: path.to_owned(), why })
}

fn header(name: &str, region: &Attachment, version: &Version) -> Header {
    let age = monotonic_ns().saturating_sub(version.published_ns());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Header {
        name: name.to_owned(),
        length: region.shape().length,
        generation: region.generation(),
        number: version.number(),
        published_unix_ns: (now.as_nanos() as u64).saturating_sub(age),
        published_ns: version.published_ns(),
        description: region.description(),
        ..Header::default()
    }
}

/// Where version `number` goes.
fn target(asked: &SaveArguments, name: &str, number: u64) -> PathBuf {
    let plain = name.replace('/', "-");
    match (&asked.file, asked.every) {
        (Some(file), None) => file.clone(),
        (None, _) => PathBuf::from(format!("{plain}-{number}.{SUFFIX}")),
        (Some(stem), Some(_)) => {
            let is_suffixed = stem.extension().is_some_and(|it| it == SUFFIX);
            let stem = if is_suffixed { stem.with_extension("") } else { stem.clone() };
            let mut name = stem.file_name().unwrap_or_default().to_owned();
            name.push(format!("-{number}.{SUFFIX}"));
            stem.with_file_name(name)
        }
    }
}

/// What a file says of itself, for `show`.
pub fn summary<R>(file: &SnapFile<R>) -> String
where
    R: heliostat_snapfile::ReadAt,
{
    let header = file.header();
    let name: String = header.name.chars().filter(|c| !c.is_control()).collect();
    let (generation, number) = (header.generation, header.number);
    let (length, stored) = (bytes(header.length), bytes(file.file_bytes()));
    format!("{name} generation {generation} version {number}: {length}, in a file of {stored}")
}
