//! What a path stands for: a folder, or a file that is a source of bytes.

use std::sync::Arc;
use std::time::SystemTime;

use crate::NameFault;

/// What a path stands for.
#[derive(Clone)]
pub enum Found {
    /// Names, one below the other.
    Folder,
    /// Bytes.
    File(Arc<dyn File>),
}

/// One line of a folder.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Entry {
    /// Its name within the folder, without slashes.
    pub name: String,
    /// Whether it is a folder too.
    pub is_folder: bool,
}

/// What is known of a file without opening it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// What it is: two files with the same key are the same, and a constant one has the same bytes.
    pub key: String,
    /// How many bytes it has now.
    pub bytes: u64,
    /// The user to whom it belongs; `None` for whoever asks.
    pub user: Option<u32>,
    /// Whether who asks may read it.
    pub is_readable: bool,
    /// Whether who asks may write it.
    pub is_writable: bool,
    /// When its bytes were made, where that is known.
    pub changed: Option<SystemTime>,
    /// Its bytes never change: they may be kept.
    pub is_constant: bool,
}

/// What a file is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// To be read.
    Read,
    /// To be written.
    Write,
    /// For both.
    Both,
}

impl Access {
    /// Whether bytes are to be read.
    pub fn reads(self) -> bool {
        self != Self::Write
    }

    /// Whether bytes are to be written.
    pub fn writes(self) -> bool {
        self != Self::Read
    }
}

/// A file as it was when it was looked at.
pub trait File: Send + Sync {
    /// Returns what is known of it.
    fn facts(&self) -> Facts;

    /// Opens it. Until the answer is dropped, a constant file's bytes stay.
    ///
    /// # Errors
    /// `Stale` when it is gone meanwhile; `Denied`, `ReadOnly`.
    fn open(&self, access: Access) -> Result<Box<dyn Bytes>, NameFault>;

    /// Makes it so long.
    ///
    /// # Errors
    /// `ReadOnly`, `Length`, `Denied`, `Full`.
    fn resize(&self, _bytes: u64) -> Result<(), NameFault> {
        Err(NameFault::ReadOnly)
    }
}

/// An open file. Any threads may use it at once.
pub trait Bytes: Send + Sync {
    /// Returns how many bytes there are now.
    ///
    /// # Errors
    /// `Broken` when who holds them is gone.
    fn size(&self) -> Result<u64, NameFault>;

    /// Reads from an offset on; returns how many bytes, which are fewer only at the end.
    ///
    /// # Errors
    /// `Broken`, `Late`, `Stale`.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, NameFault>;

    /// Writes from an offset on; returns how many bytes, which are fewer only at the end.
    ///
    /// # Errors
    /// `End` where none is left; `ReadOnly`; as `read_at`.
    fn write_at(&self, _offset: u64, _from: &[u8]) -> Result<usize, NameFault> {
        Err(NameFault::ReadOnly)
    }

    /// Returns when all that was written is where it lasts, if there is such a place.
    ///
    /// # Errors
    /// The device's.
    fn synchronize(&self) -> Result<(), NameFault> {
        Ok(())
    }
}

/// How many of `wanted` bytes from an offset on lie in a file of so many.
pub(crate) fn within(offset: u64, wanted: usize, bytes: u64) -> usize {
    let left = usize::try_from(bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
    wanted.min(left)
}
