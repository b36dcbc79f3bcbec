//! Finding a region that is spread by its name, from any node, with what is left of it.

use std::sync::Arc;

use heliostat_abi::cluster::{ClusterReply, ClusterRequest, Listed, MemberState};
use heliostat_abi::code::Code;
use heliostat_abi::memory::spread::{Directory, SpreadHead, SpreadState};
use heliostat_abi::memory::Rights;
use heliostat_abi::session::record::Reply;

use super::ending::Remains;
use super::making::part_name;
use super::sought::{Found, Sought, NOT_FOUND};
use super::{Part, SpreadError, SpreadRegion};
use crate::{Memory, MemoryError, OWN_USER};

impl Memory {
    /// Returns handles on the parts of the region of this name, among the names of this process's user.
    /// It is looked for on this node, then on all others that are joined. The handles allow to read
    /// besides. Parts whose nodes are lost are known as such, and the others can be used.
    ///
    /// # Errors
    /// As `map`; `Unfinished` while it is being made or freed.
    pub fn map_spread(&self, name: &str, rights: Rights) -> Result<SpreadRegion, SpreadError> {
        self.map_spread_of(OWN_USER, name, rights)
    }

    /// The same, among the names of another user.
    ///
    /// # Errors
    /// As `map_spread`.
    pub fn map_spread_of(
        &self,
        user: u32,
        name: &str,
        rights: Rights,
    ) -> Result<SpreadRegion, SpreadError> {
        let name = &part_name(name)?;
        let sought = Sought { memory: self, user, name };
        let mut none = None;
        for node in self.nodes_to_ask()? {
            match sought.on(node, rights) {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(SpreadError::Memory(MemoryError::Unreachable { .. })) => {}
                // It ended between the name and its bytes.
                Err(SpreadError::Memory(MemoryError::Stale { .. })) => {}
                Err(SpreadError::Memory(error)) if error.refusal() == Some(Code::NotFound) => {
                    none = none.or(Some(error));
                }
                Err(error) => return Err(error),
            }
        }
        Err(none.unwrap_or(NOT_FOUND).into())
    }

    /// Returns nodes whose regions can be asked for now: this one, as 0, and those that are joined; the
    /// one that `on` has named alone.
    ///
    /// # Errors
    /// The control plane does not answer.
    pub fn nodes_to_ask(&self) -> Result<Vec<u64>, MemoryError> {
        match self.node {
            Some(node) => Ok(vec![node]),
            None => self.nodes(),
        }
    }

    /// This node's number; 0 without a cluster.
    pub(super) fn own_node(&self) -> Result<u64, MemoryError> {
        Ok(self.listed_nodes(0)?.map_or(0, |listed| listed.own))
    }

    fn listed_nodes(&self, from: u64) -> Result<Option<Listed>, MemoryError> {
        let asked = ClusterRequest::Nodes { from }.encode();
        let (reply, _) = self.shared.control.ask(asked, &[]).map_err(MemoryError::Control)?;
        // Without a cluster, or where this program may not know of it, there are none.
        let Reply::Own(own) = reply else { return Ok(None) };
        let ClusterReply::Listed(listed) =
            ClusterReply::decode(&own).map_err(|_| MemoryError::Corrupt)?;
        Ok(Some(listed))
    }

    /// This node, as 0, and all that are joined.
    pub(super) fn nodes(&self) -> Result<Vec<u64>, MemoryError> {
        let (mut nodes, mut from) = (vec![0], 0);
        loop {
            let Some(listed) = self.listed_nodes(from)? else { return Ok(nodes) };
            let joined = listed.nodes.iter().filter(|it| it.state == MemberState::Joined);
            nodes.extend(joined.map(|it| it.node));
            match listed.next {
                0 => return Ok(nodes),
                // It goes forward, so it ends.
                next if next > from => from = next,
                _ => return Err(MemoryError::Corrupt),
            }
        }
    }
}

impl Sought<'_> {
    /// The region whose part a node has; `None` when it has the remains of one, which are freed.
    fn on(&self, node: u64, rights: Rights) -> Result<Option<SpreadRegion>, SpreadError> {
        let Found { region, head } = self.find(node, rights)?;
        let SpreadHead { state, number, directory } = head;
        if state != SpreadState::Ready {
            drop(region);
            self.settle(&directory, (node, state))?;
            return Ok(None);
        }
        let here = self.memory.own_node()?;
        let mut first = Some(region);
        let mut parts = Vec::new();
        for (at, listed) in directory.parts.iter().enumerate() {
            let found = match first.take_if(|_| at == number) {
                Some(region) => Ok(Arc::new(region)),
                None => match self.part(at, &directory, rights)? {
                    Ok(Found { region, head }) if head.state == SpreadState::Ready => {
                        Ok(Arc::new(region))
                    }
                    Ok(Found { region, head }) => {
                        drop((region, first, parts));
                        self.settle(&directory, (listed.node, head.state))?;
                        return Ok(None);
                    }
                    Err(why) => Err(why),
                },
            };
            let (made_on, bytes) = (listed.node, listed.bytes.clone());
            parts.push(Part { made_on, here, bytes, found });
        }
        Ok(Some(SpreadRegion { memory: self.memory.clone(), directory, parts }))
    }

    /// Frees what is left of a region that is not to be used, if nobody is at it.
    fn settle(
        &self,
        directory: &Directory,
        (node, state): (u64, SpreadState),
    ) -> Result<(), SpreadError> {
        Remains { sought: self, directory }.end(node, state)
    }
}
