//! Which copies of a segment count: those that are lost, and whoever says so.
//!
//! It leaves to the segment what is read and written on them.

use heliostat::memory::Memory;

use super::{at_each, Segment, LOST};
use crate::LogError;

impl Segment {
    /// Leaves copies out that do not count any more, and says of those that are not there that they do not.
    pub(super) fn leave_out(&mut self, chain: &[usize]) -> Result<(), LogError> {
        let lost = at_each(&mut self.copies, |region| region.fetch_add(LOST, 0))?;
        let lost = lost.iter().fold(0, |lost, word| lost | word);
        self.copies.retain(|copy| lost & 1 << copy.node == 0);
        let first = self.copies.first().ok_or(LogError::Lost)?.node;
        (self.is_hurt, self.has_first) =
            (self.copies.len() < chain.len(), chain.first() == Some(&first));
        let is_here = |node: &usize| self.copies.iter().any(|copy| copy.node == *node);
        let missing = chain.iter().filter(|node| !is_here(node) && lost & 1 << **node == 0);
        let missing = missing.fold(0, |bits, node| bits | 1 << node);
        if missing != 0 {
            self.declare_lost(missing)?;
        }
        Ok(())
    }

    /// Goes on without a copy. That is said on those that are left, so that one that comes back, since it was
    /// only cut off, is not believed; and it takes most of the log's nodes, so that it is not those who
    /// are cut off themselves that say so.
    pub(super) fn lose(&mut self, copy: usize) -> Result<(), LogError> {
        let lost = self.copies.remove(copy);
        self.is_hurt = true;
        self.has_first &= copy != 0;
        self.declare_lost(1 << lost.node)
    }

    fn declare_lost(&mut self, nodes: u64) -> Result<(), LogError> {
        if !most_answer(&self.memory, &self.nodes) {
            return Err(LogError::CutOff);
        }
        for copy in &self.copies {
            let mut word = copy.region.fetch_add(LOST, 0).unwrap_or(nodes);
            while word & nodes != nodes {
                // Who cannot be told is lost too, which the next operation finds.
                let Ok(before) = copy.region.compare_swap(LOST, word, word | nodes) else { break };
                word = if before == word { nodes } else { before };
            }
        }
        if self.copies.is_empty() {
            Err(LogError::Lost)
        } else {
            Ok(())
        }
    }
}

/// Whether a node can be reached.
pub fn answers(memory: &Memory, node: u64) -> bool {
    memory.on(node).list("log/none/").is_ok()
}

/// Whether most of a log's nodes can be reached.
pub fn most_answer(memory: &Memory, nodes: &[u64]) -> bool {
    nodes.iter().filter(|node| answers(memory, **node)).count() * 2 > nodes.len()
}
