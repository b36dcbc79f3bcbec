//! What an open device is and can, for whoever has it.

use std::path::Path;

use heliostat_backend_uring::By;

use super::{measure, open, Driven, Durability, FileDevice, OpenError};

impl FileDevice {
    /// How a namespace of an NVMe device (/dev/ng0n1) would be driven by this process: its commands are
    /// tried, one sector is read. It may be in use, and is not taken.
    ///
    /// # Errors
    /// It is not there or no such namespace, or it can be driven in no way.
    pub fn probe_namespace(path: &Path) -> Result<Driven, OpenError> {
        open::probe(path)
    }

    /// Whether bytes go past the page cache.
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Whether it is a namespace that is driven by its own commands, past the kernel's block layer.
    pub fn is_namespace(&self) -> bool {
        self.namespace.is_some()
    }

    /// Which way it is driven, and why that one.
    pub fn driven(&self) -> Driven {
        self.driven
    }

    /// Whether it is a disk, and not a file.
    pub fn is_disk(&self) -> bool {
        self.is_disk
    }

    /// Whether bytes can be given back to it, as far as it says so itself: a disk may refuse a part.
    pub fn discards(&self) -> bool {
        match self.namespace {
            Some(is) => is.gives_back.is_some(),
            None => !self.is_disk || measure::discards(&self.file),
        }
    }

    /// Whether the disk has forced unit access, by which a durable write needs no flush; unknown where the
    /// kernel does not tell.
    pub fn forced_unit_access(&self) -> Option<bool> {
        match self.namespace {
            Some(_) => Some(true),
            None => measure::forced_unit_access(&self.file),
        }
    }

    /// How requests are made.
    pub fn by(&self) -> By {
        self.requests.by()
    }

    /// How writes are made durable.
    pub fn durability(&self) -> Durability {
        self.durability
    }
}
