//! What a region is to be, before it is made.

use heliostat_abi::memory::limits::ARENA_BYTES_MAX;
use heliostat_abi::memory::replicated::{Replication, REPLICAS_MAX};
use heliostat_abi::memory::{request, MemoryName, MemoryRequest, Rights};
use heliostat_abi::snapshot::region_name::NameError;

use super::{Memory, MemoryError, Region};

/// A region that is about to be allocated.
#[must_use = "nothing is allocated before `make`"]
pub struct Allocation<'a> {
    memory: &'a Memory,
    bytes: u64,
    lasting: bool,
    name: Option<String>,
    others: Rights,
    replicas: u32,
    backups: Vec<u16>,
}

impl<'a> Allocation<'a> {
    pub(crate) fn new(memory: &'a Memory, bytes: u64) -> Self {
        Self {
            memory,
            bytes,
            lasting: false,
            name: None,
            others: Rights::NONE,
            replicas: 0,
            backups: Vec::new(),
        }
    }

    /// It gets this name: parts of letters, digits, `.`, `_` and `-`, parted by `/`.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// It outlives this process, until it is freed.
    pub fn lasting(mut self) -> Self {
        self.lasting = true;
        self
    }

    /// Other users who know its name may do this with it, unless the rules say no.
    pub fn others(mut self, rights: Rights) -> Self {
        self.others = rights;
        self
    }

    /// It lives on so many nodes, this one among them: what was answered is on all of them, and the
    /// death of one of them loses nothing. It needs a name, is always delegated, and stays until it is
    /// freed, or all of its nodes have died.
    pub fn replicas(mut self, count: u32) -> Self {
        self.replicas = count;
        self
    }

    /// The same, on this node and on these others.
    pub fn replicas_on(mut self, others: &[u16]) -> Self {
        self.backups = others.to_vec();
        self.replicas(others.len() as u32 + 1)
    }

    /// Makes it; the handle allows everything.
    ///
    /// # Errors
    /// `Size`; another region has the name, a rule says no, or a limit is reached; nothing is left behind.
    pub fn make(self) -> Result<Region, MemoryError> {
        let Self { memory, bytes, lasting, name, others, replicas: wanted, backups } = self;
        check_size(bytes, 1)?;
        let name = name.map(|name| MemoryName::parse(&name)).transpose();
        let name = name.map_err(MemoryError::Name)?;
        if wanted > 0 {
            if wanted as usize > REPLICAS_MAX {
                return Err(MemoryError::Full { limit: REPLICAS_MAX });
            }
            let name = name.ok_or(MemoryError::Name(NameError::Length(0)))?;
            let asked = Replication { bytes, name, others, wanted, backups };
            return Region::ask(memory, MemoryRequest::Replicate(asked));
        }
        let asked = request::Allocation { bytes, lasting, name, others };
        Region::ask(memory, MemoryRequest::Allocate(asked))
    }
}

/// Checks a length that is asked for: a record that cannot be is held against its session.
pub(crate) fn check_size(bytes: u64, least: u64) -> Result<(), MemoryError> {
    let most = ARENA_BYTES_MAX;
    if (least..=most).contains(&bytes) {
        return Ok(());
    }
    Err(MemoryError::Size { bytes, least, most })
}
