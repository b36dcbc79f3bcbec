//! One call of a sealed thread, and what its arguments mean.

mod note;
mod walk;

use heliostat_backend_seal::{self as seal, Notice, Reply};
use heliostat_base::sys::{Errno, Sysno};
use rustix::fs::Mode;

use crate::paths::{Sandbox, PATH_MAX};
use crate::supervisor::Supervisor;

/// What a family of calls answers.
pub type Answer = Result<Reply, Errno>;

/// The answer of a call that returns nothing but success.
pub const DONE: Answer = Ok(Reply::Value(0));

/// A call that waits for its answer.
pub struct Call<'a> {
    /// What is shared by all calls.
    pub supervisor: &'a Supervisor,
    /// The call as the kernel tells it.
    pub notice: Notice,
    /// Which call it is.
    pub number: Sysno,
}

impl Call<'_> {
    /// Argument `place`.
    pub fn word(&self, place: usize) -> u64 {
        self.notice.args[place]
    }

    /// Argument `place` as the kernel sees an `int`.
    pub fn int(&self, place: usize) -> i32 {
        self.notice.args[place] as i32
    }

    /// The thread that calls.
    pub fn thread(&self) -> i32 {
        self.notice.thread
    }

    /// ESRCH if the call does not wait any more: what was read before a success was the thread's.
    pub fn check(&self) -> Result<(), Errno> {
        match self.supervisor.listener.is_waiting(self.notice.id) {
            true => Ok(()),
            false => Err(Errno(libc::ESRCH)),
        }
    }

    /// The path that argument `place` points to. EFAULT, or ENAMETOOLONG.
    pub fn path(&self, place: usize) -> Result<Vec<u8>, Errno> {
        seal::read_text(self.thread(), self.word(place), PATH_MAX)
    }

    /// As `path`; none at all is an empty one where the flags let it be (AT_EMPTY_PATH).
    pub fn path_or_none(&self, place: usize, flags: i32) -> Result<Vec<u8>, Errno> {
        match self.word(place) == 0 && flags & libc::AT_EMPTY_PATH != 0 {
            true => Ok(Vec::new()),
            false => self.path(place),
        }
    }

    /// `bytes.len()` bytes from the address in argument `place`.
    pub fn read(&self, place: usize, bytes: &mut [u8]) -> Result<(), Errno> {
        seal::read_memory(self.thread(), self.word(place), bytes)
    }

    /// Writes to the address in argument `place`.
    pub fn write(&self, place: usize, bytes: &[u8]) -> Result<(), Errno> {
        self.check()?;
        seal::write_memory(self.thread(), self.word(place), bytes)
    }

    /// The process that the thread belongs to.
    pub fn process(&self) -> i32 {
        self.supervisor.process_of(self.thread())
    }

    /// Bits that the process takes from the mode of new files.
    pub fn umask(&self) -> u32 {
        self.supervisor.umask_of(self.thread())
    }

    /// Argument `place` as the mode of a new file.
    pub fn new_mode(&self, place: usize) -> Mode {
        self.new_mode_of(self.word(place) as u32)
    }

    /// A mode as the process's new files get it.
    pub fn new_mode_of(&self, mode: u32) -> Mode {
        Mode::from_raw_mode(mode & 0o7777 & !self.umask())
    }
}
