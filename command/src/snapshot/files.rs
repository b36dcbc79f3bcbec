//! Snapshot files on disk: opened with what they build on.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use heliostat_snapfile::{Chain, SnapFile};

use super::error::SnapshotError;

/// Opens one file. What it names may be anything, so it is not waited for (a pipe would).
pub fn open(path: &Path) -> Result<SnapFile<File>, SnapshotError> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path);
    file.map_err(Into::into)
        .and_then(|file| match file.metadata()?.is_file() {
            true => SnapFile::open(file),
            false => Err(std::io::Error::other("it is no ordinary file").into()),
        })
        .map_err(SnapshotError::of_file(path))
}

/// Opens a file and its bases, each looked for where the one above says, else beside that one.
pub fn open_chain(path: &Path) -> Result<Chain<File>, SnapshotError> {
    let mut at = path.to_owned();
    let mut failed: Option<SnapshotError> = None;
    let chain = Chain::resolve(open(path)?, |base| {
        let below = find(&at, OsStr::from_bytes(&base.name));
        let found = below.ok_or_else(|| SnapshotError::NoBase {
            path: at.clone(),
            base: PathBuf::from(OsStr::from_bytes(&base.name)),
        });
        let opened = found.and_then(|below| {
            at = below;
            open(&at)
        });
        opened.map_err(|error| {
            failed = Some(error);
            heliostat_snapfile::FileError::NoBase
        })
    });
    match (chain, failed) {
        (Ok(chain), _) => Ok(chain),
        (Err(_), Some(error)) => Err(error),
        (Err(error), None) => Err(SnapshotError::File { path: at, error }),
    }
}

fn find(above: &Path, base: &OsStr) -> Option<PathBuf> {
    let beside = |name: &OsStr| above.with_file_name("").join(name);
    let stored = beside(base);
    let near = Path::new(base).file_name().map(beside);
    std::iter::once(stored).chain(near).find(|path| path.exists())
}

/// The path of `base` as a file beside `target` would name it: short where both share a folder.
pub fn relative(base: &Path, target: &Path) -> PathBuf {
    let whole = |path: &Path| path.canonicalize().ok();
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = whole(folder.unwrap_or(Path::new(".")));
    match (whole(base), folder) {
        (Some(base), Some(folder)) => {
            base.strip_prefix(&folder).map_or(base.clone(), Path::to_owned)
        }
        _ => base.to_owned(),
    }
}
