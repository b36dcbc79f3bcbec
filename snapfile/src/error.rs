//! Why a file could not be read or written.

use std::fmt;

use crate::layout::{Identity, FORMAT};

/// A part of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Header or index: their hash is not the one that the trailer says.
    Head,
    /// A field of the header.
    Field(&'static str),
    /// The index contradicts itself or the header.
    Index,
    /// The compressed bytes of a chunk.
    Frame {
        /// Which chunk.
        chunk: u32,
    },
    /// A page whose bytes are not those that the file was made from.
    Page {
        /// Offset in the region.
        offset: u64,
    },
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Head => f.write_str("header or index"),
            Self::Field(name) => write!(f, "field \"{name}\" of the header"),
            Self::Index => f.write_str("index"),
            Self::Frame { chunk } => write!(f, "frame of chunk {chunk}"),
            Self::Page { offset } => write!(f, "page at offset {offset} of the region"),
        }
    }
}

/// What is wrong with a file, or with what should become one.
#[derive(Debug)]
pub enum FileError {
    /// The system says no.
    Io(std::io::Error),
    /// It does not begin as these files do.
    Foreign,
    /// It begins well, but its end is missing.
    Truncated,
    /// It is of another version of the format.
    Version(u32),
    /// Bytes are not those that were written.
    Damaged(Part),
    /// It is no base of the file above: what that wants, and what this is.
    WrongBase {
        /// The base that the file was made against.
        wanted: Identity,
        /// The file found.
        found: Identity,
    },
    /// It needs a base and was opened without.
    NoBase,
    /// More than the format allows, or than memory there is.
    Limit {
        /// Of what.
        what: &'static str,
        /// How much.
        found: u64,
        /// At most.
        limit: u64,
    },
    /// Chunks have to be put in rising order, each of its own length.
    Order {
        /// The one that was put.
        chunk: u32,
    },
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Foreign => f.write_str("it is no snapshot file"),
            Self::Truncated => f.write_str(
                "it ends before its index: it was cut, or is still being copied; copy it again",
            ),
            Self::Version(found) => {
                write!(f, "it is of format version {found}; this program reads version {FORMAT}")
            }
            Self::Damaged(part) => write!(f, "it is damaged: {part}"),
            Self::WrongBase { wanted, found } => {
                write!(f, "it is not the base: wanted {wanted}, this is {found}")
            }
            Self::NoBase => f.write_str("it holds only what differs from its base"),
            Self::Limit { what, found, limit } => {
                write!(f, "{what}: {found}, at most {limit} are allowed")
            }
            Self::Order { chunk } => write!(f, "chunk {chunk} does not belong here"),
        }
    }
}

impl std::error::Error for FileError {}

impl From<std::io::Error> for FileError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}
