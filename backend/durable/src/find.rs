//! The file that an entry means, found by its path, and by what tells it from others.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirEntryExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use heliostat_base::call::{birth, Birth};

/// What was found.
pub enum Found {
    /// The file, and its path now.
    File(File, PathBuf),
    /// There is no such file.
    Missing,
    /// Another file has that path.
    Another,
    /// It cannot be opened.
    Failed(i32),
}

/// Looks at the path, then among the files of the same folder, where a rename may have left it. In
/// another run of the machine the number of the file system may be another.
pub fn find(path: &Path, wanted: Birth, is_this_run: bool) -> Found {
    let is_wanted = |file: &File| {
        birth(file.as_raw_fd()).is_some_and(|(found, _)| {
            let is_device = !is_this_run || found.device == wanted.device;
            is_device && (found.inode, found.born) == (wanted.inode, wanted.born)
        })
    };
    let here = open(path);
    match here {
        Ok(file) if is_wanted(&file) => return Found::File(file, path.to_owned()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Found::Failed(error.raw_os_error().unwrap_or(libc::EIO));
        }
        _ => {}
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let renamed = entries.filter(|entry| entry.ino() == wanted.inode).find_map(|entry| {
        let file = open(&entry.path()).ok().filter(is_wanted)?;
        Some(Found::File(file, entry.path()))
    });
    renamed.unwrap_or(if here.is_ok() { Found::Another } else { Found::Missing })
}

fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}
