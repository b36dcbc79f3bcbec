//! The refusals of a sealed program as a file of this user's, for `heliostat explain`.
//!
//! A line each, the first of its kind only; in the folder that is private to the user, under the
//! supervisor's number. A file and no socket: it needs nobody who answers, and its reader may
//! come at any time.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::tree;

/// Ancestors that are looked at before a process counts as not sealed.
const ANCESTORS_MAX: usize = 256;

/// The file; dropping it removes it.
#[derive(Debug)]
pub struct Report(PathBuf);

impl Report {
    /// An empty one for this process; none where none can be made.
    pub(crate) fn create(folder: &Path) -> Option<Self> {
        let path = place(folder, std::process::id());
        // Left behind by a killed process that had this number.
        let _ = fs::remove_file(&path);
        let mut options = OpenOptions::new();
        options.append(true).create_new(true).mode(0o600).open(&path).ok()?;
        Some(Self(path))
    }

    pub(crate) fn lines(&self) -> Option<File> {
        OpenOptions::new().append(true).open(&self.0).ok()
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn place(folder: &Path, supervisor: u32) -> PathBuf {
    folder.join(format!("sealed-{supervisor}.refused"))
}

/// The refusals of a sealed process, a line each; nothing if no supervisor above it keeps its file
/// in `folder`.
pub fn of_process(folder: &Path, process: i32) -> Option<String> {
    let mut at = process;
    for _ in 0..ANCESTORS_MAX {
        at = tree::parent_of(at).filter(|parent| *parent > 0)?;
        if let Ok(text) = fs::read_to_string(place(folder, at.unsigned_abs())) {
            return Some(text);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn refusals_are_found_from_a_process_below_the_supervisor() {
        let folder = tempfile::tempdir().unwrap();
        let report = Report::create(folder.path()).unwrap();
        report.lines().unwrap().write_all(b"connect: refused\n").unwrap();
        let mut below = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = of_process(folder.path(), below.id() as i32);
        below.kill().unwrap();
        below.wait().unwrap();
        assert_eq!(found.as_deref(), Some("connect: refused\n"));
        assert_eq!(of_process(folder.path(), 1), None);
        drop(report);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
