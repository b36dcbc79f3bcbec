//! How much there is in all, and of each other node, so that no node has everybody's.

use std::collections::HashMap;

/// Something that is counted, and its limits.
#[derive(Debug)]
pub struct PerNode {
    of_all: usize,
    of_each: usize,
    all: usize,
    each: HashMap<u64, usize>,
}

impl PerNode {
    /// Nothing yet; so many there may be in all, and of each node.
    pub fn new(of_all: usize, of_each: usize) -> PerNode {
        PerNode { of_all, of_each, all: 0, each: HashMap::new() }
    }

    /// The limit that leaves no room for one more of this node, if one does.
    pub fn full(&self, node: u64) -> Option<usize> {
        if self.all >= self.of_all {
            return Some(self.of_all);
        }
        let its = self.each.get(&node).copied().unwrap_or(0);
        Some(self.of_each).filter(|limit| its >= *limit)
    }

    /// One more.
    pub fn add(&mut self, node: u64) {
        self.all += 1;
        *self.each.entry(node).or_default() += 1;
    }

    /// One less, of those that were added.
    pub fn remove(&mut self, node: u64) {
        self.all = self.all.saturating_sub(1);
        if let Some(its) = self.each.get_mut(&node) {
            *its -= 1;
            if *its == 0 {
                self.each.remove(&node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_has_all_of_its_own_leaves_the_others_theirs() {
        let mut calls = PerNode::new(5, 2);
        calls.add(1);
        calls.add(1);
        assert_eq!((calls.full(1), calls.full(2)), (Some(2), None));
        [2, 2, 3].into_iter().for_each(|node| calls.add(node));
        assert_eq!((calls.full(3), calls.full(4)), (Some(5), Some(5)));
        [1, 1].into_iter().for_each(|node| calls.remove(node));
        assert_eq!((calls.full(1), calls.full(2), calls.full(3)), (None, Some(2), None));
        assert_eq!(calls.each.len(), 2, "nothing is kept of a node without any");
    }
}
