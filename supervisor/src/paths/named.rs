//! What the names in a policy stand for, when a program starts.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use heliostat_control::policy::PathGrant;

/// What each grant leads to. Most are plain names in few folders, each of which is resolved once.
pub fn resolve(grants: &[PathGrant]) -> Vec<io::Result<PathBuf>> {
    let mut folders = HashMap::new();
    let mut resolved = Vec::with_capacity(grants.len());
    for grant in grants {
        resolved.push(match plain_name(&grant.path) {
            Some((above, name)) => resolve_in(&mut folders, above, name),
            None => grant.path.canonicalize(),
        });
    }
    resolved
}

fn resolve_in<'a>(
    folders: &mut HashMap<&'a Path, PathBuf>,
    above: &'a Path,
    name: &OsStr,
) -> io::Result<PathBuf> {
    let folder = match folders.get(above) {
        Some(known) => known,
        None => folders.entry(above).or_insert(above.canonicalize()?),
    };
    let path = folder.join(name);
    match std::fs::symlink_metadata(&path)?.is_symlink() {
        // Leads to something else for each program.
        true if own_link(&path).is_some() => Err(io::ErrorKind::NotFound.into()),
        true => path.canonicalize(),
        false => Ok(path),
    }
}

/// Folder and name of an absolute path without `.`, `..` and empty components.
fn plain_name(path: &Path) -> Option<(&Path, &OsStr)> {
    let text = path.as_os_str().as_bytes();
    let is_odd = |name: &[u8]| matches!(name, b"" | b"." | b"..");
    if text.strip_prefix(b"/")?.split(|byte| *byte == b'/').any(is_odd) {
        return None;
    }
    path.parent().zip(path.file_name())
}

/// The same name without `..`: what is before the last of them is what it leads to.
pub fn without_ways_up(path: &Path) -> PathBuf {
    let parts: Vec<_> = path.components().collect();
    let after_last = parts.iter().rposition(|part| *part == Component::ParentDir).map(|at| at + 1);
    let (before, after) = parts.split_at(after_last.unwrap_or(0));
    let before = before.iter().collect::<PathBuf>();
    match before.as_os_str().is_empty() {
        true => path.to_owned(),
        false => before.canonicalize().unwrap_or(before).join(after.iter().collect::<PathBuf>()),
    }
}

/// The text of a link to what each process has of its own: /dev/fd, /etc/mtab.
pub fn own_link(path: &Path) -> Option<PathBuf> {
    let text = std::fs::read_link(path).ok()?;
    let mut leads_to = PathBuf::from(path.parent()?);
    for part in text.components() {
        match part {
            Component::ParentDir => drop(leads_to.pop()),
            part => leads_to.push(part),
        }
    }
    let own = ["/proc/self", "/proc/thread-self", "/proc/mounts"];
    own.iter().any(|own| leads_to.starts_with(own)).then_some(text)
}

/// Whether a path in /proc is that of a process: these have numbers.
pub fn is_of_a_process(path: &Path) -> bool {
    let is_number = |part: &OsStr| part.as_bytes().iter().all(u8::is_ascii_digit);
    path.iter().any(is_number)
}
