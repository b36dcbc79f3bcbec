//! Why a device did not do what it was asked.

use std::fmt;

/// An operation, or a whole device, that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockError {
    /// What the kernel or the device answered, as an errno.
    Device {
        /// EIO, ENOSPC, EROFS and the like.
        errno: i32,
    },
    /// Fewer bytes were moved than asked for.
    Short {
        /// How many.
        moved: u64,
    },
}

/// An operation that was not begun. Nothing was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BeginError {
    /// As many operations are under way as may.
    Full {
        /// How many.
        depth: usize,
    },
    /// The bytes do not lie on the device.
    OutOfRange {
        /// First byte asked for.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
        /// Size of the device.
        limit: u64,
    },
    /// An offset, a length or an address is no multiple of what the geometry says.
    Unaligned {
        /// What it has to be a multiple of.
        unit: u32,
    },
    /// The buffer does not lie in its mapping.
    Buffer,
    /// The device does not do this.
    Unsupported,
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device { errno } => {
                write!(f, "the device failed: {}", std::io::Error::from_raw_os_error(*errno))
            }
            Self::Short { moved } => write!(f, "the device moved only {moved} bytes"),
        }
    }
}

impl fmt::Display for BeginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { depth } => write!(f, "{depth} operations are under way, as many as may"),
            Self::OutOfRange { offset, bytes, limit } => {
                write!(f, "{bytes} bytes at {offset} do not lie on a device of {limit} bytes")
            }
            Self::Unaligned { unit } => write!(f, "not a multiple of {unit}"),
            Self::Buffer => write!(f, "the buffer does not lie in its mapping"),
            Self::Unsupported => write!(f, "the device does not do this"),
        }
    }
}

impl std::error::Error for BlockError {}
impl std::error::Error for BeginError {}
