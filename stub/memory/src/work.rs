//! What an operation does that is submitted, and how it has ended.

use std::sync::Arc;

use heliostat_abi::file::delegated::OpKind;
use heliostat_abi::memory::operation::set_argument;
use heliostat_abi::memory::Rights;

use super::delegated::{Failure, Task};
use super::paths::check_offset;
use super::{MemoryError, Region};

/// What an operation does with its region. Its bytes are the operation's until it has completed, and
/// come back with its completion.
#[derive(Debug)]
pub enum Work {
    /// Fills these bytes from an offset on.
    Read {
        /// In the region.
        offset: u64,
        /// As many as are read.
        into: Vec<u8>,
    },
    /// Writes these bytes from an offset on.
    Write {
        /// In the region.
        offset: u64,
        /// What is written.
        from: Vec<u8>,
    },
    /// Sets bytes from an offset on to a value.
    Set {
        /// In the region.
        offset: u64,
        /// How many.
        bytes: u64,
        /// To what.
        value: u8,
    },
    /// Copies bytes to a place in this or another region. Where the two have different paths, or are on
    /// different nodes, the call that submits it waits for its end.
    Copy {
        /// In the region.
        offset: u64,
        /// The other one.
        into: Arc<Region>,
        /// Where in it.
        at: u64,
        /// How many.
        bytes: u64,
    },
    /// Adds to a word; the result is what it was.
    FetchAdd {
        /// In the region; a multiple of 8.
        offset: u64,
        /// What is added.
        more: u64,
    },
    /// Stores `new` in a word that is `expected`; the result is what it was.
    CompareSwap {
        /// In the region; a multiple of 8.
        offset: u64,
        /// What it has to be.
        expected: u64,
        /// What it becomes.
        new: u64,
    },
    /// Stores `new` in a word; the result is what it was.
    Swap {
        /// In the region; a multiple of 8.
        offset: u64,
        /// What it becomes.
        new: u64,
    },
}

/// One operation that is to be submitted.
#[derive(Debug)]
pub struct Submission {
    pub(crate) region: Arc<Region>,
    pub(crate) work: Work,
    pub(crate) is_urgent: bool,
}

/// How an operation has ended.
#[derive(Debug)]
pub struct Completed {
    /// Its number.
    pub number: u64,
    /// Bytes that were moved, or what the word was.
    ///
    /// # Errors
    /// As the call of the same name; `Cancelled` when it was given up.
    pub result: Result<u64, MemoryError>,
    /// Those of its work; what was read, if it was a read that succeeded.
    pub bytes: Vec<u8>,
}

/// What was not submitted: all of it, as it was.
#[derive(Debug)]
pub struct Unsubmitted {
    /// Why not: `Full`, or there is no session with a server loop to be had.
    pub error: MemoryError,
    /// The operations.
    pub submissions: Vec<Submission>,
}

impl Submission {
    /// Work on a region, in its turn.
    pub fn new(region: &Arc<Region>, work: Work) -> Submission {
        Submission { region: region.clone(), work, is_urgent: false }
    }

    /// It is begun before all of this process that are not urgent and have not begun: at once, or once a
    /// part of 16 KiB of another one has ended.
    pub fn urgent(self) -> Submission {
        Submission { is_urgent: true, ..self }
    }

    /// Takes the work out again.
    pub fn into_work(self) -> Work {
        self.work
    }
}

impl std::fmt::Display for Unsubmitted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Unsubmitted {}

/// What an error of an operation is about, once its work has gone its way.
pub(crate) enum About {
    /// Bytes of its region, with what is wanted of them.
    Bytes(Rights, (u64, u64)),
    /// A copy: from where, to where, how many.
    Copy(u64, (Arc<Region>, u64), u64),
}

impl About {
    /// The error that a failure of the region's operation is.
    pub(crate) fn explain(&self, region: &Region, failure: Failure) -> MemoryError {
        match self {
            Self::Bytes(wanted, all) => region.explain(failure, *wanted, *all),
            Self::Copy(offset, (into, at), bytes) => {
                region.explain_copy(failure, *offset, (into, *at), *bytes)
            }
        }
    }
}

impl Work {
    /// Returns what its errors are about.
    pub(crate) fn about(&self) -> About {
        let word = heliostat_ring::area::WORD_BYTES;
        match self {
            Self::Read { offset, into } => About::Bytes(Rights::READ, (*offset, into.len() as u64)),
            Self::Write { offset, from } => {
                About::Bytes(Rights::WRITE, (*offset, from.len() as u64))
            }
            Self::Set { offset, bytes, .. } => About::Bytes(Rights::WRITE, (*offset, *bytes)),
            Self::Copy { offset, into, at, bytes } => {
                About::Copy(*offset, (into.clone(), *at), *bytes)
            }
            Self::FetchAdd { offset, .. }
            | Self::CompareSwap { offset, .. }
            | Self::Swap { offset, .. } => About::Bytes(Rights::ATOMIC, (*offset, word)),
        }
    }

    /// Whether it is to be done by the call that submits it: it takes no time that others could use, or
    /// no server loop does it.
    pub(crate) fn is_done_at_once(&self, region: &Region) -> bool {
        region.is_direct()
            || match self {
                Self::Read { into: bytes, .. } | Self::Write { from: bytes, .. } => {
                    bytes.is_empty()
                }
                Self::Set { bytes, .. } => *bytes == 0,
                Self::Copy { into, bytes, .. } => {
                    let is_beside = Arc::ptr_eq(&into.memory.shared, &region.memory.shared);
                    *bytes == 0 || into.is_direct() || !is_beside || into.node() != region.node()
                }
                Self::FetchAdd { .. } | Self::CompareSwap { .. } | Self::Swap { .. } => false,
            }
    }

    /// Does it; returns its result, and its bytes.
    pub(crate) fn perform(self, region: &Region) -> (Result<u64, MemoryError>, Vec<u8>) {
        match self {
            Self::Read { offset, mut into } => {
                let done = region.read(offset, &mut into);
                (done.map(|()| into.len() as u64), into)
            }
            Self::Write { offset, from } => {
                (region.write(offset, &from).map(|()| from.len() as u64), from)
            }
            other => (other.perform_without_bytes(region), Vec::new()),
        }
    }

    fn perform_without_bytes(self, region: &Region) -> Result<u64, MemoryError> {
        match self {
            Self::Set { offset, bytes, value } => region.set(offset, bytes, value).map(|()| bytes),
            Self::Copy { offset, into, at, bytes } => {
                region.copy_to(offset, &into, at, bytes).map(|()| bytes)
            }
            Self::FetchAdd { offset, more } => region.fetch_add(offset, more),
            Self::CompareSwap { offset, expected, new } => {
                region.compare_swap(offset, expected, new)
            }
            Self::Swap { offset, new } => region.swap(offset, new),
            Self::Read { .. } | Self::Write { .. } => Ok(0),
        }
    }

    /// What a server loop is asked for.
    ///
    /// # Errors
    /// It is wrong whatever the region is like; its bytes come back.
    pub(crate) fn into_task(self, region: &Region) -> Result<Task, (MemoryError, Vec<u8>)> {
        if let Err(error) = self.check(region) {
            return Err((error, self.into_bytes()));
        }
        let handle = region.handle();
        let word = |kind, offset, argument, expected| Task::Word {
            kind,
            handle,
            offset,
            argument,
            expected,
        };
        Ok(match self {
            Self::Read { offset, into } => Task::Read { handle, offset, into },
            Self::Write { offset, from } => Task::Write { handle, offset, from },
            Self::Set { offset, bytes, value } => {
                let argument = set_argument(value, bytes)
                    .ok_or_else(|| (region.beyond(offset, bytes), Vec::new()))?;
                Task::Set { handle, offset, argument }
            }
            Self::Copy { offset, into, at, bytes } => {
                let source = region.copy_source(offset, (&into, at), bytes);
                let source = source.map_err(|error| (error, Vec::new()))?;
                Task::Copy { source, handle: into.handle(), offset: at }
            }
            Self::FetchAdd { offset, more } => word(OpKind::FetchAdd, offset, more, 0),
            Self::CompareSwap { offset, expected, new } => {
                word(OpKind::CompareSwap, offset, new, expected)
            }
            Self::Swap { offset, new } => word(OpKind::Swap, offset, new, 0),
        })
    }

    fn check(&self, region: &Region) -> Result<(), MemoryError> {
        let About::Bytes(_, (offset, bytes)) = self.about() else { return Ok(()) };
        let is_word =
            matches!(self, Self::FetchAdd { .. } | Self::CompareSwap { .. } | Self::Swap { .. });
        if is_word && offset % heliostat_ring::area::WORD_BYTES != 0 {
            return Err(MemoryError::Misaligned { region: region.id(), offset });
        }
        check_offset(offset, bytes).map_err(|()| region.beyond(offset, bytes))
    }

    fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Read { into: bytes, .. } | Self::Write { from: bytes, .. } => bytes,
            _ => Vec::new(),
        }
    }
}
