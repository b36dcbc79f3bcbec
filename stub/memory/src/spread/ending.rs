//! The end of a region that is spread: freed by somebody who may, or by whoever meets what is left.

use std::sync::Arc;

use heliostat_abi::memory::spread::{Directory, SpreadState, STATE_AT};
use heliostat_abi::memory::Rights;

use super::sought::{Found, Sought};
use super::{Part, SpreadError, SpreadRegion};
use crate::MemoryError;

/// What is left of a region that is not to be used.
pub(super) struct Remains<'a> {
    pub(super) sought: &'a Sought<'a>,
    pub(super) directory: &'a Directory,
}

impl SpreadRegion {
    /// Ends the region, for everybody. Parts whose nodes are lost now stay, if they are lasting and if
    /// they are still there: whoever maps the region then finds all other parts lost, and may free it.
    ///
    /// # Errors
    /// `Held`, and nothing is done; `Part` without MANAGE and ATOMIC, or about the first part that could
    /// not be freed, where all others were.
    pub fn free(self) -> Result<(), SpreadError> {
        let is_held = |part: &&Part| part.found.as_ref().is_ok_and(|it| Arc::strong_count(it) > 1);
        if let Some(part) = self.parts.iter().find(is_held) {
            return Err(SpreadError::Held { node: part.node() });
        }
        // The first part decides, so that whoever comes after a crash goes on.
        let mut failed = None;
        for part in &self.parts {
            let freed = SpreadState::Freed as u64;
            match part.do_with(|region| region.swap(STATE_AT, freed)) {
                Err(error @ SpreadError::Part { why: MemoryError::Denied { .. }, .. }) => {
                    return Err(error);
                }
                // It is gone already.
                Err(SpreadError::Part { why: MemoryError::Stale { .. }, .. }) => {}
                said => failed = failed.or(said.err()),
            }
        }
        for part in self.parts {
            let (node, from, to) = (part.node(), part.bytes.start, part.bytes.end);
            let Ok(Some(region)) = part.found.map(Arc::into_inner) else { continue };
            let freed = region.free();
            let why = freed.err().filter(|why| !matches!(why, MemoryError::Stale { .. }));
            failed = failed.or(why.map(|why| SpreadError::Part { node, from, to, why }));
        }
        failed.map_or(Ok(()), Err)
    }
}

impl Remains<'_> {
    /// Frees all parts if the region is freed, or if its maker has died.
    ///
    /// # Errors
    /// `Unfinished` when somebody is at it.
    pub(super) fn end(&self, node: u64, state: SpreadState) -> Result<(), SpreadError> {
        if state == SpreadState::Making && !self.is_abandoned(node)? {
            return Err(SpreadError::Unfinished { node });
        }
        for number in 0..self.directory.parts.len() {
            // Who may not free it leaves it to others; it is not found in any case.
            if let Ok(Ok(Found { region, .. })) =
                self.sought.part(number, self.directory, Rights::ALL)
            {
                let _ = region.swap(STATE_AT, SpreadState::Freed as u64);
                let _ = region.free();
            }
        }
        Ok(())
    }

    /// Whether nobody has a handle on the part that a node has, its maker least of all.
    fn is_abandoned(&self, node: u64) -> Result<bool, SpreadError> {
        let Sought { memory, user, name } = *self.sought;
        let listed = memory.at(node).list_of(user, name)?;
        let is_it = |it: &&crate::Listed| it.name.as_ref().is_some_and(|it| it.as_str() == name);
        Ok(listed.iter().find(is_it).is_none_or(|it| it.lasting && it.handles == 0))
    }
}
