//! Where site lists are kept, and what is asked of a file before it is believed.
//!
//! `$XDG_CACHE_HOME/heliostat/sites/<build-id>.sites`, else under `~/.cache`, else in
//! `/tmp/heliostat-sites-<uid>`. Root's lie under `/var/cache` rather than in its home, and every
//! user reads them there: what root starts often goes on as another user. A list decides which bytes of libc are overwritten, so a file is
//! read only if it belongs to us or root and nobody else may write it. Files appear by rename:
//! a reader sees a whole list or none.

use crate::format::{self, FormatError, FILE_BYTES_MAX};
use crate::index::{self, Index, IndexError};
use crate::site::{BuildId, SiteList};
use heliostat_base::sys::{check, raw, Errno};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, fmt, process};

/// Where root keeps lists for everybody.
const SHARED: &str = "/var/cache";

/// Why a cached list cannot be used or written.
#[derive(Debug)]
pub enum CacheError {
    /// A file or directory operation failed.
    Io {
        /// On which path.
        path: PathBuf,
        /// How.
        source: io::Error,
    },
    /// The file or directory belongs to somebody else.
    Owner {
        /// Which.
        path: PathBuf,
        /// Whose it is.
        found: u32,
    },
    /// Others may write it, or it is not of the right kind.
    Mode {
        /// Which.
        path: PathBuf,
        /// Its type and mode bits.
        found: u32,
    },
    /// Its content is no site list.
    Format {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        source: FormatError,
    },
    /// Its content is no index.
    Index {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        source: IndexError,
    },
    /// It is the list of another file.
    BuildId {
        /// Of the library at hand.
        wanted: BuildId,
        /// In the list.
        found: BuildId,
    },
}

impl fmt::Display for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CacheError::Io { path, source } => write!(f, "{}: {source}", path.display()),
            CacheError::Owner { path, found } => {
                write!(f, "{}: belongs to uid {found}, not to us or root", path.display())
            }
            CacheError::Mode { path, found } => {
                write!(f, "{}: mode {found:o} lets others change it", path.display())
            }
            CacheError::Format { path, source } => write!(f, "{}: {source}", path.display()),
            CacheError::Index { path, source } => write!(f, "{}: {source}", path.display()),
            CacheError::BuildId { wanted, found } => {
                write!(f, "site list is of build-id {found}, library is {wanted}")
            }
        }
    }
}

impl std::error::Error for CacheError {}

/// The directory for site lists, made if missing.
pub fn directory() -> Result<PathBuf, CacheError> {
    for base in bases() {
        let path = base.join("heliostat/sites");
        // A home that cannot be written, or is somebody else's, is ordinary (services, sudo).
        let made = match base == Path::new(SHARED) {
            true => make_shared(&path),
            false => DirBuilder::new().recursive(true).mode(0o700).create(&path),
        };
        if made.is_ok() && owner_trusted(&path)? {
            return Ok(path);
        }
    }
    temporary_directory()
}

/// A directory that every user may read, whatever the caller's umask takes away.
fn make_shared(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path)?;
    for made in path.ancestors().take(2) {
        if fs::metadata(made)?.mode() & 0o055 != 0o055 {
            fs::set_permissions(made, Permissions::from_mode(0o755))?;
        }
    }
    Ok(())
}

/// Directories in which a list may be found, in order; none is made.
pub fn candidates() -> impl Iterator<Item = PathBuf> {
    let only = ONLY.get();
    let shared = (our_uid() != 0).then(|| PathBuf::from(SHARED));
    let all = bases().chain(shared).map(|base| base.join("heliostat/sites"));
    let all = all.chain([temporary_path()]).filter(move |_| only.is_none());
    only.cloned().into_iter().chain(all)
}

/// Looks in this directory only from now on, where the caller knows that everything is.
pub fn look_only_in(directory: PathBuf) {
    let _ = ONLY.set(directory);
}

static ONLY: OnceLock<PathBuf> = OnceLock::new();

/// The path of a build-id's list in `directory`.
pub fn file_name(directory: &Path, build_id: &BuildId) -> PathBuf {
    directory.join(format!("{build_id}.sites"))
}

/// Reads the list at `path`, which must be that of `build_id`.
pub fn load(path: &Path, build_id: &BuildId) -> Result<SiteList, CacheError> {
    load_where(path, build_id, &|_| true)
}

/// As [`load`], only those sites that `keep` wants by number: the rest is checked all the same.
pub fn load_where(
    path: &Path,
    build_id: &BuildId,
    keep: &dyn Fn(Option<u32>) -> bool,
) -> Result<SiteList, CacheError> {
    let bytes = read_trusted(path, FILE_BYTES_MAX)?;
    let list = format::decode_where(&bytes, keep)
        .map_err(|source| CacheError::Format { path: path.to_owned(), source })?;
    if list.build_id != *build_id {
        return Err(CacheError::BuildId { wanted: *build_id, found: list.build_id });
    }
    Ok(list)
}

/// The path of the index in `directory`.
fn index_name(directory: &Path) -> PathBuf {
    directory.join("index")
}

/// Reads the index in `directory`.
pub fn load_index(directory: &Path) -> Result<Index, CacheError> {
    let path = index_name(directory);
    let bytes = read_trusted(&path, index::FILE_BYTES_MAX)?;
    Index::decode(&bytes).map_err(|source| CacheError::Index { path, source })
}

/// What a file holds that nobody else could have written, one byte more than `most` at most.
fn read_trusted(path: &Path, most: usize) -> Result<Vec<u8>, CacheError> {
    let (file, length) = open_trusted(path)?;
    let failed = |source| CacheError::Io { path: path.to_owned(), source };
    read_whole(file, length.min(most)).map_err(failed)
}

/// Opens a file that nobody else could have written; its length.
pub(crate) fn open_trusted(path: &Path) -> Result<(File, usize), CacheError> {
    let failed = |source| CacheError::Io { path: path.to_owned(), source };
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    let about = status(&file).map_err(failed)?;
    check_owner(path, about.st_uid)?;
    if about.st_mode & libc::S_IFMT != libc::S_IFREG || about.st_mode & 0o022 != 0 {
        return Err(CacheError::Mode { path: path.to_owned(), found: about.st_mode });
    }
    Ok((file, about.st_size as usize))
}

/// All of a file of about `length` bytes, one more than that at most. The standard library would
/// begin with little, and read on in steps.
fn read_whole(mut file: File, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length + 1];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Writes a list into `directory`, whole or not at all, for us only (0600) unless that is the
/// directory that root shares.
pub fn store(directory: &Path, list: &SiteList) -> Result<PathBuf, CacheError> {
    let path = file_name(directory, &list.build_id);
    write_whole(directory, path, &format::encode(list), Loss::IsNoticed)
}

/// Writes the index of `directory`, as [`store`] does. Of two that write at once, one loses what it
/// has added, which is found out again when it is needed.
pub fn store_index(directory: &Path, index: &Index) -> Result<PathBuf, CacheError> {
    write_whole(directory, index_name(directory), &index.encode(), Loss::IsNoticed)
}

/// What becomes of a file whose content is lost although its name is there, as after a power failure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Its check word tells, and it is made again.
    IsNoticed,
    /// It would be executed. So it is on the disk before it has its name.
    IsFatal,
}

pub(crate) fn write_whole(
    directory: &Path,
    path: PathBuf,
    bytes: &[u8],
    loss: Loss,
) -> Result<PathBuf, CacheError> {
    let temporary = path.with_extension(format!("{}.new", process::id()));
    let _ = fs::remove_file(&temporary); // left by a killed process that had our id
    let written = create(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        if loss == Loss::IsFatal {
            file.sync_data()?;
        }
        if directory.starts_with(SHARED) {
            file.set_permissions(Permissions::from_mode(0o644))?;
        }
        fs::rename(&temporary, &path)
    });
    written.map_err(|source| {
        let _ = fs::remove_file(&temporary);
        CacheError::Io { path: path.clone(), source }
    })?;
    Ok(path)
}

fn create(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC;
    OpenOptions::new().write(true).create_new(true).mode(0o600).custom_flags(flags).open(path)
}

/// Cache homes by the environment; relative ones are to be ignored (source: XDG Base Directory).
fn bases() -> impl Iterator<Item = PathBuf> {
    let set = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let shared = (our_uid() == 0).then(|| PathBuf::from(SHARED));
    let home = set("HOME").map(|home| home.join(".cache"));
    set("XDG_CACHE_HOME").into_iter().chain(shared).chain(home)
}

fn temporary_path() -> PathBuf {
    PathBuf::from(format!("/tmp/heliostat-sites-{}", our_uid()))
}

/// `/tmp` is everybody's: the directory must be ours alone, and not a link to elsewhere.
fn temporary_directory() -> Result<PathBuf, CacheError> {
    let path = temporary_path();
    let failed = |source| CacheError::Io { path: path.clone(), source };
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(failed(e)),
        _ => {}
    }
    let about = fs::symlink_metadata(&path).map_err(failed)?;
    check_owner(&path, about.uid())?;
    if !about.is_dir() || about.mode() & 0o077 != 0 {
        return Err(CacheError::Mode { path, found: about.mode() });
    }
    Ok(path)
}

fn owner_trusted(directory: &Path) -> Result<bool, CacheError> {
    let about = fs::metadata(directory)
        .map_err(|source| CacheError::Io { path: directory.to_owned(), source })?;
    Ok(about.uid() == our_uid() && about.mode() & 0o022 == 0)
}

fn check_owner(path: &Path, uid: u32) -> Result<(), CacheError> {
    if uid != our_uid() && uid != 0 {
        return Err(CacheError::Owner { path: path.to_owned(), found: uid });
    }
    Ok(())
}

/// fstat(2) itself: the standard library and libc ask by way of a path, which sealed programs have
/// to ask their supervisor about.
fn status(file: &File) -> io::Result<libc::stat> {
    let mut status = MaybeUninit::<libc::stat>::zeroed();
    let args = [file.as_raw_fd() as usize, status.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes one `struct stat` into as many bytes.
    let answer = check(unsafe { raw(libc::SYS_fstat as usize, args) });
    answer.map_err(|Errno(number)| io::Error::from_raw_os_error(number))?;
    // SAFETY: all of it is numbers, zero until the kernel wrote them.
    Ok(unsafe { status.assume_init() })
}

fn our_uid() -> u32 {
    // SAFETY: geteuid takes nothing, touches nothing and cannot fail (geteuid(2)).
    unsafe { libc::geteuid() }
}
