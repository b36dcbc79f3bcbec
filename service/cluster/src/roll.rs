//! Who is a member by the registry's word: which life of each node is registered, and which is dead.
//!
//! A link proves that a node knows the secret; the registry says that it lives. Both have to be so.

use std::collections::BTreeMap;

use crate::found::Found;

/// What the registry says.
#[derive(Clone, Debug, Default)]
pub struct Roll {
    /// Its revision of the last change of membership; 0 before this node was registered.
    pub(crate) epoch: u64,
    /// Whether this node is registered itself: else it believes nobody.
    pub(crate) is_in: bool,
    /// Which life of each node is registered.
    pub(crate) here: BTreeMap<u64, u64>,
    /// The last life of each node that was declared dead.
    pub(crate) dead: BTreeMap<u64, u64>,
    /// Nodes that are linked and not named yet, by link.
    pub(crate) waiting: BTreeMap<u64, Found>,
}

/// What the registry makes of a life of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// It is registered.
    Member,
    /// It was not heard of yet, or nothing is heard at all.
    Unknown,
    /// It was declared dead, or a later one is registered.
    Dead,
}

impl Roll {
    /// What it makes of a link.
    pub(crate) fn standing(&self, found: Found) -> Standing {
        let Found { node, incarnation, .. } = found;
        let is_dead = self.dead.get(&node).is_some_and(|dead| incarnation <= *dead);
        match self.here.get(&node) {
            _ if is_dead => Standing::Dead,
            Some(here) if incarnation < *here => Standing::Dead,
            Some(here) if incarnation == *here && self.is_in => Standing::Member,
            _ => Standing::Unknown,
        }
    }

    /// A life of a node is dead.
    pub(crate) fn bury(&mut self, node: u64, incarnation: u64) {
        let dead = self.dead.entry(node).or_insert(incarnation);
        *dead = (*dead).max(incarnation);
    }
}
