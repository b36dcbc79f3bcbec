//! Roots that may only be looked at.

use std::os::fd::AsFd;
use std::path::Path;

use heliostat_control::policy::Access;

use super::super::host_path;
use super::Roots;

impl Roots {
    /// Directories where something may only be looked at are walked to by all their names.
    pub(super) fn drop_aliases(&mut self) {
        let hidden = self.roots.iter().filter(|root| root.access == Access::Stat);
        let hidden: Vec<_> = hidden.map(|root| root.path.clone()).collect();
        let is_near =
            |at: &Path| hidden.iter().any(|path| path.starts_with(at) || at.starts_with(path));
        self.aliases.retain(|(_, fd)| host_path(fd).is_some_and(|at| !is_near(&at)));
    }

    /// Whether what is open may only be looked at, by whatever name it was found.
    pub fn is_looked_at(&self, fd: impl AsFd) -> bool {
        if self.roots.iter().all(|root| root.access != Access::Stat) {
            return false;
        }
        let status = rustix::fs::fstat(&fd).ok();
        let part = status.and_then(|status| self.guarded.name_of(&status).map(Path::to_owned));
        let name = part.or_else(|| host_path(&fd));
        let root = name.as_deref().and_then(|name| self.deciding(name));
        root.is_some_and(|root| root.access == Access::Stat)
    }
}
