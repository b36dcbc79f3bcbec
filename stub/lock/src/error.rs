//! Why an operation on a lock was not done.

use heliostat_abi::code::Code;
use heliostat_abi::lock::Why;
use heliostat_abi::snapshot::region_name::NameError;
use heliostat_base::sys::Errno;
use heliostat_client::ControlError;

/// What went wrong, and on which side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockError {
    /// Ours: the text is no name.
    Name(NameError),
    /// Ours: no semaphore or barrier is of so many, or this one has fewer permits.
    Count {
        /// What was asked for.
        count: u32,
        /// The most that may be.
        most: u32,
    },
    /// Ours: the name is that of another kind, or of another count.
    Shape,
    /// Ours: it was opened by this process's parent. Open it here.
    Forked,
    /// The barrier is broken until somebody resets it.
    Broken {
        /// Which time all were to meet, from 1 on.
        generation: u64,
        /// Why.
        why: Why,
    },
    /// The session has ended, or the control plane: what was held is held no more, and what was waited
    /// for does not come.
    Gone,
    /// The node that the name is on is not joined, is lost, or did not answer in time. What was held
    /// there by a link that is lost is held no more; its names have to be opened anew.
    Unreachable {
        /// Which.
        node: u64,
        /// Whether it may have done what was asked, or may still: has taken a release, or has let all
        /// go on at a barrier. An acquisition is given back there by itself.
        may_have_happened: bool,
    },
    /// The control plane says no, or is not there.
    Control(ControlError),
    /// The control plane answered what no control plane answers.
    Corrupt,
    /// The machine made no bell.
    Bell(Errno),
}

impl LockError {
    /// Returns why the control plane says no, if it does.
    pub fn refusal(&self) -> Option<Code> {
        match self {
            Self::Control(ControlError::Refused { code, .. }) => Some(*code),
            _ => None,
        }
    }
}

impl LockError {
    /// What it is to who asked for something on a node.
    pub(crate) fn of_node(self, node: Option<u64>) -> LockError {
        match (node, self) {
            (
                Some(node),
                Self::Control(ControlError::Refused { code: Code::Unreachable, limit, .. }),
            ) => Self::Unreachable { node, may_have_happened: limit > 0 },
            (_, error) => error,
        }
    }
}

impl From<ControlError> for LockError {
    fn from(error: ControlError) -> Self {
        match error {
            // The session ends with its connection, which an answer that came too late has cost.
            ControlError::SessionEnded | ControlError::Broken(_) => Self::Gone,
            error => Self::Control(error),
        }
    }
}

impl std::fmt::Display for LockError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(error) => error.fmt(f),
            Self::Count { count, most } => {
                write!(f, "a count of {count}, where 1 to {most} are possible")
            }
            Self::Shape => f.write_str("the name is that of something else, or of another count"),
            Self::Forked => f.write_str("opened before a fork: the parent's, open it anew"),
            Self::Broken { generation, why } => {
                write!(f, "the barrier is broken at generation {generation}: {}", why.text())
            }
            Self::Gone => f.write_str(
                "the session with the control plane has ended: what was held is held no more",
            ),
            Self::Unreachable { node, may_have_happened: false } => {
                write!(f, "node {node} is not joined or does not answer: it has not been done")
            }
            Self::Unreachable { node, may_have_happened: true } => {
                write!(f, "node {node} is lost or did not answer: it may have been done there")
            }
            Self::Control(error) => error.fmt(f),
            Self::Corrupt => f.write_str("the control plane broke the protocol of locks"),
            Self::Bell(errno) => write!(f, "no bell: {errno}"),
        }
    }
}

impl std::error::Error for LockError {}
