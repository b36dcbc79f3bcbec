//! Whether the cache of the server loops serves a file's reads, and why not.

use heliostat_abi::code::Unmapped;

/// Whether the cache serves a file's reads, and why not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// A lease says that nobody writes.
    Leased,
    /// There was a lease, and a writer has come.
    Broken,
    /// It was opened for writing.
    Writable,
    /// It was opened for the device.
    Direct,
    /// It was, and the program may read it by itself.
    Lent,
    /// It was empty.
    Empty,
    /// A lease says nothing of stores by mappings.
    Overlay,
    /// It is a directory.
    Directory,
    /// The kernel gives no lease.
    NotLeased(Unmapped),
}

impl Why {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Leased => "the cache serves it: a lease says that nobody writes",
            Self::Broken => "the kernel reads it: somebody has opened it for writing since",
            Self::Writable => "the kernel serves it: it was opened for writing",
            Self::Direct => "the device serves it: it was opened so",
            Self::Lent => {
                "the device serves it: it was opened so; reads of the program's own io_uring are \
                 not counted here"
            }
            Self::Empty => "the kernel reads it: it was empty when it was opened",
            Self::Overlay => "the kernel reads it: on overlay a mapping may write it under a lease",
            Self::Directory => "its entries are read beside the server loop: it is a directory",
            Self::NotLeased(Unmapped::Written) => {
                "the kernel reads it: somebody has it open for writing"
            }
            Self::NotLeased(reason) => reason.text(),
        }
    }
}
