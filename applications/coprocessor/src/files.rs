//! Files as a worker sees them: whatever way their bytes take, one interface.
//!
//! | way | where the file system is | what a read costs |
//! |---|---|---|
//! | `lean` | at the host, behind rings | a record, the bytes in the window |
//! | [`relayed`] | at the worker: blocks come by messages | a message and two copies for each block |
//! | [`plain`] | in the worker's own kernel | a system call |

pub mod plain;
pub mod relayed;

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    Read,
    /// A new file; one of that name is an error (`AlreadyExists`).
    Create,
    /// A new file in the place of one that may be there.
    Replace,
}

/// Takes a file's place among the names, and its bytes.
pub type Each<'a> = dyn FnMut(usize, &[u8]) -> io::Result<()> + 'a;

/// A directory's files, by names without a slash in front.
pub trait Files: Debug + Send + Sync {
    /// Opens a file.
    ///
    /// # Errors
    /// As open(2) says.
    fn open(&self, name: &str, opening: Opening) -> io::Result<Arc<dyn File>>;

    /// Names of the files of a directory, in no order.
    ///
    /// # Errors
    /// As readdir(3) says.
    fn list(&self, name: &str) -> io::Result<Vec<String>>;

    /// Reads whole files and gives each to `each`, in order.
    ///
    /// # Errors
    /// As of [`Files::open`] and [`File::read_at`], and what `each` says.
    fn read_each(&self, names: &[String], each: &mut Each<'_>) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// As unlink(2) says.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Gives a file another name, in the place of one that has it.
    ///
    /// # Errors
    /// As rename(2) says.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
}

/// An open file, usable by several threads; closed when it is dropped.
pub trait File: Debug + Send + Sync {
    /// Length in bytes.
    ///
    /// # Errors
    /// As fstat(2) says.
    fn len(&self) -> io::Result<u64>;

    /// Reads at an offset; fewer bytes than asked only at the end of the file.
    ///
    /// # Errors
    /// As pread(2) says.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes` at an offset.
    ///
    /// # Errors
    /// As pwrite(2) says; some may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Returns when what was written lasts.
    ///
    /// # Errors
    /// As fsync(2) says.
    fn sync(&self) -> io::Result<()>;
}

/// Files one after the other, each opened, read and closed.
///
/// # Errors
/// As of [`Files::read_each`].
pub fn read_in_turn(files: &dyn Files, names: &[String], each: &mut Each<'_>) -> io::Result<()> {
    for (place, name) in names.iter().enumerate() {
        each(place, &read_all(files, name)?)?;
    }
    Ok(())
}

/// Bytes that are asked for at once where a file's length is not known: more than most texts have.
const PIECE_BYTES: usize = 64 * 1024;

/// A whole file, without asking for its length first: a read that is short was the last.
///
/// # Errors
/// As of [`Files::open`] and [`File::read_at`].
pub fn read_all(files: &dyn Files, name: &str) -> io::Result<Vec<u8>> {
    let file = files.open(name, Opening::Read)?;
    let mut bytes = Vec::new();
    loop {
        let so_far = bytes.len();
        // Twice as much each time: a long file takes few turns.
        bytes.resize(so_far + PIECE_BYTES.max(so_far), 0);
        let read = file.read_at(&mut bytes[so_far..], so_far as u64)?;
        let is_last = read < bytes.len() - so_far;
        bytes.truncate(so_far + read);
        if is_last {
            return Ok(bytes);
        }
    }
}
