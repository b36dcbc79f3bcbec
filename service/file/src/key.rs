//! What makes a file the same one.

/// A file, by the kernel's numbers. Both stay its own as long as somebody has it open.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct FileKey {
    /// Device (st_dev).
    pub device: u64,
    /// Inode (st_ino).
    pub inode: u64,
}
