//! How much there is in all, and of each other node, so that no node has everybody's.

use std::collections::HashMap;

/// A node has one in so many of what is free, so that the more nodes have taken some, the less is
/// left to each, and there is always some for one that has none.
const FREE_PER_SHARE: usize = 4;

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
        let share = ((self.of_all - self.all) / FREE_PER_SHARE).max(1);
        Some(self.of_each.min(share)).filter(|limit| its >= *limit)
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
        let mut calls = PerNode::new(20, 2);
        calls.add(1);
        calls.add(1);
        assert_eq!((calls.full(1), calls.full(2)), (Some(2), None));
        (0..18).for_each(|_| calls.add(2));
        assert_eq!((calls.full(3), calls.full(4)), (Some(20), Some(20)));
        [1, 1].into_iter().for_each(|node| calls.remove(node));
        assert_eq!((calls.full(1), calls.full(2)), (None, Some(1)));
        assert_eq!(calls.each.len(), 1, "nothing is kept of a node without any");
    }

    #[test]
    fn however_many_nodes_take_what_they_may_another_has_some() {
        for nodes in [1, 8, 64, 191] {
            let mut asks = PerNode::new(2048, 256);
            // All of them in turns, until nobody may have more.
            while (1..=nodes).any(|node| asks.full(node).is_none()) {
                for node in 1..=nodes {
                    if asks.full(node).is_none() {
                        asks.add(node);
                    }
                }
            }
            let each = asks.each.values().copied().min();
            assert!(each >= Some(8) && asks.full(999).is_none(), "{nodes} nodes: {each:?}");
            let free = asks.of_all - asks.all;
            assert!(free >= 40, "{nodes} nodes leave {free}");
        }
    }
}
