//! Many paths of a folder become the folder.
//!
//! The rule: a folder of which at least eight direct entries were asked for, or lead to something
//! that was asked for, in the same way (writing, reading, or a look) is taken as a whole, deepest
//! folders first. Never taken are `/`, the folders directly in it (`/home`, `/etc`, `/tmp`), and
//! those that the caller spares: asking for eight files of a home folder is no reason to show the
//! keys in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{Times, Wanted};
use crate::policy::Access;

/// So many entries of a folder are the folder.
pub(super) const FROM: usize = 8;

/// The paths after folding: writing first, since what is written may be read.
pub(super) fn folded(
    paths: &BTreeMap<PathBuf, Wanted>,
    from: usize,
    spared: &[PathBuf],
) -> BTreeMap<PathBuf, Wanted> {
    let mut paths = paths.clone();
    for access in [Access::ReadWrite, Access::ReadOnly, Access::Stat] {
        for folder in full_folders(&paths, access, from) {
            if !is_spared(&folder, spared) {
                absorb(&mut paths, folder, access);
            }
        }
    }
    paths
}

/// Whether a folder is too much to be granted for what was asked below it.
pub(super) fn is_spared(folder: &Path, spared: &[PathBuf]) -> bool {
    is_top(folder) || spared.iter().any(|kept| kept.starts_with(folder))
}

/// Whether it is `/` or a folder directly in it.
pub(super) fn is_top(folder: &Path) -> bool {
    folder.components().count() < 3
}

/// Folders with enough entries that lead to paths of this access, deepest first.
fn full_folders(paths: &BTreeMap<PathBuf, Wanted>, access: Access, from: usize) -> Vec<PathBuf> {
    let mut children: BTreeMap<&Path, BTreeSet<&Path>> = BTreeMap::new();
    let same = paths.iter().filter(|(_, one)| one.access == access && !one.listed);
    for (path, _) in same {
        for (child, folder) in path.ancestors().zip(path.ancestors().skip(1)) {
            let known = children.entry(folder).or_default();
            // Everything further up was entered when this child first was.
            if !known.insert(child) {
                break;
            }
        }
    }
    let full = children.iter().filter(|(_, entries)| entries.len() >= from);
    let mut full: Vec<_> = full.map(|(folder, _)| folder.to_path_buf()).collect();
    full.sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
    full
}

/// Puts a folder in the place of what it covers.
fn absorb(paths: &mut BTreeMap<PathBuf, Wanted>, folder: PathBuf, access: Access) {
    let covered = |path: &Path, one: &Wanted| path.starts_with(&folder) && one.access <= access;
    let mut whole = Wanted { access, listed: false, times: Times::default(), folded: 0 };
    for (path, one) in paths.iter().filter(|(path, one)| covered(path, one)) {
        whole.times.add(one.times);
        whole.folded += if *path == folder { one.folded } else { one.folded.max(1) };
    }
    paths.retain(|path, one| !covered(path, one));
    // The folder itself may be wanted for more than what is folded into it.
    let greater = paths.get(&folder).is_some_and(|one| one.access > access);
    if !greater {
        paths.insert(folder, whole);
    }
}
