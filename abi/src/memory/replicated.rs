//! A region that lives on several nodes, as it is asked for.
//!
//! ```text
//! 0 bytes u64, others u32, wanted u32   16 name, 68 bytes   84 eight nodes u16 each, 0 for none
//! ```

use super::name::{self, MemoryName};
use super::rights::Rights;
use crate::wire::{Reader, WireError, Writer};

/// Nodes that have a region.
pub const REPLICAS_MAX: usize = 7;
/// Nodes that a request may name.
const NODES: usize = 8;

/// What a region on several nodes is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replication {
    /// How many bytes; at least one. It does not become longer.
    pub bytes: u64,
    /// Its name.
    pub name: MemoryName,
    /// What other users may, who know its name.
    pub others: Rights,
    /// How many nodes have it, the asking program's own among them.
    pub wanted: u32,
    /// Which other nodes; none: any that are joined.
    pub backups: Vec<u16>,
}

impl Replication {
    pub(super) fn put(&self, w: &mut Writer<'_>) {
        w.u64(self.bytes).u32(self.others.bits()).u32(self.wanted);
        name::encode(self.name.as_str(), w);
        let given = self.backups.iter().copied().chain(std::iter::repeat(0));
        given.take(NODES).for_each(|node| {
            w.u16(node);
        });
    }

    pub(super) fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let (bytes, others, wanted) = (r.u64(), Rights::decode(r)?, r.u32());
        let name = name::decode(r)?.ok_or(WireError::Field { name: "memory name", found: 0 })?;
        let nodes = [(); NODES].map(|()| r.u16());
        let backups = nodes.into_iter().filter(|node| *node != 0).collect();
        if !(1..=REPLICAS_MAX as u32).contains(&wanted) {
            return Err(WireError::Field { name: "replicas", found: u64::from(wanted) });
        }
        Ok(Self { bytes, name, others, wanted, backups })
    }
}
