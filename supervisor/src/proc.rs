//! /proc as the supervisor reads it itself: with its own rights, for whomever it acts.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, DirEntry, Mode, OFlags};

use crate::acting::as_supervisor;

/// Bytes of an entry of /proc that are read.
const ENTRY_MAX: usize = 1 << 20;

/// An entry of /proc; one read for all but the longest.
pub fn read_proc(proc: &OwnedFd, entry: &str) -> Option<Vec<u8>> {
    const STEP: usize = 4096;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let open = || rustix::fs::openat(proc, entry, flags, Mode::empty());
    let file = as_supervisor(open).ok()?;
    let mut text = Vec::new();
    loop {
        let end = text.len();
        text.resize(end + STEP, 0);
        let length = rustix::io::read(&file, &mut text[end..]).ok()?;
        text.truncate(end + length);
        // What fits is given at once (proc(5) entries are made anew by each read from the start).
        if length < STEP || text.len() > ENTRY_MAX {
            return Some(text);
        }
    }
}

/// The entries of a folder of /proc that are numbers; none if there is no such folder.
pub fn numbers_in(proc: &OwnedFd, folder: &str) -> Vec<i32> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = as_supervisor(|| rustix::fs::openat(proc, folder, flags, Mode::empty()));
    let Some(entries) = opened.ok().and_then(|fd| Dir::read_from(fd).ok()) else {
        return Vec::new();
    };
    let number = |entry: DirEntry| entry.file_name().to_str().ok()?.parse().ok();
    entries.filter_map(|entry| number(entry.ok()?)).collect()
}

/// A name of this process's own for an open descriptor: what calls by path need.
pub fn own_name(fd: &OwnedFd) -> PathBuf {
    Path::new("/proc/self/fd").join(fd.as_raw_fd().to_string())
}
