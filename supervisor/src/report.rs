//! The refusals of a sealed program as a file of this user's, for `heliostat explain`.
//!
//! A line each, the first of its kind only; in the folder that is private to the user, under the
//! supervisor's number. A file and no socket: it needs nobody who answers, and its reader may
//! come at any time.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{flock, FlockOperation, OFlags};

use crate::tree;

/// Ancestors that are looked at before a process counts as not sealed.
const ANCESTORS_MAX: usize = 256;

/// How a report's name begins and ends; its supervisor's number lies between.
const NAME: (&str, &str) = ("sealed-", ".refused");

/// The file, locked as long as its supervisor lives; dropping it removes it.
#[derive(Debug)]
pub struct Report(PathBuf, File);

impl Report {
    /// An empty one for this process; none where none can be made.
    pub(crate) fn create(folder: &Path) -> Option<Self> {
        remove_left_behind(folder);
        let path = place(folder, std::process::id());
        // Left behind by a process that had this number, where there are no locks.
        let _ = fs::remove_file(&path);
        let mut options = OpenOptions::new();
        let file = options.append(true).create_new(true).mode(0o600).open(&path).ok()?;
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        Some(Self(path, file))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn lines(&self) -> Option<File> {
        self.1.try_clone().ok()
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn place(folder: &Path, supervisor: u32) -> PathBuf {
    folder.join(format!("{}{supervisor}{}", NAME.0, NAME.1))
}

/// Removes what killed supervisors have left: nobody holds its lock any more.
fn remove_left_behind(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(NAME.0)?.strip_suffix(NAME.1));
        let is_report = number.is_some_and(|number| number.parse::<u32>().is_ok());
        // Where others may make names, one may be a link, or a FIFO that nobody writes to.
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let open =
            || OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(entry.path());
        let lock = |file: File| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if is_report && open().is_ok_and(lock) {
            let _ = fs::remove_file(entry.path());
        }
    }
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
    fn only_reports_of_supervisors_that_were_killed_are_cleared_away() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["sealed-4000001.refused", "sealed-letters.refused", "notes"] {
            fs::write(folder.path().join(name), "x").unwrap();
        }
        let pipe = folder.path().join("sealed-4000003.refused");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, rustix::fs::Mode::RUSR, 0).unwrap();
        let alive = File::create(folder.path().join("sealed-4000002.refused")).unwrap();
        flock(&alive, FlockOperation::LockExclusive).unwrap();
        drop(Report::create(folder.path()).unwrap());
        let found = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut found: Vec<_> = found.collect();
        found.sort();
        assert_eq!(found, ["notes", "sealed-4000002.refused", "sealed-letters.refused"]);
    }

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
