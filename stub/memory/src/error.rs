//! Why an operation on memory was not done.

use heliostat_abi::code::Code;
use heliostat_abi::memory::Rights;
use heliostat_abi::name::ObjectId;
use heliostat_abi::snapshot::region_name::NameError;
use heliostat_base::mapping::MappingError;
use heliostat_base::sys::Errno;
use heliostat_client::ControlError;
use heliostat_stub_link::LinkError;

/// What went wrong, and on which side. The path that a region has makes no difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryError {
    /// Ours: the text is no name.
    Name(NameError),
    /// Ours: no region may be so long. One has a byte at least, and does not become shorter.
    Size {
        /// Bytes asked for.
        bytes: u64,
        /// The least that may be asked for.
        least: u64,
        /// The most.
        most: u64,
    },
    /// Ours: the bytes do not all lie in the region.
    Range {
        /// The region.
        region: ObjectId,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
        /// Bytes that the region has.
        limit: u64,
    },
    /// Ours: words lie at multiples of 8.
    Misaligned {
        /// The region.
        region: ObjectId,
        /// Where the word was meant to be.
        offset: u64,
    },
    /// Ours: the handle does not allow it.
    Denied {
        /// The region.
        region: ObjectId,
        /// What it takes.
        wanted: Rights,
        /// What the handle allows.
        found: Rights,
    },
    /// The region was freed, or its last manager has ended.
    Stale {
        /// The region.
        region: ObjectId,
    },
    /// The control plane has ended the session or taken the handle, or has itself ended: what was under
    /// way may have been done or not.
    Gone {
        /// The region.
        region: ObjectId,
    },
    /// The region was on its way to other pieces for longer than a move takes.
    Moving {
        /// The region.
        region: ObjectId,
    },
    /// The region was on its way to a node that has not said whether it has it. It serves nobody until
    /// that node says so; then it is on one of both, with all of its bytes.
    InDoubt {
        /// The region.
        region: ObjectId,
        /// The node.
        node: u64,
    },
    /// Somebody did not leave the region in time, so that it was not moved.
    Held {
        /// The region.
        region: ObjectId,
        /// Whose process; 0 for one of another node, or that has ended since.
        process: u32,
    },
    /// There was no memory where the region was to be moved to: it is where it was.
    NotMoved {
        /// The region.
        region: ObjectId,
    },
    /// The node that the region is on is lost, or does not answer.
    Node {
        /// The region.
        region: ObjectId,
        /// The node.
        node: u64,
        /// How, and so whether what was asked may have been done.
        why: NodeFailure,
    },
    /// The node that was named is not joined, or its control plane did not answer in time.
    Unreachable {
        /// The node.
        node: u64,
    },
    /// The control plane says no, did not answer, or is not there.
    Control(ControlError),
    /// The control plane answered what no control plane answers.
    Corrupt,
    /// The machine gave no memory for a mapping, or the control plane sent none that can be mapped.
    Mapping(MappingError),
    /// The machine made no eventfd.
    Event(Errno),
    /// The session with the server loop cannot be used.
    Link(LinkError),
    /// The operation was given up; it may have been done in part.
    Cancelled {
        /// The region.
        region: ObjectId,
    },
    /// As many operations are on their way, or have not been taken, as may be.
    Full {
        /// How many.
        limit: usize,
    },
    /// Nothing is on its way.
    Idle,
    /// Nothing has completed in that time.
    TimedOut,
    /// The machine gave no thread.
    Thread,
    /// The server loop ended an operation with an error that none of the above is.
    Server {
        /// The region.
        region: ObjectId,
        /// Its errno.
        errno: Errno,
    },
}

/// What became of an operation on a node that is lost, or does not answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeFailure {
    /// Nothing was sent: it was not done. The region has to be mapped anew once the node is back.
    Down,
    /// The node was lost meanwhile: it may have been done, or in part.
    Lost,
    /// No answer came in time: it may have been done, or may still.
    Late,
    /// The node answered what no node answers: it may have been done.
    Broken,
}

impl NodeFailure {
    /// Whether what was asked may have been done, or in part.
    pub const fn may_have_effect(self) -> bool {
        !matches!(self, Self::Down)
    }
}

impl std::fmt::Display for NodeFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Down => "it is not joined; nothing was done",
            Self::Lost => "it was lost; what was under way may be done or not",
            Self::Late => {
                "it did not answer in time; what was under way may be done, or be done yet"
            }
            Self::Broken => "it broke the protocol; what was under way may be done or not",
        })
    }
}

impl MemoryError {
    /// Returns why the control plane says no, if it does.
    pub fn refusal(&self) -> Option<Code> {
        match self {
            Self::Control(ControlError::Refused { code, .. }) => Some(*code),
            _ => None,
        }
    }
}

impl std::fmt::Display for MemoryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(error) => error.fmt(f),
            Self::Size { bytes, least, most } => {
                write!(f, "a region of {bytes} bytes, where {least} to {most} are possible")
            }
            Self::Range { region, offset, bytes, limit } => {
                write!(f, "region {region}: {bytes} bytes at {offset}, it has {limit}")
            }
            Self::Misaligned { region, offset } => {
                write!(f, "region {region}: a word at {offset}, which is no multiple of 8")
            }
            Self::Denied { region, wanted, found } => {
                write!(f, "region {region}: it takes {wanted}, the handle allows {found}")
            }
            Self::Stale { region } => {
                write!(f, "region {region} is gone: freed, or its managers are")
            }
            Self::Gone { region } => write!(
                f,
                "region {region}: the control plane has taken the handle or ended the session; \
                 what was under way may be done or not"
            ),
            Self::Moving { region } => write!(f, "region {region} does not come to rest"),
            Self::InDoubt { region, node } => write!(
                f,
                "region {region} is in doubt: node {node} has not said whether it has it, and nobody \
                 is served before it does"
            ),
            Self::Held { region, process: 0 } => {
                write!(f, "region {region} is not moved: somebody stays in it")
            }
            Self::Held { region, process } => {
                write!(f, "region {region} is not moved: process {process} stays in it")
            }
            Self::NotMoved { region } => {
                write!(f, "region {region} is not moved: its bytes could not be copied")
            }
            Self::Node { region, node, why } => {
                write!(f, "region {region} on node {node}: {why}")
            }
            Self::Unreachable { node } => {
                write!(f, "node {node} is not joined, or did not answer in time")
            }
            Self::Control(error) => error.fmt(f),
            Self::Corrupt => f.write_str("the control plane broke the protocol of memory regions"),
            Self::Mapping(error) => error.fmt(f),
            Self::Event(errno) => write!(f, "no eventfd: {errno}"),
            Self::Link(error) => error.fmt(f),
            Self::Cancelled { region } => write!(f, "region {region}: the operation was given up"),
            Self::Full { limit } => write!(f, "{limit} operations are on their way or not taken"),
            Self::Idle => f.write_str("no operation is on its way"),
            Self::TimedOut => f.write_str("no operation has completed in that time"),
            Self::Thread => f.write_str("no thread that waits for completions"),
            Self::Server { region, errno } => write!(f, "region {region}: the server says {errno}"),
        }
    }
}

impl std::error::Error for MemoryError {}

impl From<LinkError> for MemoryError {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}
