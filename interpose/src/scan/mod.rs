//! Finds the system calls of a shared library by decoding it, once per build-id.
//!
//! A search for the bytes 0f 05 would not do: three of those in Debian 12's libc are parts of
//! other instructions. Decoding takes some 20 ms, too long for every start of a program, hence
//! the cache. Nothing of this is needed, or built, where the cache is read.

mod elf;
mod library;
mod proof;
mod survey;
mod window;

use crate::cache::{self, CacheError};
use crate::site::{Reason, SiteList, SITES_MAX};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

pub use library::{examine, scan_library, Scanned};

/// Bytes at the beginning of a library in which its build-id is looked for.
const HEAD_BYTES: usize = 4096;

/// Why a library could not be scanned.
#[derive(Debug)]
pub enum ScanError {
    /// The file cannot be read.
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not an ELF file, or a damaged one.
    Elf(goblin::error::Error),
    /// It is an ELF file of a kind that this scanner does not know.
    Unsupported {
        /// What about it.
        what: &'static str,
    },
    /// A table leads outside the file.
    Truncated {
        /// To where.
        address: u64,
    },
    /// It carries no build-id, so that nothing can be cached for it.
    NoBuildId,
    /// The result cannot be kept.
    Cache(CacheError),
}

impl fmt::Display for ScanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScanError::Read { path, source } => write!(f, "{}: {source}", path.display()),
            ScanError::Elf(source) => write!(f, "not a usable ELF file: {source}"),
            ScanError::Unsupported { what } => write!(f, "library not supported: {what}"),
            ScanError::Truncated { address } => {
                write!(f, "library is truncated (nothing at {address:#x})")
            }
            ScanError::NoBuildId => write!(f, "library has no build-id"),
            ScanError::Cache(source) => source.fmt(f),
        }
    }
}

impl std::error::Error for ScanError {}

impl From<CacheError> for ScanError {
    fn from(source: CacheError) -> ScanError {
        ScanError::Cache(source)
    }
}

/// Finds all `syscall` instructions of the library at `path`.
pub fn scan_file(path: &Path) -> Result<SiteList, ScanError> {
    scan_bytes(&read(path)?)
}

/// As [`scan_file`], for a library already in memory.
pub fn scan_bytes(file: &[u8]) -> Result<SiteList, ScanError> {
    let image = elf::Image::parse(file)?;
    let survey = survey::Survey::of(&image);
    if survey.syscalls.len() > SITES_MAX {
        return Err(ScanError::Unsupported { what: "more system calls than a list may hold" });
    }
    let mut sites = Vec::with_capacity(survey.syscalls.len());
    let mut free_from = 0;
    for address in &survey.syscalls {
        let mut site = window::site(&image, &survey, *address);
        if u64::from(site.start) < free_from {
            site = window::bare(*address, Reason::NoRoom);
        }
        free_from = u64::from(site.start) + u64::from(site.length);
        sites.push(site);
    }
    Ok(SiteList {
        build_id: image.build_id.ok_or(ScanError::NoBuildId)?,
        text_start: image.text.start,
        text_bytes: image.text.end - image.text.start,
        sites,
    })
}

/// Makes sure that the cache holds the sites of the library at `path`; scans it only if not.
///
/// A cached list that cannot be used (damaged, another version) is replaced. The directory is
/// the one that [`crate::cache::directory`] names.
pub fn ensure_cached(path: &Path) -> Result<PathBuf, ScanError> {
    ensure_cached_in(&cache::directory()?, path)
}

/// As [`ensure_cached`], in a directory of the caller's choice, which must exist.
pub fn ensure_cached_in(directory: &Path, path: &Path) -> Result<PathBuf, ScanError> {
    let known = head(path)?.and_then(|head| elf::build_id_in(&head));
    if let Some(build_id) = known {
        let cached = cache::file_name(directory, &build_id);
        if cache::load(&cached, &build_id).is_ok() {
            return Ok(cached);
        }
    }
    Ok(cache::store(directory, &scan_bytes(&read(path)?)?)?)
}

/// How the file begins: what is enough to know whether its sites are known. Reading all of it
/// takes longer than the start of a program. `None` if it is shorter.
fn head(path: &Path) -> Result<Option<Vec<u8>>, ScanError> {
    let failed = |source| ScanError::Read { path: path.to_owned(), source };
    let mut head = vec![0; HEAD_BYTES];
    match fs::File::open(path).map_err(failed)?.read_exact(&mut head) {
        Ok(()) => Ok(Some(head)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ScanError> {
    fs::read(path).map_err(|source| ScanError::Read { path: path.to_owned(), source })
}
