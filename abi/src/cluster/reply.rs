//! What the cluster service answers: the body of its reply. Others are Done and Refused.
//!
//! ```text
//! Listed   0 own node u64, epoch u64
//!         16 next u64 (0: no more), count u32, 0 u32
//!         32 registry u32, members u32 (whom it names), lease_ms u64
//!         48 count entries of 108 bytes:
//!            node u64, incarnation u64, since_ms u64 (how long it has been in its state),
//!            round_trip_ns u64 (0: not known), state u32, 0 u32, address
//! ```

use super::address::{MemberAddress, ADDRESS_BYTES};
use super::limits::{LISTED_PER_REPLY_MAX, NODE_MAX};
use super::request::FIRST;
use super::state::MemberState;
use crate::session::record::{OwnReply, REPLY_BODY_BYTES};
use crate::wire::{Reader, WireError, Writer};

const LISTED: u16 = FIRST + 128;
const HEAD_BYTES: usize = 48;
const ENTRY_BYTES: usize = 40 + 4 + ADDRESS_BYTES;
const _: () = assert!(HEAD_BYTES + LISTED_PER_REPLY_MAX * ENTRY_BYTES <= REPLY_BODY_BYTES);

/// One node, as the node that was asked sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedNode {
    /// Its number.
    pub node: u64,
    /// Which life of it was seen last; 0 for none.
    pub incarnation: u64,
    /// Its state.
    pub state: MemberState,
    /// Milliseconds that it has been in it.
    pub since_ms: u64,
    /// Nanoseconds of a message there and back, when it was measured last; 0 if it never was.
    pub round_trip_ns: u64,
    /// Where it listens, as far as that is known.
    pub address: MemberAddress,
}

/// Who decides which nodes are members, as the node that was asked has it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ListedRegistry {
    /// [`NO_REGISTRY`], [`ETCD`], or the number of the node that keeps the records for all.
    pub kind: u32,
    /// How many nodes it names.
    pub members: u32,
    /// Milliseconds for which the node may act without hearing of it; 0 where it may not.
    pub lease_ms: u64,
}

/// In [`ListedRegistry`]: each node decides for itself.
pub const NO_REGISTRY: u32 = 0;
/// In [`ListedRegistry`]: etcd.
pub const ETCD: u32 = 1 << 16;

/// Some nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// The node that was asked.
    pub own: u64,
    /// The registry's revision of the last change of membership; without a registry how many changes
    /// this node has seen.
    pub epoch: u64,
    /// The registry.
    pub registry: ListedRegistry,
    /// Some nodes, in order of number.
    pub nodes: Vec<ListedNode>,
    /// The number to ask from for the rest; 0 when there is none.
    pub next: u64,
}

/// A reply of the cluster service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClusterReply {
    /// To Nodes.
    Listed(Listed),
}

impl ClusterReply {
    /// The record. Of more nodes than a reply has room for, the first.
    pub fn encode(&self) -> OwnReply {
        let Self::Listed(listed) = self;
        let mut body = [0; REPLY_BODY_BYTES];
        let mut w = Writer::new(&mut body);
        let count = listed.nodes.len().min(LISTED_PER_REPLY_MAX);
        w.u64(listed.own).u64(listed.epoch).u64(listed.next).u32(count as u32).u32(0);
        let ListedRegistry { kind, members, lease_ms } = listed.registry;
        w.u32(kind).u32(members).u64(lease_ms);
        for node in listed.nodes.iter().take(count) {
            w.u64(node.node).u64(node.incarnation).u64(node.since_ms).u64(node.round_trip_ns);
            node.address.encode(w.u32(node.state as u32).u32(0));
        }
        OwnReply { number: LISTED, body }
    }

    /// The reply in a record's foreign body.
    ///
    /// # Errors
    /// It is none; the value says which field.
    pub fn decode(own: &OwnReply) -> Result<Self, WireError> {
        if own.number != LISTED {
            return Err(WireError::Kind { found: own.number });
        }
        let mut r = Reader::new(&own.body);
        let (node, epoch, next, count) = (r.u64(), r.u64(), r.u64(), r.u32() as usize);
        if count > LISTED_PER_REPLY_MAX {
            return Err(WireError::Field { name: "count", found: count as u64 });
        }
        if r.u32() != 0 {
            return Err(WireError::Reserved);
        }
        if next > NODE_MAX {
            return Err(WireError::Field { name: "next", found: next });
        }
        let registry = ListedRegistry { kind: r.u32(), members: r.u32(), lease_ms: r.u64() };
        if registry.kind > ETCD {
            return Err(WireError::Field { name: "registry", found: u64::from(registry.kind) });
        }
        let nodes = (0..count).map(|_| take_entry(&mut r)).collect::<Result<_, _>>()?;
        if !r.rest_is_zero() {
            return Err(WireError::Reserved);
        }
        Ok(Self::Listed(Listed { own: node, epoch, registry, nodes, next }))
    }
}

fn take_entry(r: &mut Reader<'_>) -> Result<ListedNode, WireError> {
    let (node, incarnation, since_ms, round_trip_ns) = (r.u64(), r.u64(), r.u64(), r.u64());
    let number = r.u32();
    let wrong = WireError::Field { name: "state", found: u64::from(number) };
    let state = MemberState::from_number(number).ok_or(wrong)?;
    if r.u32() != 0 {
        return Err(WireError::Reserved);
    }
    let address = MemberAddress::decode(r)?;
    Ok(ListedNode { node, incarnation, state, since_ms, round_trip_ns, address })
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
