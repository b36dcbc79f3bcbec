//! What the caller of openat2(2) forbids on the way.

/// What a path of openat2(2) must not lead through; nothing is forbidden to all others.
#[derive(Clone, Copy, Default, Debug)]
pub struct Rules {
    /// Symbolic links, of /proc's own kind too.
    pub no_links: bool,
    /// Links of /proc that lead to an object and not to a name.
    pub no_magic: bool,
    /// Another file system than that of the directory where the path begins.
    pub one_device: bool,
}

impl Rules {
    /// Whether everything is allowed.
    pub fn are_none(self) -> bool {
        !(self.no_links || self.no_magic || self.one_device)
    }
}
