//! Roots that lie in one another: the innermost decides, and each knows what lies within it.

use std::io;
use std::path::{Path, PathBuf};

use heliostat_control::policy::Access;

use super::super::guarded::Guarded;
use super::{is_within, open_root, Root, Roots};

impl Roots {
    /// Puts inner roots in front of those that hold them, and marks what lies in each.
    pub(super) fn order(&mut self) {
        self.roots.sort_by_key(|root| std::cmp::Reverse(root.path.as_os_str().len()));
        self.mark_mixed();
        self.guarded = Guarded::of(&self.roots);
        for root in &mut self.roots {
            let is_near = self.guarded.are_on_file_system_of(&root.folder);
            root.is_guarded = root.access == Access::ReadWrite && (root.is_mixed || is_near);
        }
    }

    /// Keeps what is the supervisor's as it is where it lies in a grant for writing: it is granted
    /// for reading there. Not where everything is granted.
    pub fn guard(&mut self, path: &Path) -> io::Result<()> {
        let path = path.canonicalize()?;
        let is_writable = self
            .deciding(&path)
            .filter(|root| root.access == Access::ReadWrite && !root.is_own)
            .is_some_and(|root| root.path.as_os_str() != "/");
        if is_writable {
            let (folder, is_folder) = open_root(&self.roots, &path)?;
            self.roots.push(Root::new(path, folder, Access::ReadOnly, is_folder));
            self.order();
        }
        Ok(())
    }

    fn mark_mixed(&mut self) {
        let all: Vec<_> = self.roots.iter().map(|root| (root.path.clone(), root.access)).collect();
        for root in &mut self.roots {
            let is_inner = |path: &Path| {
                path.as_os_str() != root.path.as_os_str() && is_within(path, &root.path)
            };
            let differs =
                |(path, access): &(PathBuf, Access)| *access != root.access && is_inner(path);
            // What lies in a folder of the program's own is mounted there, which nothing crosses unseen.
            root.is_mixed = !root.is_own && all.iter().any(differs);
            let is_hidden = |(path, access): &(PathBuf, Access)| {
                *access == Access::Stat && root.access != Access::Stat && is_inner(path)
            };
            root.has_hidden = all.iter().any(is_hidden);
            let mut others = all.iter().map(|(path, _)| path.as_path());
            root.has_inner = is_inner(Path::new("/proc")) || others.any(is_inner);
        }
    }
}
