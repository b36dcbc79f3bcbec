//! The records of the handshake: what a node says of itself, and why it refuses another.
//!
//! ```text
//! greeting (hello, challenge), 80 bytes     refuse, 24 bytes
//!  0  "HelioNet"                             0  u16  code
//!  8  u16  version of the protocol           2  6 bytes 0
//! 10  u16  transport                         8  u64  found
//! 12  u32  its version                      16  u64  wanted
//! 16  u64  node
//! 24  u64  incarnation                      proof, welcome: 32 bytes
//! 32  u64  window in bytes
//! 40  u64  0
//! 48  32 random bytes
//! ```
//!
//! The first 16 bytes are the same in every version of the protocol, so that nodes of different
//! versions can say so.

use std::fmt;

use crate::frame::{u32_at, u64_at};
use crate::identity::NodeId;
use crate::limits::{MESSAGE_COST_BYTES, PROTOCOL_VERSION};
use crate::transport::{Family, TransportKind};

const MAGIC: [u8; 8] = *b"HelioNet";
/// The length of a greeting.
pub const GREETING_BYTES: usize = 80;
/// The length of a refusal.
pub const REFUSAL_BYTES: usize = 24;
/// The smallest window that a node may ask for: two empty messages.
const WINDOW_BYTES_MIN: u64 = 2 * MESSAGE_COST_BYTES;

/// What a node says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Greeting {
    /// Its transport, which has to be the other's.
    pub kind: TransportKind,
    /// Its number.
    pub node: NodeId,
    /// Which life of it.
    pub incarnation: u64,
    /// The window that it would have; the smaller of both holds.
    pub window_bytes: u64,
    /// What makes this handshake different from each other one.
    pub nonce: [u8; 32],
}

/// Why a node does not join another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinRefusal {
    /// They speak different versions of this protocol.
    Protocol {
        /// The other's.
        found: u64,
        /// Ours.
        wanted: u64,
    },
    /// They use different transports.
    Family {
        /// The other's.
        found: u64,
        /// Ours.
        wanted: u64,
    },
    /// The transports are of versions that do not understand each other.
    Version {
        /// The other's.
        found: u64,
        /// Ours.
        wanted: u64,
    },
    /// The proof is not of this cluster's secret.
    Secret,
    /// It is another node than was asked for.
    OtherNode {
        /// The other's number.
        found: u64,
        /// The one that was asked for.
        wanted: u64,
    },
    /// It is this node itself.
    Itself,
    /// A later life of that node is joined already.
    Outdated {
        /// The life that asked.
        found: u64,
        /// The one that is joined.
        wanted: u64,
    },
    /// The two nodes are joined by another link.
    Duplicate,
    /// There are as many links as there may be.
    Full {
        /// How many.
        limit: u64,
    },
    /// What came is no handshake.
    Malformed,
}

impl Greeting {
    /// Whether both are of one node in one life of it.
    pub fn is_same_life(&self, other: &Greeting) -> bool {
        (self.node, self.incarnation) == (other.node, other.incarnation)
    }

    /// The record's bytes.
    pub fn encode(&self) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&PROTOCOL_VERSION.to_le_bytes());
        bytes[10..12].copy_from_slice(&(self.kind.family as u16).to_le_bytes());
        bytes[12..16].copy_from_slice(&self.kind.version.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.node.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.window_bytes.to_le_bytes());
        bytes[48..].copy_from_slice(&self.nonce);
        bytes
    }

    /// Reads what another node says of itself, for a node that has the transport `ours`.
    pub fn decode(bytes: &[u8], ours: TransportKind) -> Result<Greeting, JoinRefusal> {
        let (fixed, _) = bytes.split_first_chunk::<16>().ok_or(JoinRefusal::Malformed)?;
        if fixed[..8] != MAGIC {
            return Err(JoinRefusal::Malformed);
        }
        let [protocol, family] = [8, 10].map(|at| u16::from_le_bytes([fixed[at], fixed[at + 1]]));
        if protocol != PROTOCOL_VERSION {
            return Err(JoinRefusal::Protocol {
                found: protocol.into(),
                wanted: PROTOCOL_VERSION.into(),
            });
        }
        let differs = JoinRefusal::Family { found: family.into(), wanted: ours.family as u64 };
        let kind = TransportKind {
            family: Family::from_number(family).ok_or(differs)?,
            version: u32_at(fixed, 12),
        };
        if kind.family != ours.family {
            return Err(differs);
        }
        if kind.version != ours.version {
            return Err(JoinRefusal::Version {
                found: kind.version.into(),
                wanted: ours.version.into(),
            });
        }
        let whole: &[u8; GREETING_BYTES] = bytes.try_into().map_err(|_| JoinRefusal::Malformed)?;
        let greeting = Greeting {
            kind,
            node: NodeId(u64_at(whole, 16)),
            incarnation: u64_at(whole, 24),
            window_bytes: u64_at(whole, 32),
            nonce: std::array::from_fn(|byte| whole[48 + byte]),
        };
        if greeting.window_bytes < WINDOW_BYTES_MIN || u64_at(whole, 40) != 0 {
            return Err(JoinRefusal::Malformed);
        }
        Ok(greeting)
    }
}

impl JoinRefusal {
    /// The record's bytes.
    pub fn encode(&self) -> [u8; REFUSAL_BYTES] {
        let (code, found, wanted) = match *self {
            JoinRefusal::Protocol { found, wanted } => (1u16, found, wanted),
            JoinRefusal::Family { found, wanted } => (2, found, wanted),
            JoinRefusal::Version { found, wanted } => (3, found, wanted),
            JoinRefusal::Secret => (4, 0, 0),
            JoinRefusal::OtherNode { found, wanted } => (5, found, wanted),
            JoinRefusal::Itself => (6, 0, 0),
            JoinRefusal::Outdated { found, wanted } => (7, found, wanted),
            JoinRefusal::Duplicate => (8, 0, 0),
            JoinRefusal::Full { limit } => (9, 0, limit),
            JoinRefusal::Malformed => (10, 0, 0),
        };
        let mut bytes = [0; REFUSAL_BYTES];
        bytes[..2].copy_from_slice(&code.to_le_bytes());
        bytes[8..16].copy_from_slice(&found.to_le_bytes());
        bytes[16..].copy_from_slice(&wanted.to_le_bytes());
        bytes
    }

    /// Reads why the other node refuses: `found` is what it found with us.
    pub fn decode(bytes: &[u8]) -> JoinRefusal {
        let Ok(bytes) = <&[u8; REFUSAL_BYTES]>::try_from(bytes) else {
            return JoinRefusal::Malformed;
        };
        let (found, wanted) = (u64_at(bytes, 8), u64_at(bytes, 16));
        match u16::from_le_bytes([bytes[0], bytes[1]]) {
            1 => JoinRefusal::Protocol { found, wanted },
            2 => JoinRefusal::Family { found, wanted },
            3 => JoinRefusal::Version { found, wanted },
            4 => JoinRefusal::Secret,
            5 => JoinRefusal::OtherNode { found, wanted },
            6 => JoinRefusal::Itself,
            7 => JoinRefusal::Outdated { found, wanted },
            8 => JoinRefusal::Duplicate,
            9 => JoinRefusal::Full { limit: wanted },
            _ => JoinRefusal::Malformed,
        }
    }
}

impl fmt::Display for JoinRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinRefusal::Protocol { found, wanted } => {
                write!(f, "the protocol's version is {found}, and has to be {wanted}")
            }
            JoinRefusal::Family { found, wanted } => {
                write!(f, "the transport is number {found}, and has to be {wanted}")
            }
            JoinRefusal::Version { found, wanted } => {
                write!(f, "the transport's version is {found:#x}, and has to be {wanted:#x}")
            }
            JoinRefusal::Secret => f.write_str("it does not know the secret of this cluster"),
            JoinRefusal::OtherNode { found, wanted } => {
                write!(f, "it is node {found}, not {wanted}")
            }
            JoinRefusal::Itself => f.write_str("it is this node itself"),
            JoinRefusal::Outdated { found, wanted } => {
                write!(f, "life {found} of the node is over, {wanted} is joined")
            }
            JoinRefusal::Duplicate => f.write_str("the nodes are joined by another link"),
            JoinRefusal::Full { limit } => write!(f, "there are {limit} links already"),
            JoinRefusal::Malformed => f.write_str("it does not speak this protocol"),
        }
    }
}

#[cfg(test)]
mod tests;
