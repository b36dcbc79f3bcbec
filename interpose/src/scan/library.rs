//! Examines files other than libc: most make no system call by themselves.
//!
//! Three steps, each much dearer than the one before, and most files end with the first or second:
//! the bytes of a `syscall` instruction anywhere in the text; such an instruction where a function
//! is decoded that holds these bytes; the survey of all code, as for libc. Each site must then be
//! proved (`proof`): here is text of any compiler, and by hand.

use super::elf::{self, Image};
use super::survey::{regions, Survey};
use super::{proof, read, window, ScanError};
use crate::cache;
use crate::index::Finding;
use crate::site::{BuildId, Reason, Site, SiteList, SITES_MAX, SYSCALL_BYTES};
use iced_x86::{Code, Decoder, DecoderOptions};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const SYSCALL: [u8; SYSCALL_BYTES] = [0x0f, 0x05];

/// What was found in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scanned {
    /// No `syscall` instruction.
    Nothing(BuildId),
    /// These.
    Sites(SiteList),
    /// Perhaps some: the file is of a kind that this scanner does not know.
    Unknown(BuildId),
}

/// Finds the `syscall` instructions of a library, or of a program, that is not libc.
pub fn scan_library(path: &Path) -> Result<Scanned, ScanError> {
    let file = read(path)?;
    let (build_id, segments) = elf::outline(&file)?;
    let build_id = match build_id {
        Some(found) => found,
        None => identity(path)?,
    };
    if !segments.iter().any(|text| holds_syscall(text)) {
        return Ok(Scanned::Nothing(build_id));
    }
    let image = match Image::parse_any(&file) {
        // Without the table of sections nothing tells code from data.
        Ok(image) if !image.code.is_empty() => image,
        _ => return Ok(Scanned::Unknown(build_id)),
    };
    let has_syscall = regions(&image).iter().any(|region| decodes_syscall(&image, region));
    Ok(match (has_syscall, image.functions.is_empty()) {
        (false, false) => Scanned::Nothing(build_id),
        (true, false) => sites(&image, build_id),
        // Compiled without unwind tables: it is taken as a whole, and nothing of it is patched.
        (false, true) if proof::is_code_throughout(&image) => Scanned::Nothing(build_id),
        (_, true) => Scanned::Unknown(build_id),
    })
}

/// Examines each of these files, and keeps what was found. One that cannot be read is left out.
pub fn examine(paths: &[&Path]) -> Result<(), ScanError> {
    let directory = cache::directory()?;
    let mut found: Vec<(BuildId, Finding)> = Vec::new();
    for path in paths {
        match scan_library(path) {
            Ok(Scanned::Nothing(build_id)) => found.push((build_id, Finding::Nothing)),
            Ok(Scanned::Unknown(build_id)) => found.push((build_id, Finding::Unknown)),
            Ok(Scanned::Sites(list)) => drop(cache::store(&directory, &list)?),
            Err(_) => {}
        }
    }
    if !found.is_empty() {
        // Damaged, or of another version: it begins anew.
        let mut index = cache::load_index(&directory).unwrap_or_default();
        found.into_iter().for_each(|(build_id, finding)| index.note(build_id, finding));
        cache::store_index(&directory, &index)?;
    }
    Ok(())
}

fn holds_syscall(text: &[u8]) -> bool {
    text.windows(SYSCALL_BYTES).any(|bytes| bytes == SYSCALL)
}

/// Whether the region, decoded from its beginning, has the instruction.
fn decodes_syscall(image: &Image, region: &std::ops::Range<u64>) -> bool {
    let code = image.code_in(region);
    if !holds_syscall(code) {
        return false;
    }
    let decoder = Decoder::with_ip(64, code, region.start, DecoderOptions::NONE);
    decoder.into_iter().any(|insn| insn.code() == Code::Syscall)
}

fn sites(image: &Image, build_id: BuildId) -> Scanned {
    let mut survey = Survey::of(image);
    survey.mark_all(image.relocated.as_deref().unwrap_or(&[]));
    if survey.syscalls.len() > SITES_MAX {
        return Scanned::Unknown(build_id);
    }
    let mut sites = Vec::with_capacity(survey.syscalls.len());
    let mut free_from = 0;
    for address in &survey.syscalls {
        let mut site = window::site(image, &survey, *address);
        let number = site.number;
        let refused = |reason| Site { number, ..window::bare(*address, reason) };
        if u64::from(site.start) < free_from {
            site = refused(Reason::NoRoom);
        }
        if !proof::is_proved(image, &survey, &site) {
            if proof::is_data(image, &survey, *address) {
                continue;
            }
            site = refused(Reason::Unproven);
        }
        free_from = u64::from(site.start) + u64::from(site.length);
        sites.push(site);
    }
    if sites.is_empty() {
        return Scanned::Nothing(build_id);
    }
    let text_bytes = image.text.end - image.text.start;
    Scanned::Sites(SiteList { build_id, text_start: image.text.start, text_bytes, sites })
}

/// What a file without a build-id is known by.
fn identity(path: &Path) -> Result<BuildId, ScanError> {
    let about =
        fs::metadata(path).map_err(|source| ScanError::Read { path: path.to_owned(), source })?;
    let changed_ns = about.ctime() as u64 * 1_000_000_000 + about.ctime_nsec() as u64;
    Ok(BuildId::of_file(about.dev(), about.ino(), about.size(), changed_ns))
}
