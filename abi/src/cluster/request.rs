//! What is asked of the cluster service: the bodies of its records.
//!
//! ```text
//! 0 Nodes  from u64                  the members whose numbers are not less
//! 1 Join   node u64, address         address: length u32, 64 bytes; empty for the one that is known
//! 2 Leave  node u64                  0 for all
//! 3 NodesOf  node u64, from u64        the same as Nodes, as that node sees it
//! ```

use super::address::MemberAddress;
use super::limits::NODE_MAX;
use crate::session::record::{OwnRequest, REQUEST_BODY_BYTES};
use crate::wire::{Reader, WireError, Writer};

/// The number of the service in the protocol.
pub const SERVICE: u16 = 6;
/// The number of its first request.
pub const FIRST: u16 = SERVICE << 8;
/// In Leave: every node.
pub const EVERY_NODE: u64 = 0;

/// The numbers of requests, each given once.
pub mod number {
    use super::FIRST;

    /// Of Nodes.
    pub const NODES: u16 = FIRST;
    /// Of Join.
    pub const JOIN: u16 = FIRST + 1;
    /// Of Leave.
    pub const LEAVE: u16 = FIRST + 2;
    /// Of NodesOf.
    pub const NODES_OF: u16 = FIRST + 3;
}

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClusterRequest {
    /// Which nodes there are, this one among them.
    Nodes {
        /// The least number that is told.
        from: u64,
    },
    /// A node is to be joined, now and whenever it is lost (root and the owner only).
    Join {
        /// Its number, from 1.
        node: u64,
        /// Where it listens; empty where that is known.
        address: MemberAddress,
    },
    /// A node is left, and not joined again before somebody says so (root and the owner only).
    Leave {
        /// Which, or [`EVERY_NODE`].
        node: u64,
    },
    /// Which nodes there are as another node sees it: it is asked, and has to be joined.
    NodesOf {
        /// Whom to ask.
        node: u64,
        /// The least number that is told.
        from: u64,
    },
}

impl ClusterRequest {
    fn number(&self) -> u16 {
        match self {
            Self::Nodes { .. } => number::NODES,
            Self::Join { .. } => number::JOIN,
            Self::Leave { .. } => number::LEAVE,
            Self::NodesOf { .. } => number::NODES_OF,
        }
    }

    /// The record.
    pub fn encode(&self) -> OwnRequest {
        let mut body = [0; REQUEST_BODY_BYTES];
        let mut w = Writer::new(&mut body);
        match self {
            Self::Nodes { from: number } | Self::Leave { node: number } => w.u64(*number),
            Self::NodesOf { node, from } => w.u64(*node).u64(*from),
            Self::Join { node, address } => address.encode(w.u64(*node)),
        };
        OwnRequest { number: self.number(), body }
    }

    /// The request in a record's foreign body.
    ///
    /// # Errors
    /// It is none; the value says which field.
    pub fn decode(own: &OwnRequest) -> Result<Self, WireError> {
        let mut r = Reader::new(&own.body);
        let request = match own.number {
            number::NODES => Self::Nodes { from: r.u64() },
            number::JOIN => {
                let node = take_node(&mut r, 1)?;
                Self::Join { node, address: MemberAddress::decode(&mut r)? }
            }
            number::LEAVE => Self::Leave { node: take_node(&mut r, EVERY_NODE)? },
            number::NODES_OF => {
                let node = take_node(&mut r, 1)?;
                Self::NodesOf { node, from: r.u64() }
            }
            found => return Err(WireError::Kind { found }),
        };
        if !r.rest_is_zero() {
            return Err(WireError::Reserved);
        }
        Ok(request)
    }
}

fn take_node(r: &mut Reader<'_>, least: u64) -> Result<u64, WireError> {
    match r.u64() {
        node if (least..=NODE_MAX).contains(&node) => Ok(node),
        found => Err(WireError::Field { name: "node", found }),
    }
}
