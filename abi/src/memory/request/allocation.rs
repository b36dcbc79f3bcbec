//! What is asked for with a new region.

use super::super::name::{self, MemoryName};
use super::super::rights::Rights;
use super::take_flag;
use crate::wire::{Reader, WireError};

/// What a region is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// How many bytes; at least one.
    pub bytes: u64,
    /// Whether it outlives its allocator.
    pub lasting: bool,
    /// Its name, if it has one.
    pub name: Option<MemoryName>,
    /// What other users may, who know its name.
    pub others: Rights,
}

impl Allocation {
    pub(super) fn take(r: &mut Reader<'_>) -> Result<Allocation, WireError> {
        let bytes = r.u64();
        let lasting = take_flag(r, "lasting")?;
        let others = Rights::decode(r)?;
        Ok(Allocation { bytes, lasting, others, name: name::decode(r)? })
    }
}
